"""A folder that a sweep of another space wrote into before: nothing derived of it stays, the rest does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gridtune.core.cells import CellResult
from gridtune.report.facts import DERIVED_FILE, list_derived
from gridtune.report.tables import report_console
from gridtune.study import report_study, run_sweep
from gridtune.sweep.journal.journal import Journal
from gridtune.sweep.run import space_cells


def write(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return paths


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - {DERIVED_FILE}


def test_only_what_is_listed_and_not_written_again_goes(tmp_path: Path) -> None:
    write(tmp_path, "journal.jsonl", "notes.txt", "plots/mine.png")
    old = write(tmp_path, "ranking-old.csv", "plots/old.png", "schedules/old.parquet", "ranking.md")
    list_derived(tmp_path, old[:2])
    list_derived(tmp_path, old[2:])
    removed = list_derived(tmp_path, write(tmp_path, "ranking.md", "ranking-new.csv"), remove_others=True)
    assert set(removed) == set(old[:3])
    assert names(tmp_path) == {
        "journal.jsonl",
        "notes.txt",
        "plots/mine.png",
        "ranking.md",
        "ranking-new.csv",
    }
    assert not (tmp_path / "schedules").exists()


def test_nothing_outside_the_folder_is_removed(tmp_path: Path) -> None:
    (outside,) = write(tmp_path, "outside.txt")
    folder = tmp_path / "sweep"
    write(folder, "a.csv")
    (folder / DERIVED_FILE).write_text(json.dumps({"files": ["../outside.txt", "gone.csv", "a.csv"]}))
    assert list_derived(folder, [], remove_others=True) == [folder / "a.csv"]
    assert outside.exists()


def test_a_list_that_cannot_be_read_removes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a.csv", DERIVED_FILE)
    assert list_derived(tmp_path, [], remove_others=True) == []
    assert names(tmp_path) == {"a.csv"}


SPACE = {
    "name": "changing",
    "fixed": {"trace": "quickstart", "first": 200},
    "dimensions": {"order": ["fcfs", "sjf"]},
    "objective": "wait_mean",
}


def finished(folder: Path, space: dict[str, object]) -> None:
    """Write every cell of a space into the journal, so that its sweep runs none."""
    with Journal(folder / "journal.jsonl") as journal:
        journal.append(
            CellResult.of(cell, "done", metrics={"wait_mean": 1.0, "makespan": 2.0}, notes={}, seconds=0.1)
            for cell in space_cells(space)
        )


def test_a_changed_space_leaves_no_mixture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finished(tmp_path, SPACE)
    run_sweep(SPACE, directory=tmp_path, executor="inline", tracking=False, output="quiet")
    before = names(tmp_path)
    assert {"results.csv", "ranking-wait_mean.csv", "plots/ranking-wait_mean.png"} <= before
    assert "schedules/quickstart-best.parquet" in before
    (tmp_path / "ranking-mine.csv").write_text("mine")
    other = SPACE | {"objective": "makespan", "fixed": {"trace": "mm4", "first": 200}}
    finished(tmp_path, other)
    run_sweep(other, directory=tmp_path, executor="inline", tracking=False)
    after = names(tmp_path)
    assert not [name for name in after if "wait_mean" in name or "quickstart" in name]
    assert {"ranking-mine.csv", "ranking-makespan.csv", "results.csv", "journal.jsonl"} <= after
    assert "quickstart" not in (tmp_path / "results.csv").read_text()
    message = "2 cells of an earlier space or log stay in the journal, not in the tables"
    assert message in capsys.readouterr().out
    study, console = report_study(tmp_path), report_console()
    study.print_rankings(console)
    study.print_places(console)
    assert message in capsys.readouterr().out
