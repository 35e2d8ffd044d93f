"""The report of a sweep, and its figures: of searches, and of provisioned and best-effort submissions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gridtune.core.style import (
    BASELINE,
    MARKERS,
    PALETTE,
    UNSURE,
    figure,
    group_thousands,
    head,
    plain_logarithms,
    save,
)
from gridtune.statistics.inference import bootstrap_interval
from gridtune.statistics.pareto import merge_fronts
from gridtune.systems.provisioning.metrics import HOUR
from gridtune.systems.provisioning.parameters import SEARCHES
from gridtune.systems.provisioning.report.tables import COSTS, Row, by_value, varying, write_comparison
from gridtune.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gridtune.core.system import FinishedSweep


__all__ = ["merged_counts", "write", "write_fronts", "write_submissions"]

#: What titles say for the names of searches.
_SEARCHES = {
    "moga": "genetic search (MOGA)",
    "nsga2": "NSGA-II",
    "memetic": "memetic search",
    "random": "random plans",
}
_SETTINGS = ("population", "iterations", "crossover_points", "mutation")


def write(sweep: FinishedSweep) -> list[Path]:
    """Write a table always, and each figure for whose axes the sweep has dimensions."""
    rows = Row.of(sweep.results)
    if not rows:
        return []
    return [*write_comparison(sweep, rows), *write_submissions(sweep, rows), *write_fronts(sweep, rows)]


def write_fronts(sweep: FinishedSweep, rows: Sequence[Row]) -> list[Path]:
    """Draw the plans of one submission, the choice by α, the schedulers and the settings of the search."""
    searched = [row for row in rows if not row.best_effort and row.get("search") in SEARCHES]
    random = [row for row in searched if row.get("offers") == "poisson"]
    folder, paths = sweep.directory / "plots", []
    if random and not any(varying(random, name) for name in _SETTINGS):
        paths.append(_draw_plans(sweep, random[0], folder / "provisioning_plans.png"))
        if varying(random, "alpha"):
            paths.append(_draw_choice(random, folder / "provisioning_choice.png"))
    if random and varying(random, "scheduler"):
        counts = merged_counts(random)
        paths.append(_draw_schedulers(counts, folder / "provisioning_schedulers.png"))
        path = sweep.directory / "schedulers.csv"
        lines = [",".join([name, *map(str, plans)]) for name, plans in counts.items()]
        path.write_text("\n".join(["scheduler,plans of each merged front", *lines]) + "\n", encoding="utf-8")
        paths.append(path)
    published = [row for row in searched if row.get("search") == "moga"]
    if varying(published, "population") and varying(published, "iterations"):
        paths.append(_draw_settings(published, folder / "provisioning_settings.png"))
    return paths


def _draw_plans(sweep: FinishedSweep, row: Row, path: Path) -> Path:
    """Draw all distinct feasible plans that a search evaluated, and its front (figure 1)."""
    tables = sweep.tables_of(row.results[0])
    with figure(6.6, 4.4) as (drawing, axes):
        for name, label, style in (
            ("solutions", "feasible plans", {"color": UNSURE, "s": 9, "alpha": 0.5}),
            ("front", "plans that no other dominates", {"color": PALETTE[1], "s": 26, "zorder": 3}),
        ):
            plans = tables[name]
            x, y = (plans[cost].to_numpy() / HOUR for cost in ("makespan", "allocation_cost"))
            axes.scatter(x, y, label=f"{label} ({len(x):,})", linewidths=0, **style)
        axes.set(xlabel="makespan, hours", ylabel="allocation cost, SU")
        axes.legend()
        head(
            axes,
            "Plans that the search evaluated",
            f"{row.results[0].replicate}, {_SEARCHES.get(row.get('search'), row.get('search'))}",
        )
        return save(drawing, path)


def _draw_choice(rows: Sequence[Row], path: Path) -> Path:
    """Draw the costs of the plan chosen from the front, over α (figure 2)."""
    rows = [row for row in rows if "alpha" in row.parameters]
    with figure(9.6, 3.6, ncols=2) as (drawing, panels):
        for index, (metric, unit, label) in enumerate(COSTS):
            alpha, y = [row.get("alpha") for row in rows], [row.mean(metric) / unit for row in rows]
            spread = [row.spread(metric) / unit for row in rows]
            style: dict[str, Any] = {"color": PALETTE[index], "marker": MARKERS[index], "capsize": 3}
            panels[index].errorbar(alpha, y, spread, elinewidth=0.9, **style)
            panels[index].set(xlabel="trade-off factor α", ylabel=label)
        head(panels[0], "The plan chosen from the front", f"mean and standard deviation, n = {len(rows[0])}")
        return save(drawing, path)


def merged_counts(rows: Sequence[Row]) -> dict[str, list[int]]:
    """Return for each scheduler the number of plans of the merged front that it found, by replicate.

    Plans of equal costs count for each scheduler that found one. The last entry, `all`, counts each pair of
    costs once.
    """
    fronts: dict[str, dict[str, list[list[float]]]] = {}
    for scheduler, mine in by_value(rows, "scheduler").items():
        for result in mine[0].results:
            fronts.setdefault(result.replicate, {})[scheduler] = result.notes.get("front", [])
    names = list(by_value(rows, "scheduler"))
    counts: dict[str, list[int]] = {name: [] for name in [*names, "all"]}
    for by_scheduler in fronts.values():
        if len(by_scheduler) < len(names):
            continue
        points, owner = merge_fronts([np.array(by_scheduler[name], float).reshape(-1, 2) for name in names])
        owned = Counter(owner.tolist())
        for place, name in enumerate(names):
            counts[name].append(owned[place])
        counts["all"].append(len(np.unique(points, axis=0)))
    return counts


def _draw_schedulers(counts: dict[str, list[int]], path: Path) -> Path:
    """Draw how many plans of the merged front each scheduler finds (figure 3)."""
    names = [name for name in counts if counts[name]]
    with figure(6.6, 4.0) as (drawing, axes):
        for place, name in enumerate(names):
            mean = float(np.mean(counts[name]))
            low, high = bootstrap_interval(counts[name], rng=np.random.default_rng(0))
            ends = [[mean - float(low)], [float(high) - mean]]
            colour = UNSURE if name == "all" else PALETTE[place]
            axes.bar(place, mean, 0.62, color=colour, yerr=ends, capsize=4, ecolor="#444444")
            axes.annotate(
                f"{mean:.1f}", (place, 0), (0, 5), textcoords="offset points", ha="center", color="w"
            )
        axes.set_xticks(range(len(names)), names)
        axes.grid(False, axis="x")
        axes.set(ylabel="plans of the merged front")
        axes.margins(y=0.15)
        note = f"mean over {len(counts[names[0]])} sets of slots, 95 % interval"
        head(axes, "The scheduler that finds the best plans", note)
        return save(drawing, path)


def _draw_settings(rows: Sequence[Row], path: Path) -> Path:
    """Draw the hypervolume over evaluations for each population, and over the other settings."""
    with figure(11.5, 3.8, ncols=2, sharey=True) as (drawing, (left, right)):
        plain = [row for row in rows if row.get("crossover_points") == 2 and row.get("mutation") == 1]
        for index, (population, mine) in enumerate(by_value(plain, "population").items()):
            x = [row.mean("evaluations") for row in mine]
            y, spread = _with_intervals([row] for row in mine)
            style = {"color": PALETTE[index], "marker": MARKERS[index]}
            left.errorbar(x, y, spread, label=f"population {population}", capsize=3, **style)
        left.set(xscale="log", xlabel="plans evaluated", ylabel="hypervolume")
        plain_logarithms(left.xaxis)
        left.legend()
        for index, (mutation, mutated) in enumerate(by_value(_crossed(rows), "mutation").items()):
            groups = by_value(mutated, "crossover_points")
            style = {"color": PALETTE[index + 3], "marker": MARKERS[index + 3]}
            y, ends = _with_intervals(groups.values())
            label = f"{mutation:g} bit{'' if mutation == 1 else 's'} flipped"
            right.errorbar(list(groups), y, ends, label=label, capsize=3, **style)
        right.set(xlabel="crossover points", xticks=sorted(by_value(rows, "crossover_points")))
        right.legend()
        head(left, "Population and iterations", "two-point crossover, one bit flipped; 95 % intervals")
        head(right, "Crossover and mutation", "at equal populations and iterations")
        return save(drawing, path)


def _crossed(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the populations and iterations at which most other settings were varied."""
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.get("population"), row.get("iterations")), []).append(row)
    most = max(map(len, groups.values()))
    return [row for group in groups.values() if len(group) == most for row in group]


