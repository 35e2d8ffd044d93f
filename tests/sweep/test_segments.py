"""Segments of long journals: the same results as from lines, whatever is cut, altered or killed meanwhile."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from gridtune.core.cells import CellResult, canonical_json, id_of_identity
from gridtune.errors import SweepError
from gridtune.sweep.execution.status import cells_since
from gridtune.sweep.journal import journal as written
from gridtune.sweep.journal.journal import Journal, read_journal, read_proposals, repair_journal


def made_up(count: int) -> list[CellResult]:
    """Return results of all kinds: failed ones, with other metrics, own parameters, NaN and infinities."""
    results = []
    for number in range(count):
        configuration = {"order": f"order{number // 3}", "classes": [1, 2], "limit": None}
        identity = canonical_json({"parameters": configuration, "seed": number, "version": "1"})
        done = number % 5 != 4
        metrics = {"wait": number / 7, "loss": math.inf if number % 3 else -0.0}
        results.append(
            CellResult(
                cell_id=id_of_identity(identity),
                configuration_id=f"c{number // 3}",
                workload="log",
                configuration=configuration,
                replicate=f"window {number % 3 + 1}/3",
                seed=number % 3,
                traces={"log.swf": "ab" * 32},
                parameters={**configuration, "window": f"{number % 3 + 1}/3"},
                state="done" if done else "failed",
                metrics=(metrics if number % 2 else dict(reversed(metrics.items()))) if done else {},
                notes={"jobs": number % 2} if done else {},
                error=None if done else "ValueError: ESC \x1b and ü",
                seconds=0.25 * number,
                worker="host:1",
                identity=identity,
            )
        )
    return results


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make segments of eight results."""
    monkeypatch.setattr(written, "_SEGMENT", 8)


pytestmark = pytest.mark.usefixtures("short")


def append(path: Path, results: list[CellResult], block: int = 3) -> None:
    with Journal(path) as journal:
        for first in range(0, len(results), block):
            journal.append(results[first : first + block])


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    path, results = tmp_path / "journal.jsonl", made_up(31)
    append(path, results)
    assert len(Journal.segment_files(path)) == 3
    read = list(read_journal(path).values())
    assert read == results
    assert [list(one.metrics) for one in read] == [list(one.metrics) for one in results]
    assert math.copysign(1, read[3].metrics["loss"]) == -1
    # Facts are shared, over segments too.
    assert read[0].notes is read[2].notes is read[18].notes
    assert read[0].configuration is read[1].configuration
    # Metrics are made of the columns when they are asked for, also by a copy.
    for one in list(read_journal(path).values())[:27]:
        assert "metrics" not in vars(one)
        assert pickle.loads(pickle.dumps(one)) == copy.copy(one) == one
        assert one.metrics is one.metrics
    with pytest.raises(AttributeError, match="no attribute 'metric'"):
        _ = one.metric  # type: ignore[attr-defined]
    with Journal(path) as journal:
        assert list(journal.results.values()) == results


def test_nan_is_a_value_and_a_missing_metric_is_none(tmp_path: Path) -> None:
    path, results = tmp_path / "journal.jsonl", made_up(9)
    results[0] = replace(results[0], metrics={"wait": math.nan}, seconds=math.nan)
    append(path, results)
    first = next(iter(read_journal(path).values()))
    assert list(first.metrics) == ["wait"]
    assert math.isnan(first.metrics["wait"])
    assert math.isnan(first.seconds)


def test_a_later_result_counts_and_proposals_stay(tmp_path: Path) -> None:
    path, results = tmp_path / "journal.jsonl", made_up(12)
    with Journal(path) as journal:
        journal.append_proposals([{"number": 0}])
    again = replace(results[1], state="failed", metrics={}, error="later")
    with Journal(path) as journal:
        journal.append_proposals([{"number": 1}])
        journal.append(results[:8])
        journal.append([again])
        journal.append_proposals([{"number": 2}])
        journal.append(results[8:])
    assert [one["number"] for one in read_proposals(path)] == [0, 1, 2]
    assert list(read_journal(path).values()) == [results[0], again, *results[2:]]
    assert path.read_bytes().count(b'{"cell_id"') == 5


