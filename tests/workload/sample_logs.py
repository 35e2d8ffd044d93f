"""Logs for tests: one good line, workloads by column, workloads of every shape."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from gridtune.workload import SWF_FIELDS, Workload

#: The eighteen fields of a job that nothing is wrong with.
GOOD = "1 10 -1 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1"


def job_line(**changes: object) -> str:
    """Return a good SWF line with some fields changed."""
    values: list[object] = list(GOOD.split())
    for name, value in changes.items():
        values[SWF_FIELDS.index(name)] = value
    return " ".join(map(str, values))


def make_workload(**columns: object) -> Workload:
    """Return a workload of the given columns; run time and processors have defaults."""
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    jobs = len(next(iter(arrays.values())))
    arrays.setdefault("submit_time", np.arange(jobs))
    arrays.setdefault("run_time", np.full(jobs, 100))
    arrays.setdefault("requested_processors", np.ones(jobs, dtype=np.int64))
    return Workload(arrays)


_INT64 = st.one_of(st.just(-1), st.integers(-(2**63), 2**63 - 1))
_TIMES = st.one_of(st.integers(-1, 10**6), st.just(2**53))
_WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12)
_VALUES = st.lists(_WORDS, min_size=1, max_size=3).map(" ".join)
_LINES = st.lists(_VALUES, min_size=1, max_size=3).map("\n".join)
_KEYS = st.from_regex(r"[A-Z][A-Za-z]{0,15}", fullmatch=True).filter(
    lambda key: key not in ("MaxProcs", "MaxNodes", "Partition")
)


@st.composite
def workloads(draw: st.DrawFn, *, ran: bool = False, bare: bool = False) -> Workload:
    """Sound workloads of every shape.

    `ran`: every job has a run time. `bare`: neither header nor machine nor names.
    """
    jobs = draw(st.integers(1, 8))
    machine = None if bare else draw(st.one_of(st.none(), st.integers(1, 2**31 - 1)))
    width = st.integers(1, machine or 2**31 - 1)

    def column(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=jobs, max_size=jobs))

    columns: dict[str, object] = {
        name: column(_INT64) for name in SWF_FIELDS if draw(st.booleans()) or name == "job_id"
    }
    columns["submit_time"] = column(st.integers(0, 2**53))
    columns["run_time"] = column(st.integers(0, 2**53) if ran else _TIMES)
    columns["requested_time"] = column(_TIMES)
    columns["requested_processors"] = column(st.one_of(st.just(-1), width))
    columns["allocated_processors"] = column(st.one_of(st.just(-1), width))
    columns["average_cpu_time"] = column(
        st.one_of(st.just(-1.0), st.floats(allow_nan=False, allow_infinity=False))
    )
    if bare:
        return Workload({k: np.asarray(v) for k, v in columns.items()})
    header = draw(st.dictionaries(_KEYS, st.lists(_LINES, min_size=1, max_size=3).map(tuple), max_size=4))
    names = draw(st.dictionaries(st.integers(0, 200), _VALUES, max_size=4))
    return Workload(
        {k: np.asarray(v) for k, v in columns.items()},
        machine_processors=machine,
        header=header,
        names={"partition": names} if names else {},
    )


def assert_same_content(read: Workload, written: Workload) -> None:
    """Columns bit for bit, and the machine's size."""
    assert len(read) == len(written)
    for name in SWF_FIELDS:
        np.testing.assert_array_equal(read.column(name), written.column(name), err_msg=name)
    assert read.machine_processors == written.machine_processors
    assert read.checksum == written.checksum