def _with_intervals(groups: Iterable[Sequence[Row]]) -> tuple[list[float], FloatArray]:
    """Return the mean hypervolume of each group of rows, and the lengths of its interval below and above."""
    pooled = [_pooled(rows) for rows in groups]
    return [mean for mean, _ in pooled], np.array([ends for _, ends in pooled]).T


def _pooled(rows: Sequence[Row]) -> tuple[float, tuple[float, float]]:
    """Return the mean hypervolume over submissions that all rows have, and the lengths of its interval."""
    by_submission: dict[str, list[float]] = {}
    for row in rows:
        for result, value in zip(row.results, row.values("hypervolume"), strict=True):
            if not np.isnan(value):
                by_submission.setdefault(result.replicate, []).append(float(value))
    values = np.array([np.mean(volumes) for volumes in by_submission.values() if len(volumes) == len(rows)])
    if len(values) == 0:
        return float("nan"), (float("nan"), float("nan"))
    low, high = bootstrap_interval(values, rng=np.random.default_rng(0))
    mean = float(values.mean())
    return mean, (mean - float(low), float(high) - mean)


_SPREAD = "means; bars: 10–90 % quantiles of submissions"
_RATIO = "ratio of the means over submissions"
_PERCENT = (
    ("workflow_makespan", "makespan, % of best effort"),
    ("allocation_cost", "allocation cost, % of best effort"),
)


