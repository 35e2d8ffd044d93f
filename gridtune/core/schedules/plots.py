"""Figures of schedules: use of the machine, length of the queue, and the place of each job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from matplotlib.collections import PolyCollection

from gridtune.core import style
from gridtune.core.schedules.files import allocate_processors
from gridtune.core.usage import step_function
from gridtune.errors import ScheduleError

#: Spans of time that averages are taken over: more than the figure has pixels for would only be noise.
SPANS = 300
#: A Gantt chart of more jobs is a grey wall.
MOST_BARS = 5_000
#: Jobs up to which a bar has room for its job's number.
MOST_NUMBERED = 60


_UNITS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


def plot_load(schedules: Mapping[str, pa.Table], processors: int, path: Path, *, title: str = "") -> Path:
    """Draw utilisation and queue length over time, schedules of one workload over each other.

    Parameters
    ----------
    schedules
        Label to a schedule's table (see `Schedule.to_table`); on one clock from the earliest submission on.
    processors
        The machine's size.
    path
        Where the figure goes.
    title
        The title.

    Returns
    -------
    Path
        `path`.

    Raises
    ------
    ScheduleError
        If a schedule has no job.
    """
    if not all(table.num_rows for table in schedules.values()):
        raise ScheduleError("there is no job to draw", hint="give a schedule with a job in it")
    names = ("submit_time", "start_time", "end_time", "processors")
    columns = {
        label: [table[name].to_numpy().astype(np.int64) for name in names]
        for label, table in schedules.items()
    }
    start = min(int(submit.min()) for submit, *_ in columns.values())
    end = max(int(ends.max()) for _, _, ends, _ in columns.values())
    unit, seconds = _unit_for(end - start)
    edges = np.unique(np.linspace(start, max(end, start + 1), SPANS + 1).astype(np.int64))
    clock = (edges - start) / seconds
    with style.figure(11, 5.6, 2, sharex=True) as (drawing, (above, below)):
        for number, (label, (submit, begins, ends, width)) in enumerate(columns.items()):
            colour = style.PALETTE[number % len(style.PALETTE)]
            use = step_function(begins, ends, width).means(edges) / processors * 100
            waiting = step_function(submit, begins, np.ones_like(submit)).means(edges)
            for axes, values in ((above, use), (below, waiting)):
                axes.stairs(values, clock, color=colour, label=label, linewidth=1.3, baseline=None)
                axes.stairs(values, clock, color=colour, alpha=0.08, fill=True)
        above.set_ylim(0, 105)
        above.set_yticks(range(0, 101, 25))
        above.set_ylabel("utilisation (%)")
        below.set_ylim(bottom=0)
        below.set_ylabel("jobs waiting")
        below.set_xlabel(f"{unit} since the first submission")
        below.set_xlim(0, float(clock[-1]))
        style.head(above, title)
        if len(schedules) > 1:
            above.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=len(schedules))
        return style.save(drawing, path)


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
