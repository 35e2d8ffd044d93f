"""What runs of `scripts/chaos` are judged by: lost, double, differing and unfinished cells are seen."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.chaos import phases
from benchmarks.chaos.outcome import Outcome, compare, total
from gridtune.sweep.run import run_space
from tests.sweep.spaces import toy_space

#: Of the toy's space.
CELLS = 16


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chaos") / "undisturbed"
    run_space(toy_space(), directory=folder, executor="inline")
    return folder


def judged(undisturbed: Path, journal: bytes | None, *, finished: int = 1) -> Outcome:
    """Return the judgement on a sweep with another journal."""
    out = undisturbed.parent / "sweep-0"
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(undisturbed, out)
    if journal is not None:
        (out / "journal.jsonl").write_bytes(journal)
    outcome = Outcome([1])
    compare(outcome, undisturbed, [out], finished)
    return outcome


def test_the_same_sweep_is_good(undisturbed: Path) -> None:
    outcome = judged(undisturbed, None)
    assert outcome.good
    assert (outcome.cells, outcome.sweeps, outcome.lost, outcome.twice, outcome.unfinished) == (
        CELLS,
        1,
        0,
        0,
        0,
    )


def test_lost_and_double_cells_are_seen_and_those_of_a_sweep_without_its_end_are_left(
    undisturbed: Path,
) -> None:
    lines = (undisturbed / "journal.jsonl").read_bytes().splitlines(keepends=True)
    # A line that was cut off by a kill is none.
    cut = judged(undisturbed, b"".join(lines[:-1]) + lines[-1][:40])
    assert (cut.lost, cut.twice, cut.unfinished, cut.good) == (1, 0, 0, False)
    begun = judged(undisturbed, b"".join(lines[:-1]), finished=0)
    assert (begun.lost, begun.unfinished, begun.differing, begun.good) == (0, 1, 0, True)
    double = judged(undisturbed, b"".join([*lines, lines[-1]]))
    assert (double.lost, double.twice, double.good) == (0, 1, False)


def test_other_results_are_seen(undisturbed: Path) -> None:
    other = undisturbed.parent / "other"
    run_space(toy_space(dimensions={"x": [0, 1], "word": ["a", "b"]}), directory=other, executor="inline")
    outcome = Outcome([1])
    compare(outcome, undisturbed, [other], 1)
    assert (outcome.differing, outcome.lost, outcome.good) == (1, CELLS // 2, False)
    outcome = Outcome([1])
    compare(outcome, other, [undisturbed], 0)
    assert (outcome.differing, outcome.good) == (1, False)


def test_runs_are_added_up_from_their_lines() -> None:
    one = Outcome([1], 60.04, 16, 2, Counter(worker=2), {"worker": [0.5, 0.123]}, Counter(head=1))
    other = Outcome([2], 50.0, 16, 1, Counter(worker=1, head=1), {"worker": [1.0]}, problems=["late"])
    lines = [outcome.line() for outcome in (one, other)]
    assert '"total": 2, "equal": true' in lines[0]
    together = total([Outcome.of_line(line) for line in lines])
    expected = Outcome(
        [1, 2], 60.0, 16, 3, Counter(worker=3, head=1), {"worker": [0.5, 0.12, 1.0]}, Counter(head=1)
    )
    expected.problems = ["late"]
    assert together == expected
    assert one.good
    assert not together.good


TOLD = "error: Ray's process raylet has ended\n  hint: nothing is lost, and the same command goes on"


@pytest.mark.parametrize(
    ("kind", "code", "printed", "complete", "good"),
    [
        ("raylet", 0, "40 done", True, True),
        ("raylet", 0, "12 done", False, False),
        ("raylet", 2, TOLD, False, True),
        ("raylet", 1, TOLD, False, True),
        ("raylet", 1, "IOError: Broken pipe", False, False),
        ("raylet", 2, f"Traceback (most recent call last):\n{TOLD}", False, False),
        ("worker", 1, "39 done, 1 lost", True, True),
        ("driver", -9, "", False, True),
        ("driver (TERM)", 130, "interrupted", False, True),
        ("driver (TERM)", -15, "", False, True),
        ("driver (TERM)", -15, "reading traces", False, False),
        ("child", -9, "", False, False),
    ],
)
def test_the_end_of_a_command_is_judged(
    kind: str, code: int, printed: str, complete: bool, good: bool
) -> None:
    results = phases._CELLS if complete else 12
    command: Any = SimpleNamespace(process=SimpleNamespace(returncode=code), printed=printed, results=results)
    assert (phases._fault_of(command, kind) is None) == good