def write_submissions(sweep: FinishedSweep, rows: Sequence[Row]) -> list[Path]:
    """Draw the figures for whose axes the sweep has dimensions, with a row of panels for each workload."""
    planned = [row for row in rows if not row.best_effort]
    by_size, by_load = varying(planned, "task_processors"), varying(planned, "copy_probability")
    drawn: list[tuple[str, Callable[..., None], str]] = []
    subtitles = {"trade_off": _SPREAD, "load": _SPREAD}
    if varying(planned, "alpha") and not (by_size or by_load) and planned[0].get("offers") == "site":
        drawn.append(("trade_off", _trade_off, "Provisioned against best effort, by trade-off factor"))
    if by_size and not by_load:
        drawn.append(("task_size", _task_size, "Wider tasks gain more"))
    if by_load and by_size:
        drawn.append(("load_and_size", _load_and_size, "Gain over the load, by size of tasks"))
    if by_load and not by_size:
        drawn.append(("load", _load, "Provisioned and best effort over the load"))
    folder, paths = sweep.directory / "plots", []
    for name, draw, title in drawn:
        groups = by_value(rows, "workload")
        with figure(11, 3.7 * len(groups), len(groups), ncols=2, squeeze=False) as (drawing, panels):
            for axes, (workload, mine) in zip(panels, groups.items(), strict=True):
                draw(axes, mine)
                heading = f"{title}: {workload}" if len(groups) > 1 else title
                head(axes[0], heading, subtitles.get(name, _RATIO))
                # Lines go from corner to corner: a legend within a panel would cross one.
                axes[-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
                for panel in axes:
                    group_thousands(panel.yaxis)
            paths.append(save(drawing, folder / f"provisioning_{name}.png"))
    return paths


def _line(
    axes: Axes, x: Sequence[float], rows: Sequence[Row], cost: tuple[str, float, str], index: int, label: str
) -> None:
    """Draw means, with bars between quantiles: unlike standard deviations, they stay within the costs."""
    metric, unit, _ = cost
    means = [row.mean(metric) / unit for row in rows]
    axes.plot(x, means, color=PALETTE[index], marker=MARKERS[index], label=label)
    # A mean may lie outside its bar, so bars have their own centre.
    low, high = np.array([row.quantiles(metric) for row in rows]).T / unit
    style: dict[str, Any] = {"color": PALETTE[index], "capsize": 3, "elinewidth": 0.9, "fmt": "none"}
    axes.errorbar(x, (low + high) / 2, (high - low) / 2, **style)


def _trade_off(panels: Sequence[Axes], rows: Sequence[Row]) -> None:
    """Makespan and cost over α, with best effort as a level (figure 5)."""
    planned, best_effort = [r for r in rows if not r.best_effort], [r for r in rows if r.best_effort]
    alpha = [row.get("alpha") for row in planned]
    for axes, cost in zip(panels, COSTS, strict=True):
        metric, unit, label = cost
        _line(axes, alpha, planned, cost, 0, "provisioned")
        for row in best_effort[:1]:
            axes.axhline(row.mean(metric) / unit, color=BASELINE, label="best effort", lw=1.4)
            band: dict[str, Any] = {"color": BASELINE, "alpha": 0.1, "lw": 0}
            low, high = row.quantiles(metric)
            axes.axhspan(low / unit, high / unit, label="best effort, 10–90 %", **band)
        axes.set(xlabel="trade-off factor α: 0 makespan alone, 1 cost alone", ylabel=label)


def _percentages(
    panels: Sequence[Axes],
    rows: Sequence[Row],
    by: tuple[str, str],
    axis: str,
    places: Callable[[Row], float],
) -> None:
    """Draw makespan and cost relative to best effort, a line for each value of a parameter."""
    name, label = by
    for axes, (metric, ylabel) in zip(panels, _PERCENT, strict=True):
        groups = by_value((row for row in rows if not row.best_effort), name)
        for index, (value, mine) in enumerate(groups.items()):
            y = [row.percent(metric) for row in mine]
            style: dict[str, Any] = {"color": PALETTE[index], "marker": MARKERS[index]}
            axes.plot(list(map(places, mine)), y, label=label.format(value), **style)
        axes.axhline(100, color=BASELINE, lw=1.2)
        axes.set(xlabel=axis, ylabel=ylabel)
        axes.margins(y=0.15)


def _task_size(panels: Sequence[Axes], rows: Sequence[Row]) -> None:
    """Makespan and cost relative to best effort over the size of tasks, for each α (figure 6)."""
    by, axis = ("alpha", "α = {:g}"), "mean processors of a task"
    _percentages(panels, rows, by, axis, lambda row: float(row.get("task_processors")))


def _load_and_size(panels: Sequence[Axes], rows: Sequence[Row]) -> None:
    """Makespan and cost relative to best effort over the load, for each size of tasks (figure 7)."""
    by, axis = ("task_processors", "{:g} processors"), "offered load of the site, %"
    _percentages(panels, rows, by, axis, lambda row: 100 * row.mean("offered_load"))


def _load(panels: Sequence[Axes], rows: Sequence[Row]) -> None:
    """Makespan and cost over the load (figure 9)."""
    for axes, cost in zip(panels, COSTS, strict=True):
        for index, (approach, mine) in enumerate(by_value(rows, "approach").items()):
            load = [100 * row.mean("offered_load") for row in mine]
            _line(axes, load, mine, cost, index, approach.replace("_", " "))
        axes.set(xlabel="offered load of the site, %", ylabel=cost[2])
        axes.set_ylim(0, 1.08 * axes.get_ylim()[1])
