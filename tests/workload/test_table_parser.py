"""The fast path takes nothing that the exact one would refuse, and reads what it takes the same."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gridtune.errors import WorkloadError
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.table import Table, TableLayout, parse_table
from tests.conftest import examples

EXAMPLES = examples(200)
BLANKS = TableLayout(fields=("job_id", "average_cpu_time", "run_time"), comment=b";")
COMMAS = TableLayout(fields=("job_id", "average_cpu_time", "run_time"), separator=b",")

TOKENS = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.floats(allow_nan=True).map(str),
    st.sampled_from(
        ["-1", "0", "007", "1.", ".5", "-.5", ".", "-", "+3", "1-2", "1.-2", "1.2.3", "--1", "1.5-"]
    ),
    st.sampled_from(["1e3", "0x10", "1_000", "nan", "inf", "９", "12a", "9223372036854775807", ""]),
)
GAPS = st.sampled_from([" ", "  ", "\t", " \r", ",", ", ", ",,", "\n", "\x0b", "\0"])
NOISY_LINES = st.lists(st.tuples(TOKENS, GAPS), max_size=14).map(
    lambda pairs: "".join(token + gap for token, gap in pairs).encode()
)


class Drops(io.BytesIO):
    """A file that gives a few bytes at a time, as a pipe may."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(7)


def stream_of(text: bytes, file: type[io.BytesIO] = io.BytesIO) -> LogStream:
    return LogStream(file(text), Path("x.swf"), None, 1 << 30)


def outcome(text: bytes, layout: TableLayout) -> Table | str:
    """Return the table in a text, or the fault that is found in it."""
    try:
        return parse_table(stream_of(text), layout)
    except WorkloadError as fault:
        return str(fault)


def assert_fast_is_exact(text: bytes, layout: TableLayout) -> None:
    """Compare with the same text before a line that only the exact path takes."""
    fast = outcome(text, layout)
    slow = outcome(text + b"\n" + (layout.separator or b" ").join([b"1", b"1e0", b"1"]), layout)
    if isinstance(fast, str) or isinstance(slow, str):
        assert fast == slow
        return
    np.testing.assert_array_equal(fast.lines, slow.lines[:-1])
    for name, column in fast.columns.items():
        assert column.dtype == slow.columns[name].dtype
        np.testing.assert_array_equal(column, slow.columns[name][:-1])


@EXAMPLES
@given(NOISY_LINES)
@example(b"1 . 3\n1 1.-2 3")
@example(b"1 4-1 3\n1 2 -")
@example(b"4-1 5\n1 2 3")
@example(b"1 2 9223372036854775808")
@example(b"-9223372036854775809 2 3")
def test_blank_separated_noise(text):
    assert_fast_is_exact(text, BLANKS)


@EXAMPLES
@given(NOISY_LINES)
@example(b"1,2,3,")
@example(b"1,,2,3")
@example(b"1,2,3,\n4,5")
@example(b"1 2,,3")
@example(b",1,2,3\n1,2")
def test_comma_separated_noise(text):
    assert_fast_is_exact(text, COMMAS)


@EXAMPLES
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63) + 1, 2**63 - 2),
            st.one_of(st.integers(0, 10**15), st.decimals(0, 10**9, places=3)),
            st.integers(-1, 10**9),
        ),
        max_size=8,
    ),
    st.sampled_from([BLANKS, COMMAS]),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
)
def test_well_formed_lines_take_the_fast_path(rows, layout, end):
    separator = " " if layout is BLANKS else ","
    text = "".join(separator.join(map(str, row)) + end for row in rows).encode()
    fast = layout.parse_numbers(text, 1)
    assert fast is not None
    assert_fast_is_exact(text, layout)
    assert fast.columns["job_id"].tolist() == [row[0] for row in rows]
    assert fast.columns["average_cpu_time"].tolist() == [float(row[1]) for row in rows]


def test_blocks_join_where_lines_end():
    text = b"; one\n1 2.5 3\n\n; two\n4 5 6\n10 20 30"
    read = parse_table(stream_of(text, Drops), BLANKS)
    assert read.columns["run_time"].tolist() == [3, 6, 30]
    assert read.columns["average_cpu_time"].tolist() == [2.5, 5.0, 20.0]
    assert read.lines.tolist() == [2, 5, 6]
    assert read.comments == [(1, " one"), (4, " two")]


def test_faults_are_numbered_across_blocks():
    text = b"1 2 3\n" * 50 + b"1 2 x\n"
    with pytest.raises(WorkloadError, match="'x' is not a number") as caught:
        parse_table(stream_of(text, Drops), BLANKS)
    assert (caught.value.line, caught.value.field) == (51, "run_time")


def test_an_endless_line_is_refused_early():
    class Endless(io.RawIOBase):
        given = 0

        def read(self, size=-1):
            self.given += size
            return b"1" * size

    source = Endless()
    with pytest.raises(WorkloadError, match="a line of more than 65,536 bytes"):
        parse_table(LogStream(source, Path("x"), None, 1 << 40), BLANKS)
    assert source.given < 1 << 24


def test_the_overlong_line_is_named():
    with pytest.raises(WorkloadError, match="a line of more than 65,536 bytes") as caught:
        parse_table(stream_of(b"1 2 3\n" * 9 + b"1" * 70_000, Drops), BLANKS)
    assert caught.value.line == 10


def test_names_are_numbered_in_order_and_numbers_stay(monkeypatch):
    layout = TableLayout(fields=("job_id", "user", "group"), labels=frozenset({"user", "group"}))
    read = parse_table(stream_of(b"1 bob 7\n2 -1 9\n3 ann 7\n4 bob -1\n"), layout)
    assert read.columns["user"].tolist() == [1, -1, 2, 1]
    assert read.columns["group"].tolist() == [7, 9, 7, -1]
    assert read.labels == {"user": ["bob", "ann"]}
