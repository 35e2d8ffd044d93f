"""Figures of schedules: use of the machine, length of the queue, and the place of each job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
from matplotlib.collections import PolyCollection

from gridtune.core import style
from gridtune.core.schedules.files import allocate_processors
from gridtune.core.usage import StepFunction, step_function
from gridtune.errors import ScheduleError
from gridtune.types import FloatArray, IntArray

__all__ = ["LoadCurves", "plot_gantt", "plot_load"]

#: Spans of time that averages are taken over: more than the figure has pixels for would only be noise.
SPANS = 300
#: A Gantt chart of more jobs is a grey wall.
MOST_BARS = 5_000
#: Jobs up to which a bar has room for its job's number.
MOST_NUMBERED = 60


_UNITS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


@dataclass(frozen=True)
class LoadCurves:
    """Use of a machine and length of its queue, over time.

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


def plot_load(curves: Mapping[str, LoadCurves], path: Path, *, title: str = "") -> Path:
    """Draw utilisation and queue length over time, schedules of one workload over each other.

    Parameters
    ----------
    curves
        Label to a schedule's curves; drawn on one clock that starts at the earliest submission.
    path
        Where the figure goes.
    title
        The title.

    Returns
    -------
    Path
        `path`.
    """
    start = min(curve.start for curve in curves.values())
    end = max(curve.end for curve in curves.values())
    unit, seconds = _unit_for(end - start)
    edges = np.unique(np.linspace(start, max(end, start + 1), SPANS + 1).astype(np.int64))
    clock = (edges - start) / seconds
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
        below.set_xlabel(f"{unit} since the first submission")
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


def plot_gantt(jobs: pa.Table, processors: int, path: Path, *, title: str = "") -> Path:
    """Draw which job ran on which processors: the lowest that were free when it started.

    Parameters
    ----------
    jobs, processors
        As of `allocate_processors`.
    path, title
        As of `plot_load`.

    Raises
    ------
    ScheduleError
        If there is no job, or there are more than 5,000.
    """
    count = jobs.num_rows
    if not 0 < count <= MOST_BARS:
        raise ScheduleError(
            f"a Gantt chart of {count:,} jobs cannot be drawn",
            hint=f"select between 1 and {MOST_BARS:,} jobs, by Workload.window or Workload.first",
        )
    submit, start, end = (jobs[f"{name}_time"].to_numpy() for name in ("submit", "start", "end"))
    origin = int(submit.min())
    unit, seconds = _unit_for(int(end.max()) - origin)
    span = max(int(end.max()) - origin, 1) / seconds
    bars, colours = [], []
    with style.figure(11, 5.6) as (drawing, axes):
        for job, ranges in enumerate(allocate_processors(jobs, processors)):
            left, right = ((int(time[job]) - origin) / seconds for time in (start, end))
            for first, last in ranges:
                low, high = first - 0.5, last + 0.5
                bars.append([(left, low), (right, low), (right, high), (left, high)])
                colours.append(style.PALETTE[job % 6])
            first, last = max(ranges, key=lambda pair: pair[1] - pair[0], default=(0, 0))
            legible = last - first + 1 >= 0.03 * processors and right - left >= 0.015 * span
            if count <= MOST_NUMBERED and ranges and legible:
                middle, number = ((left + right) / 2, (first + last) / 2), str(jobs["job_id"][job])
                axes.annotate(number, middle, ha="center", va="center", color="white", fontsize=8)
        axes.add_collection(
            PolyCollection(bars, facecolors=colours, edgecolors="white", linewidths=0.7, alpha=0.88)
        )
        axes.grid(False, axis="y")
        axes.set_xlim(0, span)
        axes.set_ylim(-0.5, processors - 0.5)
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel(f"{unit} since the first submission")
        axes.set_ylabel("processor")
        style.head(axes, title)
        return style.save(drawing, path)


def _unit_for(span: int) -> tuple[str, int]:
    """Return the largest unit that a span of so many seconds has two of, and its seconds."""
    return next((unit, size) for unit, size in _UNITS.items() if span >= 2 * size or size == 1)
