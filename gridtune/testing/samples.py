"""Small workloads and schedules that the suites try things on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gridtune.core.node_states import NodeState, NodeStates
from gridtune.core.power import NodePower
from gridtune.core.schedule import JobState, Schedule
from gridtune.types import IntArray
from gridtune.workload.workload import Workload

__all__ = ["permuted", "sample_schedule", "sample_workload", "with_columns"]

#: Submit, start, end, processors, requested walltime, user, killed: on four processors. The third job
#: overtakes the second; the fourth runs for no time and asked for no walltime; the last is killed.
_ROWS = (
    (0, 0, 100, 2, 200, 1, False),
    (10, 100, 150, 4, 100, 2, False),
    (20, 20, 80, 2, 60, 1, False),
    (30, 150, 150, 1, -1, 2, False),
    (40, 150, 154, 1, 4, 3, True),
)
_PROCESSORS = 4


def sample_workload(jobs: int = 60, *, processors: int = 16, seed: int = 1) -> Workload:
    """Return jobs of several users, groups, queues and partitions that fill a small machine."""
    rng = np.random.default_rng(seed)
    run = rng.integers(1, 400, jobs)
    width = rng.integers(1, processors + 1, jobs)
    return Workload(
        {
            "job_id": np.arange(1, jobs + 1),
            # Some jobs are submitted in the same second.
            "submit_time": np.cumsum(rng.integers(0, 120, jobs)),
            "run_time": run,
            "allocated_processors": width,
            "requested_processors": width,
            "requested_time": run + rng.integers(0, 300, jobs),
            "user": rng.integers(1, 6, jobs),
            "group": rng.integers(1, 4, jobs),
            "queue": rng.integers(1, 3, jobs),
            "partition": rng.integers(1, 3, jobs),
            "status": np.ones(jobs, dtype=np.int64),
        },
        name="sample",
        machine_processors=processors,
    )


def with_columns(workload: Workload, columns: Mapping[str, IntArray]) -> Workload:
    """Return the workload with some columns replaced."""
    return replace(workload, columns={**workload.columns, **columns})


def sample_schedule(jobs: int = len(_ROWS)) -> Schedule:
    """Return a schedule of the first few of five jobs, which wait, overtake, take no time and are killed."""
    columns = np.array(_ROWS[:jobs], dtype=np.int64).reshape(-1, len(_ROWS[0])).T
    submit, start, end, width, requested, user, killed = columns
    run = end - start
    workload = Workload(
        {
            "submit_time": submit,
            "run_time": np.where(killed, run + 10, run),
            "requested_processors": width,
            "requested_time": requested,
            "user": user,
            "group": user,
        },
        machine_processors=_PROCESSORS,
    )
    state = np.where(killed, JobState.KILLED, JobState.COMPLETED).astype(np.int8)
    walltime = np.where(requested > 0, requested, run)
    return Schedule(workload, _PROCESSORS, start, end, walltime, state, nodes=_sample_nodes(jobs))


def _sample_nodes(jobs: int) -> NodeStates:
    """Return what the two nodes of the schedule's machine do: one sleeps from 90 until 98."""
    computing, idle, asleep = NodeState.COMPUTING, NodeState.IDLE, NodeState.SLEEPING
    changes = [
        (0, idle, computing, 1),
        (20, idle, computing, 1),
        (80, computing, idle, 1),
        (86, idle, NodeState.SWITCHING_OFF, 1),
        (90, NodeState.SWITCHING_OFF, asleep, 1),
        (98, asleep, NodeState.SWITCHING_ON, 1),
        (100, NodeState.SWITCHING_ON, computing, 1),
        (150, computing, idle, 1),
        (154, computing, idle, 1),
    ]
    table = np.array(changes, dtype=np.int64)
    before, after = table[:, 1].astype(np.int8), table[:, 2].astype(np.int8)
    number, boot_wait = table[:, 3].astype(np.int32), np.arange(jobs, dtype=np.int64)
    return NodeStates(2, 2, NodePower(), 0, table[:, 0], before, after, number, boot_wait)


def permuted(schedule: Schedule) -> Schedule:
    """Return the same schedule with its rows in reverse."""
    rows, nodes = np.arange(len(schedule))[::-1], schedule.nodes
    return replace(
        schedule,
        workload=schedule.workload.take(rows),
        start_time=schedule.start_time[rows],
        end_time=schedule.end_time[rows],
        walltime=schedule.walltime[rows],
        state=schedule.state[rows],
        nodes=nodes and replace(nodes, boot_wait=nodes.boot_wait[rows]),
    )
