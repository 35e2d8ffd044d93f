"""Figures of schedules: how full the machine is, how long the queue, and which job ran where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from matplotlib.collections import PolyCollection

from gridtune.core.schedule import Schedule, StepFunction, step_function
from gridtune.errors import ScheduleError
from gridtune.report import style

__all__ = ["LoadCurves", "plot_gantt", "plot_load"]

#: Spans of time that averages are taken over: more than the figure has pixels for would only be noise.
SPANS = 300
#: A Gantt chart of more jobs is a grey wall.
MOST_BARS = 5_000
#: Jobs up to which a bar has room for its job's number.
MOST_NUMBERED = 60

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _TimeUnit:
    name: str
    seconds: int


_UNITS = (
    _TimeUnit("days", 86_400),
    _TimeUnit("hours", 3_600),
    _TimeUnit("minutes", 60),
    _TimeUnit("seconds", 1),
)


@dataclass(frozen=True)
class LoadCurves:
    """How full a machine and how long its queue was, over time.

    Attributes
    ----------
    use, queue_length
        Processors in use and jobs waiting.
    processors
        The machine's size.
    start, end
        First submission and last end, seconds on the workload's clock.
    """

    use: StepFunction
    queue_length: StepFunction
    processors: int
    start: int
    end: int

    @classmethod
    def of_table(cls, table: pa.Table, processors: int) -> Self:
        """Return the curves of a schedule's table (see `Schedule.to_table`).

        Raises
        ------
        ScheduleError
            If the table has no job.
        """
        if table.num_rows == 0:
            raise ScheduleError("there is no job to draw", hint="give a schedule with a job in it")
        names = ("submit_time", "start_time", "end_time", "processors")
        submit, start, end, width = (table[name].to_numpy().astype(np.int64) for name in names)
        return cls(
            use=step_function(start, end, width),
            queue_length=step_function(submit, start, np.ones(len(submit), dtype=np.int64)),
            processors=processors,
            start=int(submit.min()),
            end=int(end.max()),
        )

    @classmethod
    def of(cls, schedule: Schedule) -> Self:
        """Return the curves of a schedule."""
        return cls.of_table(schedule.to_table(), schedule.processors)


def plot_load(curves: Mapping[str, LoadCurves], path: Path, *, title: str = "") -> Path:
    """Draw utilisation and queue length over time, schedules of one workload over each other.

    Parameters
    ----------
    curves
        Label to a schedule's curves; drawn on one clock that starts at the earliest submission.
    path
        Where the figure goes.
    title
        What stands over it.

    Returns
    -------
    Path
        `path`.
    """
    start = min(curve.start for curve in curves.values())
    end = max(curve.end for curve in curves.values())
    unit = next(curve for curve in _UNITS if end - start >= 2 * curve.seconds or curve.seconds == 1)
    edges = np.unique(np.linspace(start, max(end, start + 1), SPANS + 1).astype(np.int64))
    clock = (edges - start) / unit.seconds
    colours = style.series_colours(list(curves))
    with style.figure(11, 5.6, 2, sharex=True) as (drawing, (above, below)):
        for label, curve in curves.items():
            use = span_means(curve.use, edges) / curve.processors * 100
            waiting = span_means(curve.queue_length, edges)
            for axes, values in ((above, use), (below, waiting)):
                axes.stairs(values, clock, color=colours[label], label=label, linewidth=1.3, baseline=None)
                axes.stairs(values, clock, color=colours[label], alpha=0.08, fill=True)
        above.set_ylim(0, 105)
        above.set_yticks(range(0, 101, 25))
        above.set_ylabel("utilisation (%)")
        below.set_ylim(bottom=0)
        below.set_ylabel("jobs waiting")
        below.set_xlabel(f"{unit.name} since the first submission")
        below.set_xlim(0, float(clock[-1]))
        style.head(above, title)
        if len(curves) > 1:
            above.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=len(curves))
        return style.save(drawing, path)


def span_means(function: StepFunction, edges: IntArray) -> FloatArray:
    """Return a step function's time averages between consecutive edges (seconds), shape (k - 1,)."""
    if len(function.times) == 0:
        return np.zeros(len(edges) - 1)
    # The running integral is linear between the steps, so interpolation is exact.
    widths = np.diff(function.times, append=max(int(edges[-1]), int(function.times[-1])))
    areas = np.concatenate([[0], np.cumsum(widths * function.values)])
    times = np.concatenate([function.times, [function.times[-1] + widths[-1]]])
    running = np.interp(edges, times, areas, left=0.0)
    means: FloatArray = np.diff(running) / np.diff(edges)
    return means


def plot_gantt(schedule: Schedule, processor_ids: Sequence[IntArray], path: Path, *, title: str = "") -> Path:
    """Draw which job ran on which processors.

    Parameters
    ----------
    schedule
        When each job started and ended.
    processor_ids
        For each job the numbers of its processors, from 0.
    path
        Where the figure goes.
    title
        What stands over it.

    Returns
    -------
    Path
        `path`.

    Raises
    ------
    ScheduleError
        If there is no job, there are more than 5,000, or the processors are not given for each job.
    """
    count = len(schedule)
    if not 0 < count <= MOST_BARS:
        raise ScheduleError(
            f"a Gantt chart of {count:,} jobs cannot be drawn",
            hint=f"select between 1 and {MOST_BARS:,} jobs, by Workload.window or Workload.first",
        )
    if len(processor_ids) != count:
        raise ScheduleError(f"processors of {len(processor_ids)} jobs for {count} jobs")
    origin = int(schedule.workload.submit_time.min())
    span = int(schedule.end_time.max()) - origin
    unit = next(candidate for candidate in _UNITS if span >= 2 * candidate.seconds or candidate.seconds == 1)
    starts = (schedule.start_time - origin) / unit.seconds
    widths = schedule.run_time / unit.seconds
    bars, colours = [], []
    with style.figure(11, 5.6) as (drawing, axes):
        for job, processors in enumerate(processor_ids):
            runs = _runs(np.sort(processors))
            left, width = float(starts[job]), float(widths[job])
            for first, length in runs:
                corners = [(left, first - 0.5), (left + width, first - 0.5)]
                bars.append([*corners, *((x, y + length) for x, y in reversed(corners))])
                colours.append(style.PALETTE[job % 6])
            if count <= MOST_NUMBERED and runs:
                first, length = max(runs, key=lambda run: run[1])
                if length < 0.03 * schedule.processors or width < 0.015 * span / unit.seconds:
                    continue
                middle = left + width / 2, first + (length - 1) / 2
                number = str(int(schedule.workload.job_id[job]))
                axes.annotate(number, middle, ha="center", va="center", color="white", fontsize=8)
        axes.add_collection(
            PolyCollection(bars, facecolors=colours, edgecolors="white", linewidths=0.7, alpha=0.88)
        )
        axes.grid(False, axis="y")
        axes.set_xlim(0, max(span, 1) / unit.seconds)
        axes.set_ylim(-0.5, schedule.processors - 0.5)
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel(f"{unit.name} since the first submission")
        axes.set_ylabel("processor")
        style.head(axes, title or schedule.workload.name)
        return style.save(drawing, path)


def _runs(processors: IntArray) -> list[tuple[int, int]]:
    """Return (first, length) of each run of consecutive numbers."""
    if len(processors) == 0:
        return []
    breaks = np.flatnonzero(np.diff(processors) > 1) + 1
    return [(int(part[0]), len(part)) for part in np.split(processors, breaks)]
