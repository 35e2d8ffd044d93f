"""One page of plots of a workload.

This module imports Matplotlib: import it only where a page is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from gridtune.errors import WorkloadError
from gridtune.types import FloatArray, IntArray
from gridtune.workload.describe import (
    WorkloadStatistics,
    describe_workload,
)
from gridtune.workload.workload import Workload

_DAY = 86_400
_BLUE, _ORANGE, _GREY = "#2f6f9f", "#d97a27", "#8a8f98"
#: Times that read well on a logarithmic axis.
_TIMES = {
    1: "1 s",
    60: "1 min",
    600: "10 min",
    3600: "1 h",
    36_000: "10 h",
    259_200: "3 d",
    2_592_000: "30 d",
}
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def plot_workload(workload: Workload, path: Path, *, processors: int | None = None) -> None:
    """Draw arrivals, sizes, run times, load and estimates of a workload on one page.

    Parameters
    ----------
    workload
        One job or more.
    path
        The picture to write; its suffix decides the format (png, svg, pdf).
    processors
        The machine's size, where the log does not say it or says another one.

    Raises
    ------
    WorkloadError
        If there are no jobs or the format is unknown.
    """
    statistics = describe_workload(workload, processors=processors)
    # Without pyplot: no window system, no state shared with a caller's own plots.
    figure = Figure(figsize=(13, 9.5), layout="constrained")
    FigureCanvasAgg(figure)
    suffix = path.suffix.lstrip(".").lower()
    if suffix not in figure.canvas.get_supported_filetypes():
        raise WorkloadError(f"no picture format {suffix!r}", path=path, hint="name it .png, .svg or .pdf")
    axes = figure.subplots(3, 2, height_ratios=(1.0, 1.1, 1.0))
    panels = _Panels(workload, statistics)
    figure.suptitle(panels.title(), fontsize=13, x=0.01, ha="left")
    panels.arrivals_per_day(axes[0, 0])
    panels.arrivals_per_hour(axes[0, 1])
    panels.run_time_and_size(axes[1, 0])
    panels.load(axes[1, 1])
    panels.distributions(axes[2, 0])
    panels.accuracy(axes[2, 1])
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.title.set(fontsize=11, fontweight="bold", ha="left", x=0.0)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _edges(submit: IntArray, most: int) -> IntArray:
    """Return edges of at most `most` bins of an hour, 6 hours, a day, a week or 4 weeks over all submissions.

    A last bin that is not full is left out, unless there are few.
    """
    first, span = int(submit.min()), int(np.ptp(submit)) + 1
    width = next((step for step in (3600, 6 * 3600, _DAY, 7 * _DAY) if span / step <= most), 28 * _DAY)
    bins = span // width if span > 10 * width else math.ceil(span / width)
    return first + width * np.arange(bins + 1, dtype=np.int64)


def _width_name(edges: IntArray) -> str:
    names = {3600: "hour", 6 * 3600: "6 hours", _DAY: "day", 7 * _DAY: "week"}
    return names.get(int(edges[1] - edges[0]), "4 weeks")


@dataclass(frozen=True)
class _Panels:
    """The pictures of a workload, each drawn into its axes."""

    workload: Workload
    statistics: WorkloadStatistics

    def _positions(self, axis: Axes, edges: IntArray) -> FloatArray:
        """Return where to plot instants: at their dates (UTC), else at days since the log's second 0."""
        start = self.workload.instant()
        if start is None:
            axis.set_xlabel("days since the log's second 0")
            return edges / _DAY
        locator = AutoDateLocator(minticks=4, maxticks=8)
        axis.xaxis.set_major_locator(locator)
        axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        axis.xaxis_date()
        return np.asarray(date2num((edges + int(start.timestamp())).astype("datetime64[s]")))

    def title(self) -> str:
        """Return the name of the log, and its size."""
        statistics = self.statistics
        parts = [f"{statistics.name}: {statistics.jobs:,} jobs"]
        if statistics.users:
            parts.append(f"{statistics.users:,} users")
        if statistics.processors:
            parts.append(f"{statistics.processors:,} processors")
        parts.append(f"{statistics.span_seconds / _DAY:,.1f} days")
        if not math.isnan(statistics.offered_load):
            parts.append(f"offered load {statistics.offered_load:.2f}")
        return ", ".join(parts)

    def arrivals_per_day(self, axis: Axes) -> None:
        """Draw the submissions over the log."""
        edges = _edges(self.workload.submit_time, 400)
        counts = np.histogram(self.workload.submit_time, edges)[0]
        axis.stairs(counts, self._positions(axis, edges), fill=True, color=_BLUE)
        axis.set(title=f"Submissions per {_width_name(edges)}", ylabel="jobs", ylim=(0, None))
        axis.margins(x=0)

    def arrivals_per_hour(self, axis: Axes) -> None:
        """Draw the submissions over the hours of a week, or of the log's own day."""
        clock, hour, weekday = self.workload.local_clock()
        if not self.statistics.arrivals_by_weekday:
            axis.bar(np.arange(24), self.statistics.arrivals_by_hour, color=_BLUE, width=0.9)
            axis.set(
                title="Submissions by hour of the log's own clock", xlabel="hour", ylabel="share of jobs"
            )
            return
        table = np.zeros((7, 24))
        np.add.at(table, (weekday, hour), 1)
        table *= 100 / table.sum()
        image = axis.imshow(table, aspect="auto", cmap="Blues", vmin=0)
        axis.set_yticks(range(7), _WEEKDAYS)
        axis.set_xticks(range(0, 24, 3))
        axis.set(title=f"Submissions by hour and weekday ({clock})", xlabel="hour")
        axis.figure.colorbar(image, ax=axis, label="% of jobs", pad=0.01)

    def run_time_and_size(self, axis: Axes) -> None:
        """Draw how many jobs have a run time and a size."""
        ran = self.workload.run_time > 0
        size, run = self.workload.processors[ran], self.workload.run_time[ran]
        axis.set(title="Run time against size", xlabel="processors", ylabel="run time")
        if len(size) == 0:
            _nothing(axis, "no job has a run time")
            return
        widest, longest = int(size.max()), int(run.max())
        columns = _whole_edges(2.0, 2, max(widest, 2))
        rows = _whole_edges(10.0, 9, max(longest, 10))
        if widest == 1:
            axis.set(title="Run times of the jobs, all serial", xlabel="run time", ylabel="jobs")
            axis.stairs(np.histogram(run, rows)[0], rows, fill=True, color=_BLUE)
            _time_axis(axis, longest, "x")
            axis.yaxis.set_major_formatter("{x:,.0f}")
            return
        cells = np.histogram2d(size, run, bins=(columns, rows))[0].T
        image = axis.pcolormesh(columns, rows, np.ma.masked_equal(cells, 0), norm=LogNorm(), cmap="viridis")
        axis.set_xscale("log", base=2)
        powers = 2 ** np.arange(
            0, math.ceil(math.log2(widest)) + 1, max(1, math.ceil(math.log2(widest)) // 8)
        )
        axis.set_xticks(powers, [f"{power:,}" for power in powers])
        axis.xaxis.minorticks_off()
        _time_axis(axis, longest, "y")
        axis.set_xlim(columns[0], columns[-1])
        axis.figure.colorbar(image, ax=axis, label="jobs", pad=0.01)

    def load(self, axis: Axes) -> None:
        """Draw the load that was submitted and that was in use."""
        ran = self.workload.run_time > 0
        submit, run, size = (
            self.workload.submit_time[ran],
            self.workload.run_time[ran],
            self.workload.processors[ran],
        )
        machine = self.statistics.processors or 1
        axis.set(title="Load", ylabel="share of the machine" if self.statistics.processors else "processors")
        if len(submit) == 0:
            _nothing(axis, "no job has a run time")
            return
        edges = _edges(submit, 120)
        instants = self._positions(axis, edges)
        scale = np.diff(edges) * machine
        offered = np.histogram(submit, edges, weights=(size * run).astype(np.float64))[0] / scale
        axis.stairs(offered, instants, color=_GREY, lw=0.8, baseline=None, label="submitted")
        waited = self.workload.wait_time[ran]
        label = "in use, as recorded" if (waited >= 0).any() else "in use, if nothing waited"
        start = submit + np.maximum(waited, 0)
        used = _busy_processor_seconds(start, run, size, edges) / scale
        axis.stairs(used, instants, color=_ORANGE, lw=1.6, baseline=None, label=label)
        if self.statistics.processors:
            axis.axhline(1.0, color="black", lw=0.8, ls=":")
        top = max(
            float(used.max()), 1.0 if self.statistics.processors else 0.0, float(np.quantile(offered, 0.97))
        )
        axis.set_ylim(0, 1.15 * top)
        axis.set_title(f"Load per {_width_name(edges)}")
        axis.margins(x=0)
        axis.legend(frameon=False, loc="upper right", ncols=2, fontsize=9)

    def distributions(self, axis: Axes) -> None:
        """Draw the distributions of times."""
        run = np.sort(self.workload.run_time[self.workload.run_time > 0])
        requested = np.sort(self.workload.requested_time[self.workload.requested_time > 0])
        gaps = np.diff(np.sort(self.workload.submit_time))
        gaps = np.sort(gaps[gaps > 0])
        columns = (
            (run, _BLUE, "run time"),
            (requested, _ORANGE, "requested time"),
            (gaps, _GREY, "between submissions"),
        )
        longest = 0.0
        for values, colour, label in columns:
            if len(values):
                points = np.quantile(values, np.linspace(0, 1, 501), method="inverted_cdf")
                axis.plot(points, np.linspace(0, 100, 501), color=colour, label=label, lw=1.6)
                longest = max(longest, float(values[-1]))
        axis.set(title="Times", ylabel="% of jobs that have less", ylim=(0, 101))
        if longest == 0.0:
            _nothing(axis, "no times above zero")
            return
        _time_axis(axis, longest, "x")
        axis.grid(color="#e6e6e6", lw=0.7)
        axis.legend(frameon=False, loc="best", fontsize=9)

    def accuracy(self, axis: Axes) -> None:
        """Draw how much of their requested time jobs ran."""
        estimated = (self.workload.requested_time > 0) & (self.workload.run_time >= 0)
        axis.set(title="Estimate accuracy", xlabel="run time / requested time, %", ylabel="% of jobs")
        if not estimated.any():
            _nothing(axis, "the log has no requested times")
            return
        percent = 100 * self.workload.run_time[estimated] / self.workload.requested_time[estimated]
        over = float((percent > 101).mean())
        counts = np.histogram(np.clip(percent, 0, 101.9), np.arange(0, 104, 2))[0]
        axis.bar(np.arange(0, 102, 2) + 1, 100 * counts / len(percent), width=1.8, color=_BLUE)
        axis.set_xlim(0, 102)
        note = f"median {100 * self.statistics.estimate_accuracy.median:.0f} %"
        note += f"\n{100 * self.statistics.at_limit_share:.1f} % ran to their limit or beyond"
        if over > 0.0005:
            note += f"\n{100 * over:.1f} % beyond 101 % (drawn there)"
        axis.text(0.5, 0.95, note, transform=axis.transAxes, ha="center", va="top", fontsize=9)


def _time_axis(axis: Axes, longest: float, which: Literal["x", "y"]) -> None:
    """Make one axis logarithmic, from a second to the longest time."""
    ticks = [seconds for seconds in _TIMES if seconds <= longest * 2]
    axis.set(**{f"{which}scale": "log"})
    axis.set(**{f"{which}ticks": ticks, f"{which}ticklabels": [_TIMES[tick] for tick in ticks]})
    (axis.xaxis if which == "x" else axis.yaxis).minorticks_off()


def _whole_edges(base: float, per_step: int, largest: int) -> FloatArray:
    """Return edges for whole numbers up to `largest`, `per_step` bins to each power of the base.

    They lie at halves, so that every bin holds a number and every power opens one.
    """
    steps = math.ceil(math.log(largest, base) * per_step) + 2
    edges = np.unique(np.rint(base ** (np.arange(steps) / per_step))) - 0.5
    return edges[: np.searchsorted(edges, largest) + 1]


def _busy_processor_seconds(start: IntArray, run_time: IntArray, size: IntArray, edges: IntArray) -> IntArray:
    """Return the processor-seconds that jobs use between consecutive instants, exact in integers.

    Parameters
    ----------
    start, run_time, size
        Shape (n,): each job's start and run time in seconds, and its processors.
    edges
        Shape (k + 1,), ascending, seconds.

    Returns
    -------
    ndarray
        Shape (k,).
    """
    total = np.zeros(len(edges), dtype=np.int64)
    for instants, sign in ((start, 1), (start + run_time, -1)):
        order = np.argsort(instants)
        since = instants[order] - edges[0]
        weight = np.concatenate([[0], np.cumsum(size[order])])
        moment = np.concatenate([[0], np.cumsum(size[order] * since)])
        before = np.searchsorted(since, edges - edges[0], side="right")
        total += sign * (weight[before] * (edges - edges[0]) - moment[before])
    return np.diff(total)


def _nothing(axis: Axes, why: str) -> None:
    axis.set(xticks=[], yticks=[], xlabel="", ylabel="")
    axis.text(0.5, 0.5, why, transform=axis.transAxes, ha="center", va="center", color=_GREY)
