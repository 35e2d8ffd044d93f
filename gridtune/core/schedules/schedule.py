"""`Schedule`: the result of a simulation, in columns, and the check that it is valid."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gridtune.arguments import require
from gridtune.core.remarks import remark_lines
from gridtune.core.style import Picture
from gridtune.core.usage import NodeStates, StepFunction, paused_seconds, step_function
from gridtune.errors import ScheduleError
from gridtune.types import BoolArray, Int8Array, IntArray
from gridtune.workload.workload import Workload

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class JobState(IntEnum):
    """State in which a job ended."""

    COMPLETED = 0
    KILLED = 1  # at its walltime


@dataclass(frozen=True, eq=False)
class Schedule:
    """When each job of a workload started and ended on a machine.

    Attributes
    ----------
    workload
        The jobs; every column has their order.
    processors
        The machine's size.
    start_time, end_time
        Shape (n,), int64 seconds, on the workload's own clock.
    walltime
        Shape (n,), int64 seconds: the run-time estimate that the scheduler saw (the log's request,
        the exact run time or a noisy one).
    state
        Shape (n,), int8, of `JobState`.
    settings
        Order, backfilling and switches the schedule was made with.
    notes
        Remarks for the reader: facts of the log that were ignored, walltimes that it lacks, work that was
        lost (`gridtune.core.remarks`).
    nodes
        The power states of the nodes, where they were simulated.
    pauses
        When jobs were suspended, and used no processors, shape (k, 3): row, from when and until when in
        seconds. None if none ever was.
    """

    workload: Workload
    processors: int
    start_time: IntArray
    end_time: IntArray
    walltime: IntArray
    state: Int8Array
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    nodes: NodeStates | None = None
    pauses: IntArray | None = None

    def __len__(self) -> int:
        return len(self.start_time)

    def __repr__(self) -> str:
        return f"Schedule({self.workload.name!r}, {len(self):,} jobs, {self.processors} processors)"

    @property
    def wait_time(self) -> IntArray:
        """Seconds between submission and start."""
        return self.start_time - self.workload.submit_time

    @property
    def run_time(self) -> IntArray:
        """Seconds for which a job ran between start and end (shorter than the log's where it was killed)."""
        run = self.end_time - self.start_time
        return run if self.pauses is None else run - paused_seconds(self.pauses, len(self))

    def to_table(self) -> pa.Table:
        """Return the schedule as an Arrow table, a row per job; times int64 seconds, state as a word."""
        import pyarrow as pa  # noqa: PLC0415  (heavy, and metrics do not need it)

        workload = self.workload
        names = pa.array([state.name.lower() for state in JobState])
        columns = {
            "job_id": workload.job_id,
            "user": workload.user,
            "group": workload.group,
            "processors": workload.processors,
            "submit_time": workload.submit_time,
            "start_time": self.start_time,
            "end_time": self.end_time,
            "wait_time": self.wait_time,
            "walltime": self.walltime,
            "state": pa.DictionaryArray.from_arrays(pa.array(self.state), names),
        }
        if self.nodes is not None:
            columns["boot_wait"] = self.nodes.boot_wait
        if self.pauses is not None:
            columns["suspended_time"] = paused_seconds(self.pauses, len(self))
        return pa.table({name: pa.array(column) for name, column in columns.items()})

    def to_pandas(self) -> pd.DataFrame:
        """Return the schedule as a data frame, a row per job; columns as of `to_table`."""
        return self.to_table().to_pandas()

    def plot(self, kind: Literal["load", "gantt"] = "load") -> Picture:
        """Draw the schedule; a notebook shows the picture, `save(PATH)` writes it.

        Parameters
        ----------
        kind
            "load": processors in use and jobs waiting over time. "gantt": which job ran on which processors;
            of up to 5,000 jobs.

        Raises
        ------
        ScheduleError
            If there is no job, there are too many for a Gantt chart, or there is no such kind.
        """
        from gridtune.core.schedules.plots import plot_gantt, plot_load  # noqa: PLC0415 (matplotlib)

        table, name = self.to_table(), self.workload.name
        if kind == "gantt":
            return Picture.of(lambda path: plot_gantt(table, self.processors, path, title=name))
        if kind != "load":
            raise ScheduleError(f"no such kind of figure: {kind!r}", hint="one of load, gantt")
        return Picture.of(lambda path: plot_load({name: table}, self.processors, path, title=name))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the schedule to a file, and return its path.

        A row per job, by the suffix as Parquet (`.parquet`) or CSV (`.csv`).

        Raises
        ------
        ScheduleError
            If the suffix is another.
        """
        from gridtune.core.schedules.files import write_schedule  # noqa: PLC0415 (pyarrow)

        write_schedule(self.to_table(), Path(path))
        return Path(path)

    def _repr_html_(self) -> str:
        facts = {**self.settings, "processors": self.processors, "jobs": f"{len(self):,}"}
        facts |= {"remarks": "; ".join(remark_lines(self.notes))} if self.notes else {}
        rows = "".join(
            f"<tr><th>{name}</th><td>{escape(str(value))}</td></tr>" for name, value in facts.items()
        )
        return f"<table><caption>{escape(self.workload.name)}</caption>{rows}</table>"

    @cached_property
    def use(self) -> StepFunction:
        """Processors in use over time."""
        start, end, processors = self.start_time, self.end_time, self.workload.processors
        if self.pauses is not None:
            rows, since, until = self.pauses.T
            start, end = np.concatenate([start, until]), np.concatenate([end, since])
            processors = np.concatenate([processors, processors[rows]])
        return step_function(start, end, processors)

    @cached_property
    def queue_length(self) -> StepFunction:
        """Jobs waiting over time."""
        ones = np.ones(len(self), dtype=np.int64)
        return step_function(self.workload.submit_time, self.start_time, ones)


def validate_schedule(schedule: Schedule) -> None:
    """Check that a schedule is valid.

    Raises
    ------
    ScheduleError
        If a job starts before its submission, is wider than the machine, or does not run as long as the log
        and the kill rule say, or if the machine is ever oversubscribed; the message names the job or the
        instant.
    """
    require(schedule, Schedule, "schedule", error=ScheduleError)
    workload = schedule.workload
    if not len(schedule) == len(workload) == len(schedule.end_time) == len(schedule.state):
        raise ScheduleError(f"{len(schedule)} starts for {len(workload)} jobs")

    def refuse(bad: BoolArray, what: str) -> None:
        if bad.any():
            job = int(np.argmax(bad))
            raise ScheduleError(
                f"job {int(workload.job_id[job])} (row {job}) {what}: "
                f"submit {int(workload.submit_time[job])}, start {int(schedule.start_time[job])}, "
                f"end {int(schedule.end_time[job])}, "
                f"run {int(workload.run_time[job])}, walltime {int(schedule.walltime[job])}; "
                f"{int(bad.sum())} such jobs"
            )

    refuse(schedule.start_time < workload.submit_time, "starts before it is submitted")
    refuse(workload.processors > schedule.processors, f"is wider than the machine's {schedule.processors}")
    killed = schedule.state == JobState.KILLED
    expected = np.where(killed, schedule.walltime, workload.run_time)
    refuse(schedule.run_time != expected, "does not run as long as it should")
    refuse(killed & (workload.run_time <= schedule.walltime), "is killed within its walltime")
    use = schedule.use
    over = use.values > schedule.processors
    if over.any():
        at = int(np.argmax(over))
        raise ScheduleError(
            f"{int(use.values[at])} of {schedule.processors} processors in use at second {int(use.times[at])}"
        )
