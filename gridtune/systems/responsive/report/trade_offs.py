"""The price of responsiveness: fairness on a rigid site, core-hours on an elastic one; the effect of λ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gridtune.core.style import MARKERS, figure, group_thousands, head, save, series_colours
from gridtune.systems.responsive.report.alike import SITES, groups_alike, span, wrapped
from gridtune.systems.responsive.report.rows import REWARDS, Row, native_of, rows_of, site_of
from gridtune.types import FloatArray

if TYPE_CHECKING:
    from gridtune.core.system import FinishedSweep

__all__ = ["write_trade_offs"]

#: Series in one figure: more of them would share colours.
_MOST = 6
_OTHERS = "other rules"
#: Line styles of the rules that learners are compared with.
_DASHES = (":", "-.", (0, (5, 1)), (0, (1, 3)))
_EXPLAINED = "means over replicates; rules joined by = coincide"
_COST = {
    "rigid": ("fairness_mean", "mean F", True),
    "elastic": ("cost", "cost", False),
    "elastic-paper": ("core_hours", "core-hours", False),
}


def write_trade_offs(sweep: FinishedSweep) -> list[Path]:
    """Write, for each workload and kind of site, the front and, where λ varies, its effect."""
    rows, files = rows_of(sweep.results), []
    for number, workload in enumerate(dict.fromkeys(row.workload for row in rows), start=1):
        for site in REWARDS:
            mine = site_of(rows, workload, site)
            if len(mine) < 2:
                continue
            stem = f"responsive_{number}_{site}"
            files.append(_front(mine, site, workload, sweep.directory / "plots" / f"{stem}_front.png"))
            if len({row.weight for row in mine}) > 1:
                files.append(
                    _by_weight(mine, site, workload, sweep.directory / "plots" / f"{stem}_lambda.png")
                )
    return files


def _series(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return rows by policy and estimates, each series by λ; all pool rules share a series."""
    series: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.weight):
        series.setdefault(row.series, []).append(row)
    return series


def non_dominated(rows: Sequence[Row], cost: str, more_is_better: bool) -> list[Row]:
    """Return the rows that no other dominates in mean W and in its cost, by W."""

    def better(one: Row, other: Row) -> bool:
        gain = one.mean("responsiveness_mean") - other.mean("responsiveness_mean")
        saving = (one.mean(cost) - other.mean(cost)) * (1 if more_is_better else -1)
        return gain >= 0 and saving >= 0 and gain + saving > 0

    front = [row for row in rows if not any(better(other, row) for other in rows)]
    return sorted(front, key=lambda row: row.mean("responsiveness_mean"))


def _front(rows: Sequence[Row], site: str, workload: str, path: Path) -> Path:
    cost, words, more_is_better = _COST[site]
    front = non_dominated(rows, cost, more_is_better)
    groups = _distinct_series(_series(rows), cost)
    shown = _most_relevant(groups, front)
    colours = series_colours(list(shown))
    with figure(9.5, 5) as (drawing, axes):
        for members in (members for name, members in groups.items() if name not in shown):
            look: dict[str, Any] = {"color": "#CFCFCF", "marker": "o", "zorder": 2, "label": _OTHERS}
            axes.plot(*_points(members, cost).T, linestyle="none", **look)
        for index, (name, members) in enumerate(shown.items()):
            # Each marker is smaller than those before it, so that none hides another.
            look = {"color": colours[name], "marker": MARKERS[index], "markersize": 8.5 - index * 0.7}
            axes.plot(*_points(members, cost).T, linestyle="none", zorder=3 + index, label=name, **look)
        # Between two points of the front only the worse one is reachable, so they are joined by steps.
        steps = _points(front, cost)[:: -1 if more_is_better else 1]
        where = "pre" if more_is_better else "post"
        axes.step(*steps.T, where=where, color="#222222", linewidth=1, zorder=1, label="not dominated")
        group_thousands(axes.xaxis)
        axes.set_xlabel(words)
        axes.set_ylabel("mean W over all jobs")
        head(axes, f"Responsiveness against {words}", f"{workload}, {SITES[site]}; {_EXPLAINED}")
        _legend(drawing, axes)
        return save(drawing, path)


