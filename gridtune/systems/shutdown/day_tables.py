"""Tables of a cell of the `shutdown` system: its days, its jobs, its queue lengths, the nodes of one day."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.outcome import DayRecord, Outcome

__all__ = ["day_tables"]

#: The day whose nodes are in the table has more jobs than this share of the days.
_BUSY_DAY = 0.8
_RESERVED, _WAITING = 1, 7


def day_tables(
    days: Days, measures: Mapping[str, npt.NDArray[Any]], outcome: Outcome, record: DayRecord
) -> dict[str, pa.Table]:
    """Return tables by name; times in minutes.

    Returns
    -------
    dict
        `days`: the measures of each day. `jobs`: of each job its day, submission, start (null: never), time
        since the previous submission of that day, cores, walltime and run time. With a record also `queue`:
        for each queue length, how many minutes had it and how many nodes were reserved then; and `nodes`: the
        states of each node on a busy day, in order.
    """
    columns = {name: column for name, column in measures.items() if name != "days"}
    tables = {
        "days": pa.table({"day": list(days.names), "group": days.group, **columns}),
        "jobs": _jobs(days, outcome),
    }
    if len(record.minutes) > 0:
        tables |= {"queue": _queue(record), "nodes": _nodes(days, record)}
    return tables


def _jobs(days: Days, outcome: Outcome) -> pa.Table:
    day = days.day_of_job
    gap = np.diff(days.submit, prepend=0)
    opens = np.zeros(len(day), bool)
    opens[days.first[:-1][np.diff(days.first) > 0]] = True
    return pa.table(
        {
            "day": day,
            "job_id": days.job_id,
            "submit": days.submit,
            "start": pa.array(outcome.start, mask=outcome.start < 0),
            "gap": pa.array(gap, mask=opens),
            "cores": days.cores,
            "walltime": days.walltime,
            "run": np.minimum(days.run, days.walltime),
        }
    )


def _queue(record: DayRecord) -> pa.Table:
    """Return reservations by the queue length at the beginning of the minute."""
    reserved = record.minutes[:, 1:, _RESERVED].ravel()
    waiting = record.minutes[:, :-1, _WAITING].ravel()
    minutes = np.bincount(waiting)
    lengths = np.flatnonzero(minutes)
    sums = np.bincount(waiting, reserved)[lengths]
    squares = np.bincount(waiting, reserved.astype(np.float64) ** 2)[lengths]
    mean = sums / minutes[lengths]
    deviation = np.sqrt(np.maximum(squares / minutes[lengths] - mean**2, 0))
    return pa.table(
        {
            "waiting": lengths,
            "minutes": minutes[lengths],
            "reserved_mean": mean,
            "reserved_deviation": deviation,
        }
    )


def _nodes(days: Days, record: DayRecord) -> pa.Table:
    """Return the states of each node on a day that is busier than most."""
    order = np.argsort(np.diff(days.first), kind="stable")
    day = int(order[int(_BUSY_DAY * (len(order) - 1))])
    states = record.states[day, : days.minutes[day]]
    changes = np.ones_like(states, dtype=bool)
    changes[1:] = states[1:] != states[:-1]
    node, start = np.nonzero(changes.T)
    last = np.append(node[1:] != node[:-1], True)
    end = np.where(last, len(states), np.append(start[1:], 0))
    return pa.table(
        {
            "day": np.full(len(node), day),
            "name": [days.names[day]] * len(node),
            "node": node,
            "state": states[start, node].astype(np.int64),
            "start": start,
            "end": end,
        }
    )
