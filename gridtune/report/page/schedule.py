"""Schedules for the page: which job ran where and when, how full the machine was, how long the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gridtune.core.schedule_files import allocate_processors
from gridtune.core.step_function import StepFunction, step_function
from gridtune.errors import ScheduleError
from gridtune.report.schedules import ScheduleFiles
from gridtune.types import IntArray

__all__ = ["MOST_JOBS", "schedule_content"]

#: Jobs that a chart shows, and that all charts of a page show together.
MOST_JOBS, _MOST_TOGETHER = 8_000, 24_000
#: Steps of a curve that are kept; of more, averages over as many spans of time.
_MOST_STEPS = 4_000


def schedule_content(files: Sequence[ScheduleFiles], labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what the page draws of schedules, a mapping for each stratum that has them.

    Parameters
    ----------
    files
        The schedules that were written.
    labels
        Configuration id to the configuration in words.

    Returns
    -------
    list of dict
        `stratum`, `replicate`, `processors`, and `schedules`: for each its `role` ("best" or "baseline"),
        `label`, `jobs` (their number), `bars` ([job id, start, run time, wait, first processor, last
        processor, …], by start; those that start first where there are too many) and the curves `use` and
        `queue` ({times, values}). Times are seconds since the first submission; those of bars and curves
        are differences to the one before.
    """
    drawn = [entry for entry in files if entry.tables and entry.processors]
    share = max(1, sum(len(entry.tables) for entry in drawn))
    return [_stratum(entry, labels, min(MOST_JOBS, _MOST_TOGETHER // share)) for entry in drawn]


def _stratum(files: ScheduleFiles, labels: Mapping[str, str], most: int) -> dict[str, Any]:
    columns = {key: _columns(path) for key, path in files.tables.items()}
    origin = min(int(column["submit_time"].min()) for column in columns.values())
    return {
        "stratum": files.stratum,
        "replicate": files.replicate,
        "processors": files.processors,
        "schedules": [
            {
                "role": "baseline" if files.tables[key].stem.endswith("-baseline") else "best",
                "label": labels.get(key, key),
                **_schedule(column, files.processors, origin, most),
            }
            for key, column in columns.items()
        ],
    }


def _columns(path: Path) -> dict[str, IntArray]:
    names = ["job_id", "submit_time", "start_time", "end_time", "processors"]
    table = pq.read_table(path, columns=names)
    return {name: table[name].to_numpy().astype(np.int64) for name in names}


def _schedule(columns: Mapping[str, IntArray], processors: int, origin: int, most: int) -> dict[str, Any]:
    submit, start, end = (columns[name] - origin for name in ("submit_time", "start_time", "end_time"))
    width, ones = columns["processors"], np.ones(len(start), dtype=np.int64)
    order = np.lexsort((columns["job_id"], start))[:most]
    try:
        jobs = {"start_time": start[order], "end_time": end[order], "processors": width[order]}
        places = allocate_processors(pa.table(jobs), processors)
    except ScheduleError:
        # A system whose jobs share processors has curves but no bars.
        places = []
    begun, run, wait = start[order], (end - start)[order], (start - submit)[order]
    facts = np.column_stack([columns["job_id"][order], np.diff(begun, prepend=0), run, wait])
    bars = [
        [*row, *(number for part in ranges for number in part)]
        for row, ranges in zip(facts.tolist(), places, strict=False)
    ]
    last = int(end.max())
    return {
        "jobs": len(start),
        "end": last,
        "bars": bars,
        "use": _curve(step_function(start, end, width), last),
        "queue": _curve(step_function(submit, start, ones), last),
    }


def _curve(function: StepFunction, end: int) -> dict[str, list[float]]:
    times, values = function.times, function.values.astype(np.float64)
    if len(times) > _MOST_STEPS:
        from gridtune.core.schedule_plots import span_means  # noqa: PLC0415

        edges = np.unique(np.linspace(int(times[0]), end, _MOST_STEPS // 2 + 1).astype(np.int64))
        times, values = edges[:-1], np.round(span_means(function, edges), 2)
    return {"times": np.diff(times, prepend=0).tolist(), "values": values.tolist()}
