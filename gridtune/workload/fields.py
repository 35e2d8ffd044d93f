"""The fields of a job, and the rules that their values keep.

The Standard Workload Format has eighteen fields; other logs have more beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from gridtune.types import AnyArray

__all__ = [
    "FIELDS",
    "FLOAT_FIELDS",
    "LARGEST_TIME",
    "LARGEST_WIDTH",
    "MORE_FIELDS",
    "NAMED_FIELDS",
    "SWF_FIELDS",
    "UNKNOWN",
    "Fault",
    "find_fault",
]


#: The value a field has where the log does not say (the Standard Workload Format's own convention).
UNKNOWN = -1

#: The eighteen fields of the Standard Workload Format, in the order of its columns.
SWF_FIELDS = (
    "job_id",
    "submit_time",
    "wait_time",
    "run_time",
    "allocated_processors",
    "average_cpu_time",
    "used_memory",
    "requested_processors",
    "requested_time",
    "requested_memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding_job",
    "think_time",
)

#: What resource managers record beside these.
#:
#: account, qos, features, gpu_type, state
#:     Numbers of names (`Workload.names`): the account charged, the quality of service, the features or
#:     constraint asked for, the type of GPU asked for, and the state in which the job ended.
#: requested_nodes, allocated_nodes
#:     Nodes.
#: requested_gpus, allocated_gpus
#:     GPUs of the whole job.
#: gpu_share
#:     Thousandths of each GPU, where jobs share one.
#: eligible_time, end_time
#:     Seconds on the log's clock, as recorded: when nothing but the queue stood before the job (its
#:     dependencies were done), and when it ended. A job that was suspended ends later than wait and run time
#:     add up to.
MORE_FIELDS = (
    "account",
    "qos",
    "features",
    "gpu_type",
    "state",
    "requested_nodes",
    "allocated_nodes",
    "requested_gpus",
    "allocated_gpus",
    "gpu_share",
    "eligible_time",
    "end_time",
)

#: Every field, in the order in which columns stand.
FIELDS = SWF_FIELDS + MORE_FIELDS

#: Fields whose numbers may stand for names.
NAMED_FIELDS = (
    "user",
    "group",
    "account",
    "executable",
    "queue",
    "partition",
    "qos",
    "features",
    "gpu_type",
    "state",
)

#: Fields that real logs give with a fraction; every other one is int64.
FLOAT_FIELDS = frozenset({"average_cpu_time"})


#: Times beyond this many seconds are refused: sums of a few of them must fit int64, and float64 exactly.
LARGEST_TIME = 2**53

#: Jobs wider than this are refused: processors × seconds must stay far from the end of int64.
LARGEST_WIDTH = 2**31 - 1


class Fault(NamedTuple):
    """The first job of a workload that breaks a rule.

    Attributes
    ----------
    row
        Its position, from 0.
    field
        The field at fault.
    message
        The fault, with the value found.
    hint
        The remedy.
    """

    row: int
    field: str
    message: str
    hint: str | None


def find_fault(columns: Mapping[str, AnyArray], machine_processors: int | None) -> Fault | None:
    """Return the fault of the first job that breaks a rule, or None if there is none.

    Only fields that a simulation reads are checked: whole numbers, a submit time of 0 or later, times of at
    least -1 (unknown) and at most `LARGEST_TIME`, no job on zero processors and none wider than the
    machine. Other fields (status, memory, recorded waits) may hold anything.

    Parameters
    ----------
    columns
        SWF field to column, all of one length. A float64 column where whole numbers are due is a fault
        when it holds a fraction.
    machine_processors
        The machine's size, or None when it is not known.
    """
    faults = list(_faults(columns, machine_processors))
    return min(faults, key=lambda fault: fault.row) if faults else None


def _faults(columns: Mapping[str, AnyArray], machine_processors: int | None) -> Iterator[Fault]:
    if len(columns["submit_time"]) == 0:
        return
    yield from _number_faults(columns)
    yield from _time_faults(columns)
    yield from _width_faults(columns, machine_processors)


def _number_faults(columns: Mapping[str, AnyArray]) -> Iterator[Fault]:
    for field, column in columns.items():
        if column.dtype.kind != "f":
            continue
        odd = ~np.isfinite(column)
        if odd.any():
            row = int(np.argmax(odd))
            yield Fault(row, field, f"{column[row]} is not a finite number", None)
        fraction = np.isfinite(column) & (column != np.rint(column))
        if field != "average_cpu_time" and fraction.any():
            row = int(np.argmax(fraction))
            hint = "read it with clean=['round_fractions']; gridtune counts in whole seconds"
            yield Fault(row, field, f"{float(column[row])!r} is not a whole number", hint)


def _time_faults(columns: Mapping[str, AnyArray]) -> Iterator[Fault]:
    submit = columns["submit_time"]
    if submit.min() < 0:
        row = int(np.argmax(submit < 0))
        hint = "read it with clean=['drop_negative_submit']"
        yield Fault(row, "submit_time", f"negative submit time {submit[row]}", hint)
    for field in ("submit_time", "run_time", "requested_time"):
        column = columns.get(field)
        if column is None:
            continue
        if field != "submit_time" and column.min() < -1:
            row = int(np.argmax(column < -1))
            hint = "-1 stands for unknown; read it with clean=['unknown_negative_times']"
            yield Fault(row, field, f"negative time {column[row]}", hint)
        if column.max() > LARGEST_TIME:
            row = int(np.argmax(column > LARGEST_TIME))
            yield Fault(row, field, f"{column[row]} seconds is beyond the largest time, 2**53", None)


def _width_faults(columns: Mapping[str, AnyArray], machine_processors: int | None) -> Iterator[Fault]:
    unknown = np.broadcast_to(np.int64(-1), len(columns["submit_time"]))
    requested = columns.get("requested_processors", unknown)
    allocated = columns.get("allocated_processors", unknown)
    if requested.min() > 0:
        width = requested
    else:
        width = np.where(requested > 0, requested, allocated)
        # A job that says 0 somewhere and gives no positive number elsewhere claims to use nothing.
        zero = (width <= 0) & ((requested == 0) | (allocated == 0))
        if zero.any():
            row = int(np.argmax(zero))
            field = "requested_processors" if requested[row] == 0 else "allocated_processors"
            yield Fault(row, field, "zero processors", "read it with clean=['drop_zero_processors']")
        below = (requested < -1) | ((width <= 0) & (allocated < -1))
        if below.any():
            row = int(np.argmax(below))
            field = "requested_processors" if requested[row] < -1 else "allocated_processors"
            value = requested[row] if requested[row] < -1 else allocated[row]
            yield Fault(row, field, f"{value} processors", "-1 stands for unknown")
    limit = LARGEST_WIDTH if machine_processors is None else min(machine_processors, LARGEST_WIDTH)
    if width.max() > limit:
        row = int(np.argmax(width > limit))
        field = "requested_processors" if requested[row] > 0 else "allocated_processors"
        place = f"the machine has {limit}" if limit == machine_processors else f"the limit is {limit}"
        hint = "read it with clean=['drop_wider'] or ['clamp_wider']"
        yield Fault(row, field, f"wider than the machine: {width[row]} processors, {place}", hint)
