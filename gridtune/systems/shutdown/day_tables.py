"""What a cell of the `shutdown` system can tell beyond its metrics: days, jobs, queues, one day's nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.outcome import DayRecord, Outcome

__all__ = ["day_tables"]

#: Share of the days that have fewer jobs than the one whose nodes are shown.
_SHOWN = 0.8
_RESERVED, _WAITING = 1, 7


def day_tables(
    days: Days, measures: Mapping[str, npt.NDArray[Any]], outcome: Outcome, record: DayRecord
) -> dict[str, pa.Table]:
    """Return tables by name.

    Returns
    -------
    dict
        `days`: a row for each day with its measures. `jobs`: a row for each job: its day, minutes of
        submission and start (none: never), minutes since the submission before in that day, cores,
        walltime, run. `queue` and `nodes`, unless days were lived through as a whole: by length of the
        queue the minutes it was so long and the nodes then reserved; and for a busy day, each node's
        states one after the other.
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
    """Return reservations by the length of the queue they were named for: that at the minute's beginning."""
    reserved = record.minutes[:, 1:, _RESERVED].ravel()
    waiting = record.minutes[:, :-1, _WAITING].ravel()
    minutes = np.bincount(waiting)
    seen = np.flatnonzero(minutes)
    sums = np.bincount(waiting, reserved)[seen]
    squares = np.bincount(waiting, reserved.astype(np.float64) ** 2)[seen]
    mean = sums / minutes[seen]
    spread = np.sqrt(np.maximum(squares / minutes[seen] - mean**2, 0))
    return pa.table(
        {"waiting": seen, "minutes": minutes[seen], "reserved_mean": mean, "reserved_deviation": spread}
    )


def _nodes(days: Days, record: DayRecord) -> pa.Table:
    """Return the states of each node on a day that is busier than most, from minute to minute."""
    order = np.argsort(np.diff(days.first), kind="stable")
    day = int(order[int(_SHOWN * (len(order) - 1))])
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
