"""The fields of a job, and the rules that their values keep.

The Standard Workload Format has eighteen fields; other logs have more beside them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gridtune.types import AnyArray, BoolArray

#: The value a field has where the log does not say (the Standard Workload Format's own convention).
UNKNOWN = -1

_DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
#: The eighteen fields of the Standard Workload Format, in the order of its columns.
SWF_FIELDS: tuple[str, ...] = tuple(_DECLARED["swf"])
#: What resource managers record beside these; `fields.toml` says what they are.
MORE_FIELDS: tuple[str, ...] = tuple(_DECLARED["more"])
#: Every field, in the order in which columns stand.
FIELDS = SWF_FIELDS + MORE_FIELDS
#: Fields whose numbers may stand for names.
NAMED_FIELDS: tuple[str, ...] = tuple(_DECLARED["named"])

#: Fields that real logs give with a fraction; every other one is int64.
FLOAT_FIELDS = frozenset({"average_cpu_time"})


#: Times beyond this many seconds are refused: sums of a few of them must fit int64, and float64 exactly.
LARGEST_TIME = 2**53

#: Jobs wider than this are refused: processors × seconds must stay far from the end of int64.
LARGEST_WIDTH = 2**31 - 1


class _Fault(NamedTuple):
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


def find_fault(columns: Mapping[str, AnyArray], machine_processors: int | None) -> _Fault | None:
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


def _faults(columns: Mapping[str, AnyArray], machine_processors: int | None) -> Iterator[_Fault]:
    if len(columns["submit_time"]) == 0:
        return
    for field, column in columns.items():
        if column.dtype.kind == "f":
            finite = np.isfinite(column)
            yield from _first(columns, field, ~finite, "{} is not a finite number")
            if field not in FLOAT_FIELDS:
                hint = "read it with clean=['round_fractions']; gridtune counts in whole seconds"
                fraction = finite & (column != np.rint(column))
                yield from _first(columns, field, fraction, "{!r} is not a whole number", hint)
    for field in ("submit_time", "run_time", "requested_time"):
        if field not in columns:
            continue
        column = columns[field]
        if field == "submit_time":
            hint = "read it with clean=['drop_negative_submit']"
            yield from _first(columns, field, column < 0, "negative submit time {}", hint)
        else:
            hint = "-1 stands for unknown; read it with clean=['unknown_negative_times']"
            yield from _first(columns, field, column < UNKNOWN, "negative time {}", hint)
        message = "{} seconds is beyond the largest time, 2**53"
        yield from _first(columns, field, column > LARGEST_TIME, message)
    yield from _width_faults(columns, machine_processors)


def _first(
    columns: Mapping[str, AnyArray],
    field: str,
    faulty: BoolArray,
    message: str,
    hint: str | None = None,
) -> Iterator[_Fault]:
    """Yield the first of the faulty jobs, if there is one; its value goes into the message."""
    if faulty.any():
        row = int(np.argmax(faulty))
        yield _Fault(row, field, message.format(columns[field][row].item()), hint)


def _width_faults(columns: Mapping[str, AnyArray], machine_processors: int | None) -> Iterator[_Fault]:
    unknown = np.broadcast_to(np.int64(UNKNOWN), len(columns["submit_time"]))
    requested = columns.get("requested_processors", unknown)
    allocated = columns.get("allocated_processors", unknown)
    width = np.where(requested > 0, requested, allocated)
    # A job that says 0 somewhere and gives no positive number elsewhere claims to use nothing.
    zero = (width <= 0) & ((requested == 0) | (allocated == 0))
    below = (requested < UNKNOWN) | ((width <= 0) & (allocated < UNKNOWN))
    limit = LARGEST_WIDTH if machine_processors is None else min(machine_processors, LARGEST_WIDTH)
    place = f"the machine has {limit}" if limit == machine_processors else f"the limit is {limit}"
    for faulty, at_request, message, hint in (
        (zero, requested == 0, "zero processors", "read it with clean=['drop_zero_processors']"),
        (below, requested < UNKNOWN, "{} processors", "-1 stands for unknown"),
        (
            width > limit,
            requested > 0,
            f"wider than the machine: {{}} processors, {place}",
            "read it with clean=['drop_wider'] or ['clamp_wider']",
        ),
    ):
        field = "requested_processors" if at_request[np.argmax(faulty)] else "allocated_processors"
        yield from _first(columns, field, faulty, message, hint)
