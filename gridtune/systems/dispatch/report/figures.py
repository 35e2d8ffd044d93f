"""Figures: learning over batches (the paper's Figure 4), recovery from a change, calibration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gridtune.core.style import BASELINE, MARKERS, PALETTE, figure, head, save
from gridtune.core.system import FinishedSweep
from gridtune.systems.dispatch.report.tables import Method, gather, medians, write_comparison

__all__ = ["write"]

#: Batches that one point of the learning curve is the mean of, as in the paper.
_SPAN = 10
#: The fewest points worth a curve.
_POINTS = 5
_PAPERS = ("j48", "naive_bayes", "lwl")


def write(sweep: FinishedSweep) -> list[Path]:
    """Write the comparison with the paper, and figures of learning, recovery and calibration."""
    methods, folder = gather(sweep.results), sweep.directory / "plots"
    files, workloads = write_comparison(methods, sweep), {method.workload for method in methods}
    for workload in dict.fromkeys(method.workload for method in methods):
        own = [method for method in methods if method.workload == workload]
        end = f"-{workload}" if len(workloads) > 1 else ""
        files += _learning(own, folder / f"learning{end}.png")
        files += _recovery(own, folder / f"recovery{end}.png")
        files += _calibration(own, folder / f"calibration{end}.png")
    return files


def _learning(methods: Sequence[Method], path: Path) -> Iterator[Path]:
    """Draw moving means of the tardiness; insertion rules, which learn nothing, by their mean."""
    learning = [method for method in methods if method.of("mode") == "direct"]
    rules = [method for method in methods if method.learner == "none" and method.of("rule") in {"edd", "erd"}]
    if not learning or learning[0].tardiness.shape[1] < _SPAN + _POINTS - 1:
        return
    sizes = np.concatenate([method.jobs.ravel() for method in learning])
    fewest, most = int(sizes.min()), int(sizes.max())
    jobs = f"{most:,} jobs" if fewest == most else f"up to {most:,} jobs"
    with figure(8.5, 4.6) as (drawing, axes):
        for place, method in enumerate(learning):
            late = method.tardiness.mean(axis=0)
            moving = np.convolve(late, np.ones(_SPAN) / _SPAN, "valid")
            first = np.arange(1, len(moving) + 1)
            axes.plot(first, moving, **_style(place), markersize=4, label=method.label)
        for method, style in zip(rules, ("-", "--", ":", "-."), strict=False):
            axes.axhline(
                method.tardiness.mean(), color=BASELINE, linestyle=style, linewidth=1.2, label=method.label
            )
        label = f"first of {_SPAN} batches of {jobs}; a point is their mean"
        axes.set(xlabel=label, ylabel="mean tardiness, s")
        head(axes, "Learning from nothing", "means over replicates; lower is better")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        yield save(drawing, path)


def _recovery(methods: Sequence[Method], path: Path) -> Iterator[Path]:
    """Draw jobs in time, with over without a learner, by batch: a panel for each base selector."""
    changed = [method for method in methods if method.of("mode") == "assist" and method.of("change_after")]
    if not changed:
        return
    bases = dict.fromkeys(method.base for method in changed)
    with _panels(changed, bases, 4.2, "jobs in time, with a learner over without", path) as (panels, styles):
        for axes, base in panels:
            own = [method for method in changed if method.base == base]
            for method in own:
                middle = medians(method.relative, axis=0)
                batches = np.arange(1, len(middle) + 1)
                axes.plot(batches, middle, **styles[method.label], label=method.label)
            after = int(own[0].of("change_after"))
            axes.axhline(1.0, color=BASELINE, linewidth=1.0)
            axes.axvline(after + 0.5, color="#999999", linestyle="--", linewidth=1.0)
            place = {"xy": (after + 0.55, 0.02), "xycoords": ("data", "axes fraction")}
            axes.annotate("speeds change", **place, fontsize=8, color="#666666")
            axes.set(xlabel="batch", xticks=np.arange(1, own[0].relative.shape[1] + 1))
    yield path


@contextmanager
def _panels(
    methods: Sequence[Method], bases: Iterable[str], height: float, label: str, path: Path
) -> Iterator[tuple[list[tuple[Any, str]], dict[str, dict[str, Any]]]]:
    """Yield a panel for each base and the style of each method's name; then write one legend beside all."""
    named = dict.fromkeys(method.label for method in methods)
    styles, bases = {name: _style(place) for place, name in enumerate(named)}, list(bases)
    with figure(4.0 * len(bases), height, 1, ncols=len(bases), sharey=True, squeeze=False) as (drawing, grid):
        yield list(zip(grid[0], bases, strict=True)), styles
        handles: dict[str, Any] = {}
        for axes, base in zip(grid[0], bases, strict=True):
            head(axes, base)
            for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(name, handle)
        grid[0][0].set_ylabel(label)
        place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "markerscale": 0.8}
        grid[0][-1].legend(handles.values(), handles, **place)
        save(drawing, path)


def _style(place: int) -> dict[str, Any]:
    """Return the color and marker of a place in the palette."""
    return {"color": PALETTE[place % len(PALETTE)], "marker": MARKERS[place % len(MARKERS)]}


def _calibration(methods: Sequence[Method], path: Path) -> Iterator[Path]:
    """Draw the share of jobs in time over the predicted chance: a panel for each base rule."""
    # Methods that predict chances, without changes, setting aside or another order of the queues.
    shown = [
        method
        for method in methods
        if not method.of("change_after")
        and not method.of("set_aside")
        and method.learner != "none"
        and method.reliability.shape[1] > 0
        and method.of("order") in (None, "due_date")
    ]
    if not shown:
        return
    bases = dict.fromkeys(method.base if method.of("mode") == "assist" else "direct" for method in shown)
    with _panels(shown, bases, 4.4, "share of jobs that did", path) as (panels, styles):
        for axes, base in panels:
            axes.plot([0, 1], [0, 1], color=BASELINE, linewidth=1.0)
            for method in (method for method in shown if base in (method.base, "direct")):
                style = styles[method.label]
                chance, share, jobs = method.reliability
                line = "--" if method.learner in _PAPERS else "-"
                axes.plot(chance, share, color=style["color"], linewidth=1.0, linestyle=line)
                axes.scatter(chance, share, s=8 + 80 * jobs / jobs.sum(), **style, label=method.label)
            axes.set_xlabel("predicted chance of ending in time")
    yield path
