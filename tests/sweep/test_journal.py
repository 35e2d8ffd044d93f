"""The journal: append-only, one writer, whole after any kill."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from gridtune.core.cells import CellResult, canonical_json, content_id, finite_json, id_of_identity
from gridtune.errors import SweepError
from gridtune.sweep.journal.journal import Journal, _record_line, _result_line, read_journal, repair_journal
from gridtune.sweep.run import space_cells
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
        assert journal.proposals == [{"number": 0, "point": {"x": 0.1}}, {"number": 1, "point": {"x": None}}]
        assert list(journal.results) == [results[0].cell_id]


def test_the_later_line_counts(tmp_path: Path, results: list[CellResult]) -> None:
    path = tmp_path / "journal.jsonl"
    again = replace(results[0], state="failed", error="later")
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
    path.write_bytes(lines[0].encode() + _record_line({"state": "done"}))
    with pytest.raises(SweepError, match="no cell's result"):
        read_journal(path)


def altered(path: Path, number: int, old: str, new: str) -> None:
    lines = path.read_text().splitlines(keepends=True)
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new, 1)
    path.write_text("".join(lines))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"loss":1.0', '"loss":7.0'),
        ('"state":"done"', '"state":"lost"'),
        ('"seed":1', '"seed":2'),
        ('"check":"', '"check":"0'),
        (',"check"', ',"chock"'),
        ('"loss":1.0', '"loss":1,0'),
    ],
)
def test_an_altered_line_is_found_and_its_cell_is_named(
    tmp_path: Path, results: list[CellResult], old: str, new: str
) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(results[:3])
    altered(path, 3, old, new)
    for read in (read_journal, Journal):
        with pytest.raises(SweepError, match="has been altered") as caught:
            read(path)
        assert (caught.value.path, caught.value.line) == (path, 3)
        assert results[1].cell_id in caught.value.message
        assert "gridtune results repair" in str(caught.value.hint)
    assert "x=0.0" in caught.value.message or new == '"loss":1,0'
    # What the hint says works.
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2] + lines[3:]))
    assert list(read_journal(path)) == [results[0].cell_id, results[2].cell_id]


def test_a_line_says_what_its_id_is_a_hash_of(tmp_path: Path, results: list[CellResult]) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(results[:2])
    identity = json.loads(path.read_text().splitlines()[2])["identity"]
    assert identity["system"] == "toy"
    assert identity["version"] == "1"
    assert identity["seed"] == 1
    assert content_id(identity) == results[1].cell_id
    assert read_journal(path)[results[1].cell_id].identity == canonical_json(identity)
    # A line that was altered with care, its checksum too.
    record = {**json.loads(path.read_text().splitlines()[2]), "identity": {**identity, "version": "2"}}
    del record["check"]
    path.write_bytes(path.read_bytes() + _record_line(record))
    with pytest.raises(SweepError, match="not that of its identity"):
        read_journal(path)


def test_values_come_back_as_they_were(tmp_path: Path, results: list[CellResult]) -> None:
    path = tmp_path / "journal.jsonl"
    metrics = {"loss": 0.1 + 0.2, "gain": math.inf, "size": math.nan}
    notes = {"configuration_id": "no", "list": [1, {"ü": None}], "count": np.int64(3)}
    parameters = {**results[0].parameters, "part": "1/2"}
    one = replace(results[0], metrics=metrics, notes=notes, parameters=parameters, seconds=0.25, worker="a:1")
    with Journal(path) as journal:
        journal.append([one])
    assert finite_json(asdict(read_journal(path)[one.cell_id])) == finite_json(asdict(one))


def test_a_parameter_may_be_named_like_a_key_of_the_line(tmp_path: Path, results: list[CellResult]) -> None:
    path = tmp_path / "journal.jsonl"
    identity = canonical_json({"parameters": {"a": 1, "configuration_id": "x", "identity": "y"}, "seed": 1})
    odd = replace(results[0], identity=identity, cell_id=id_of_identity(identity))
    with Journal(path) as journal:
        journal.append([odd])
    assert read_journal(path)[odd.cell_id].identity == identity


def test_a_journal_of_an_earlier_gridtune_is_read_and_gone_on_with(
    tmp_path: Path, results: list[CellResult]
) -> None:
    path = tmp_path / "journal.jsonl"
    records = [finite_json(asdict(result)) for result in results[:2]]
    for record in records:
        del record["identity"]
    lines = [json.dumps(record) for record in ({"journal": "gridtune", "schema": 1}, *records)]
    path.write_text("\n".join(lines) + "\n")
    before = path.read_bytes()
    assert [result.identity for result in read_journal(path).values()] == ["", ""]
    with Journal(path) as journal:
        journal.append(results[2:3])
    with Journal(path) as journal:
        journal.append(results[3:4])
    assert path.read_bytes().startswith(before)
    assert list(read_journal(path)) == [result.cell_id for result in results[:4]]
    # The old lines have no checks; from the new header on, each has one.
    assert path.read_text().count('"schema":2') == 1
    altered(path, 6, ',"check"', ',"chock"')
    with pytest.raises(SweepError, match="it has no checksum"):
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
        "import sys, time\nfrom pathlib import Path\nfrom gridtune.sweep.journal.journal import Journal\n"
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


def test_a_lock_file_that_was_removed_lets_nobody_in(tmp_path: Path, results: list[CellResult]) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        path.with_suffix(".lock").unlink()
        for _ in range(2):
            with pytest.raises(SweepError, match="another process is writing"):
                Journal(path)
        journal.append(results[:1])
    with Journal(path) as journal:
        assert list(journal.results) == [results[0].cell_id]


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(SweepError, match=r"does not lock files \(No locks available\)") as caught:
        Journal(tmp_path / "journal.jsonl")
    assert caught.value.path == tmp_path / "journal.jsonl"


def test_a_refused_journal_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"journal":"gridtune","schema":99}\n')
    with pytest.raises(SweepError, match="schema 99"):
        Journal(path)
    assert sorted(tmp_path.iterdir()) == [path]
    # One that a sweep has left stays: another process may be waiting for it.
    path.with_suffix(".lock").touch()
    with pytest.raises(SweepError, match="schema 99"):
        Journal(path)
    assert sorted(tmp_path.iterdir()) == [path, path.with_suffix(".lock")]


@pytest.mark.parametrize(("line", "key"), [(1, "journal"), (3, "check"), (5, "check")])
def test_repair_sets_an_altered_line_aside_and_names_its_cell(
    tmp_path: Path, results: list[CellResult], line: int, key: str
) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(results[:4])
    ids = [result.cell_id for result in results[:4]]
    altered(path, line, f'"{key}"', '"other"')
    with pytest.raises(SweepError, match=f"gridtune results repair {tmp_path}"):
        Journal(path)
    faults, aside = repair_journal(path)
    assert len(faults) == 1
    assert faults[0].startswith(f"line {line}: ")
    assert b'"other"' in aside.read_bytes()
    lost = ids[line - 2 : line - 1] if line > 1 else []
    assert all(cell_id in faults[0] for cell_id in lost)
    assert list(read_journal(path)) == [cell_id for cell_id in ids if cell_id not in lost]
    assert repair_journal(path)[0] == []
    with Journal(path) as journal:
        journal.append(results[:4])
    assert sorted(read_journal(path)) == sorted(ids)


def test_a_journal_says_once_that_it_goes_on_with_other_software(
    tmp_path: Path, results: list[CellResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(results[:1])
    with Journal(path) as journal:
        assert journal.mixes is None
        versions = journal.before
    assert set(versions) == {"gridtune", "Python", "numpy", "numba", "optuna"}
    monkeypatch.setattr("gridtune.sweep.journal.journal._environment", lambda: {**versions, "numpy": "9.9"})
    content = path.read_bytes()
    with Journal(path) as journal:
        assert f"numpy {versions['numpy']}, now 9.9" in str(journal.mixes)
    assert path.read_bytes() == content
    with Journal(path) as journal:
        journal.append(results[1:2])
    with Journal(path) as journal:
        assert journal.mixes is None
    assert len(read_journal(path)) == 2


def test_a_journal_without_versions_goes_on(tmp_path: Path, results: list[CellResult]) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(_record_line({"journal": "gridtune", "schema": 2}) + _result_line(results[0]))
    with Journal(path) as journal:
        assert journal.mixes is None
        journal.append(results[1:2])
    assert len(read_journal(path)) == 2
