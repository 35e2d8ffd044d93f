"""The journal: append-only, one writer, whole after any kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gridtune.errors import SweepError
from gridtune.sweep import CellResult, Journal, read_journal, space_cells
from tests.sweep.spaces import toy_space


@pytest.fixture(scope="module")
def results() -> list[CellResult]:
    cells = space_cells(toy_space())
    return [CellResult.of(cell, "done", metrics={"loss": float(i)}) for i, cell in enumerate(cells)]


def test_what_is_appended_is_read(tmp_path: Path, results: list[CellResult]) -> None:
    path = tmp_path / "deep" / "journal.jsonl"
    assert read_journal(path) == {}
    with Journal(path) as journal:
        journal.append(results[:3])
        journal.append(results[3:5])
        assert list(journal.results) == [result.cell_id for result in results[:5]]
    with Journal(path) as journal:
        journal.append(results[5:6])
    stored = read_journal(path)
    assert [result.metrics["loss"] for result in stored.values()] == [0, 1, 2, 3, 4, 5]


def test_proposals_are_kept_beside_results(tmp_path: Path, results: list[CellResult]) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append_proposals([{"number": 0, "point": {"x": 0.1}}])
        journal.append(results[:1])
        journal.append_proposals([{"number": 1, "point": {"x": None}}])
        assert [proposal["number"] for proposal in journal.proposals] == [0, 1]
    path.write_bytes(path.read_bytes() + b'{"proposal":{"number":2,')
    with Journal(path) as journal:
        assert journal.proposals == ({"number": 0, "point": {"x": 0.1}}, {"number": 1, "point": {"x": None}})
        assert list(journal.results) == [results[0].cell_id]


def test_the_later_line_counts(tmp_path: Path, results: list[CellResult]) -> None:
    path = tmp_path / "journal.jsonl"
    again = CellResult.from_record({**results[0].as_record(), "state": "failed", "error": "later"})
    with Journal(path) as journal:
        journal.append([results[0], again])
    assert read_journal(path)[results[0].cell_id].state == "failed"


@pytest.mark.parametrize("torn", [1, 20, 200])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, results: list[CellResult], torn: int) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(results[:3])
    path.write_bytes(path.read_bytes()[:-torn])
    assert len(read_journal(path)) == 2
    with Journal(path) as journal:
        assert len(journal.results) == 2
        journal.append(results[2:4])
    assert len(read_journal(path)) == 4


def test_a_torn_header_is_written_again(tmp_path: Path, results: list[CellResult]) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"journal":"gri')
    with Journal(path) as journal:
        journal.append(results[:1])
    assert len(read_journal(path)) == 1


def test_a_line_of_something_else_is_named(tmp_path: Path, results: list[CellResult]) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(results[:2])
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + "what is this\n" + lines[1])
    with pytest.raises(SweepError, match="not JSON") as caught:
        read_journal(path)
    assert caught.value.line == 2
    path.write_text(lines[0] + '{"state": "done"}\n')
    with pytest.raises(SweepError, match="no cell's result"):
        read_journal(path)


@pytest.mark.parametrize(
    ("header", "words"), [({"journal": "gridtune", "schema": 99}, "schema 99"), ({"a": 1}, "no journal")]
)
def test_other_journals_are_left_alone(tmp_path: Path, header: dict[str, object], words: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(json.dumps(header) + "\n")
    with pytest.raises(SweepError, match=words):
        Journal(path)
    assert json.loads(path.read_text()) == header


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom gridtune.sweep import Journal\n"
        f"journal = Journal(Path({str(path)!r}))\nprint('mine', flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "mine\n"
        with pytest.raises(SweepError, match=f"process {holder.pid} ") as caught:
            Journal(path)
        assert caught.value.path == path
        assert caught.value.hint
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    # The dead process's lock file is still there; its lock is not.
    assert path.with_suffix(".lock").exists()
    Journal(path).close()


def test_a_process_holds_it_once(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.jsonl"), pytest.raises(SweepError, match="is writing"):
        Journal(tmp_path / "journal.jsonl")