def _points(rows: Sequence[Row], cost: str) -> FloatArray:
    """Return cost and W of each row, shape (n, 2)."""
    return np.array([[row.mean(cost), row.mean("responsiveness_mean")] for row in rows])


def _distinct_series(series: Mapping[str, list[Row]], cost: str) -> dict[str, list[Row]]:
    """Return the series by name; those that coincide are one series, under a joint name."""
    shapes = {name: _points(members, cost) for name, members in series.items()}
    groups = groups_alike(shapes, span(shapes))
    return {wrapped(names): [row for name in names for row in series[name]] for names in groups.values()}


def _most_relevant(groups: Mapping[str, list[Row]], front: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the groups to draw in colour: those on the front, the native rule, then the best."""
    own = native_of([row for rows in groups.values() for row in rows])

    def preference(name: str) -> tuple[Any, ...]:
        rows = groups[name]
        best = max(row.mean("responsiveness_mean") for row in rows)
        native = any(row.policy == own for row in rows)
        return (not any(row in front for row in rows), not native, -best)

    return {name: groups[name] for name in sorted(groups, key=preference)[:_MOST]}


def _by_weight(rows: Sequence[Row], site: str, workload: str, path: Path) -> Path:
    cost, words, _ = _COST[site]
    panels = (
        ("interactive_responsiveness_mean", "W, interactive"),
        ("batch_responsiveness_mean", "W, batch"),
        (cost, words),
    )
    learned, levels = _over_weights(rows, learned=True), _levels(_over_weights(rows, learned=False))
    colours = series_colours(list(dict.fromkeys(name.rpartition(", ")[0] for name in learned)))
    with figure(12, 4.6, ncols=3) as (drawing, axes):
        for panel, (metric, label) in zip(axes, panels, strict=True):
            for index, (name, members) in enumerate(levels.items()):
                # A rule does not depend on λ: a level to compare learners with.
                look = {"color": "#8A8A8A", "linestyle": _DASHES[index], "linewidth": 1.2}
                panel.axhline(members[0].mean(metric), label=name, zorder=1, **look)
            for name, members in learned.items():
                policy, _, estimates = name.rpartition(", ")
                panel.errorbar(
                    [row.weight for row in members],
                    [row.mean(metric) for row in members],
                    yerr=[0 if len(row) < 2 else row.spread(metric) for row in members],
                    marker="o" if estimates == "ORA" else "s",
                    linestyle="--" if estimates == "ORA" else "-",
                    color=colours[policy],
                    capsize=2,
                    label=name,
                )
            panel.set_xlabel("λ, weight of responsiveness")
            panel.set_title(label)
        group_thousands(axes[2].yaxis)
        replicates = max(map(len, rows))
        title = f"{workload}, {SITES[site]}; bars: standard deviation over {replicates} replicates"
        drawing.suptitle(title, x=0.01, ha="left")
        handles, labels = axes[0].get_legend_handles_labels()
        drawing.legend(handles, [wrapped([label]) for label in labels], loc="outside lower center", ncols=3)
        return save(drawing, path)


def _over_weights(rows: Sequence[Row], *, learned: bool) -> dict[str, list[Row]]:
    """Return the rows of learners or rules that were run with more than one λ, by name and by λ."""
    by_name: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.weight):
        if ("-" in row.policy) == learned:
            by_name.setdefault(f"{row.label}, {row.estimates}", []).append(row)
    return {name: members for name, members in by_name.items() if len(members) > 1}


def _levels(ruled: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
    """Return a few rules to compare learners with: the native one, SJF, SJF with an oracle, FCFS."""
    own = native_of([row for rows in ruled.values() for row in rows])
    order = [(own, "EST"), ("sjf", "EST"), ("sjf", "ORA"), ("fcfs", "EST")]
    names = [
        name for which in order for name, (row, *_) in ruled.items() if (row.policy, row.estimates) == which
    ]
    return {name: ruled[name] for name in names[: len(_DASHES)]}


def _legend(drawing: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    entries = dict(zip(labels, handles, strict=True))
    # The series in the background comes last.
    labels = sorted(entries, key=lambda label: label == _OTHERS)
    drawing.legend([entries[label] for label in labels], labels, loc="outside right upper")