def test_a_segment_is_later_than_the_lines_that_were_there(tmp_path: Path) -> None:
    path, results = tmp_path / "journal.jsonl", made_up(20)
    failed = replace(results[9], state="failed", metrics={}, error="it broke")
    append(path, [*results[:9], failed])
    again = [results[9], *results[10:19]]
    append(path, again)
    assert b"it broke" in path.read_bytes()
    assert list(read_journal(path).values()) == results[:19]
    # What is left of lines becomes a segment when there are enough of them.
    append(path, results[19:])
    append(path, [failed])
    with Journal(path) as journal:
        journal.append([results[0]] * 2)
    assert read_journal(path) == {one.cell_id: one for one in [*results[:9], failed, *results[10:]]}


def test_a_long_journal_of_lines_becomes_segments_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, results = tmp_path / "journal.jsonl", made_up(21)
    monkeypatch.setattr(written, "_SEGMENT", 100)
    append(path, results)
    assert not Journal.segment_files(path)
    monkeypatch.setattr(written, "_SEGMENT", 8)
    with Journal(path) as journal:
        assert list(journal.results.values()) == results
    assert len(Journal.segment_files(path)) == 2
    assert list(read_journal(path).values()) == results


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_cut_loses_the_last_line_alone(tmp_path: Path, cut: int) -> None:
    path, results = tmp_path / "journal.jsonl", made_up(18)
    append(path, results, block=1)
    path.write_bytes(path.read_bytes()[:-cut])
    assert list(read_journal(path).values()) == results[:-1]
    append(path, results[-1:])
    assert list(read_journal(path).values()) == results


@pytest.mark.parametrize("step", range(4))
def test_a_kill_while_a_segment_is_made_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    path, results = tmp_path / "journal.jsonl", made_up(20)
    left = step
    replace_file = Journal._replace

    def killed(journal: Journal, file: Path, content: bytes) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        replace_file(journal, file, content)
        if left == -1 and step == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "_replace", killed)
    with Journal(path) as journal:
        for first in range(0, 18, 2):
            try:
                journal.append(results[first : first + 2])
            except KeyboardInterrupt:
                assert list(read_journal(path).values()) == results[: first + 2]
    monkeypatch.undo()
    assert list(read_journal(path).values()) == results[:18]
    append(path, results[18:])
    assert list(read_journal(path).values()) == results


@pytest.mark.parametrize("missing", [False, True])
def test_an_altered_segment_is_found_and_its_cells_run_again(tmp_path: Path, missing: bool) -> None:
    path, results = tmp_path / "journal.jsonl", made_up(30)
    append(path, results)
    segment = Journal.segment_files(path)[1]
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    if missing:
        segment.unlink()
    else:
        segment.write_bytes(content)
    words = "is missing" if missing else "has been altered"
    with pytest.raises(SweepError, match=words) as refused:
        read_journal(path)
    assert refused.value.path == segment
    faults, _ = repair_journal(path)
    assert [words in fault and segment.name in fault for fault in faults] == [True]
    left = read_journal(path)
    assert list(left.values()) == [*results[:9], *results[18:]]
    # The journal of another process that had it open meanwhile.
    append(path, results[:3])
    assert segment.with_suffix(".faulty").exists() is not missing
    append(path, results[9:18])
    assert {one.cell_id for one in read_journal(path).values()} == {one.cell_id for one in results}
    assert repair_journal(path)[0] == []


def test_an_altered_header_is_made_again_with_its_segments(tmp_path: Path) -> None:
    path, results = tmp_path / "journal.jsonl", made_up(17)
    append(path, results)
    lines = path.read_bytes().split(b"\n")
    altered = [line.replace(b'"segments"', b'"segmentz"') for line in lines]
    path.write_bytes(b"\n".join(altered))
    with pytest.raises(SweepError):
        read_journal(path)
    faults, _ = repair_journal(path)
    assert faults
    assert len(read_journal(path)) == 17


def test_a_mirrored_journal_stays_lines(tmp_path: Path) -> None:
    path, results, stored = tmp_path / "journal.jsonl", made_up(20), list[bytes]()
    with Journal(path, mirror=stored.append) as journal:
        journal.append(results)
    assert b"".join(stored) == path.read_bytes()
    assert not Journal.segment_files(path)


def test_cells_since_a_place_are_those_written_after_it(tmp_path: Path) -> None:
    path, results = tmp_path / "journal.jsonl", made_up(40)
    append(path, results[:12])
    with Journal(path) as journal:
        segments, position = len(Journal.segment_files(path)), path.stat().st_size
        for first in range(12, 40, 2):
            journal.append(results[first : first + 2])
            ids = [one.cell_id for one in results]
            assert cells_since(path, segments, position) == set(ids[12 : first + 2])
            assert cells_since(path, 0, 0) == set(ids[: first + 2])
