"""What responsiveness costs: against fairness on a rigid site, against core-hours on an elastic one, by λ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridtune.report.responsive.rows import Row, rows_of, site_of
from gridtune.report.style import MARKERS, figure, head, save, series_colours

if TYPE_CHECKING:
    from gridtune.report.extras import Material

__all__ = ["write_trade_offs"]

_COST = {
    "rigid": ("fairness", "mean F", True),
    "elastic": ("core_hours", "core-hours", False),
}


def write_trade_offs(material: Material) -> list[Path]:
    """Write a figure of each workload and kind of site: the front, and, where λ varies, what it does."""
    rows, files = rows_of(material.results), []
    for number, workload in enumerate(dict.fromkeys(row.workload for row in rows), start=1):
        for site in ("rigid", "elastic"):
            mine = site_of(rows, workload, site)
            if len(mine) < 2:
                continue
            stem = f"responsive_{number}_{site}"
            files.append(_front(mine, site, workload, material.directory / "plots" / f"{stem}_front.png"))
            if len({row.weight for row in mine}) > 1:
                files.append(
                    _by_weight(mine, site, workload, material.directory / "plots" / f"{stem}_lambda.png")
                )
    return files


def _series(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return rows by policy and what is known of run times, by λ within; pool rules share a series."""
    held: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.weight):
        held.setdefault(row.series, []).append(row)
    return held


def non_dominated(rows: Sequence[Row], cost: str, more_is_better: bool) -> list[Row]:
    """Return the rows that no other beats in mean W and in what it costs, by W."""

    def better(one: Row, other: Row) -> bool:
        gain = one.mean("responsiveness") - other.mean("responsiveness")
        saving = (one.mean(cost) - other.mean(cost)) * (1 if more_is_better else -1)
        return gain >= 0 and saving >= 0 and gain + saving > 0

    front = [row for row in rows if not any(better(other, row) for other in rows)]
    return sorted(front, key=lambda row: row.mean("responsiveness"))


def _front(rows: Sequence[Row], site: str, workload: str, path: Path) -> Path:
    cost, words, more_is_better = _COST[site]
    series = _series(rows)
    colours = series_colours(list(series))
    with figure(9.5, 5) as (drawing, axes):
        for index, (name, members) in enumerate(series.items()):
            axes.plot(
                [row.mean(cost) for row in members],
                [row.mean("responsiveness") for row in members],
                linestyle="none",
                marker=MARKERS[index // len(MARKERS) % len(MARKERS)],
                color=colours[name],
                label=name,
            )
        front = non_dominated(rows, cost, more_is_better)
        axes.plot(
            [row.mean(cost) for row in front],
            [row.mean("responsiveness") for row in front],
            color="#222222",
            linewidth=1,
            zorder=1,
            label="not dominated",
        )
        axes.set_xlabel(words)
        axes.set_ylabel("mean W over all jobs")
        head(axes, f"Responsiveness against {words}: {workload}, {site}")
        _legend(drawing, axes)
        return save(drawing, path)


def _by_weight(rows: Sequence[Row], site: str, workload: str, path: Path) -> Path:
    cost, words, _ = _COST[site]
    panels = (
        ("interactive_responsiveness", "W, interactive"),
        ("batch_responsiveness", "W, batch"),
        (cost, words),
    )
    held: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.weight):
        held.setdefault(f"{row.label}, {row.estimates}", []).append(row)
    series = {name: members for name, members in held.items() if len(members) > 1}
    colours = series_colours(list(series))
    with figure(12, 4.2, ncols=3) as (drawing, axes):
        for panel, (metric, label) in zip(axes, panels, strict=True):
            for index, (name, members) in enumerate(series.items()):
                panel.errorbar(
                    [row.weight for row in members],
                    [row.mean(metric) for row in members],
                    yerr=[0 if len(row.results) < 2 else row.spread(metric) for row in members],
                    marker=MARKERS[index // len(MARKERS) % len(MARKERS)],
                    color=colours[name],
                    capsize=2,
                    label=name,
                )
            panel.set_xlabel("λ, weight of responsiveness")
            panel.set_title(label)
        drawing.suptitle(f"{workload}, {site}; bars: standard deviation over replicates")
        _legend(drawing, axes[0])
        return save(drawing, path)


def _legend(drawing: Any, axes: Any) -> None:
    drawing.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
