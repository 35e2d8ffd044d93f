"""`gridtune init`: the search space it writes suits the log, and can be run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gridtune.cli.main import main
from gridtune.sweep.journal.journal import read_journal
from gridtune.sweep.run import space_cells
from gridtune.sweep.space.plan import load_space
from tests.cli.folders import finished_sweep


def line(job: int, *, walltime: int = 60, processors: int = 1) -> str:
    times = f"{job * 10} -1 {20 + job % 7}"
    return f"{job} {times} {processors} -1 -1 {processors} {walltime} -1 1 1 1 1 1 1 -1 -1\n"


def log(path: Path, jobs: int, header: str = "; MaxProcs: 8\n", **values: int) -> Path:
    path.write_text(header + "".join(line(job, **values) for job in range(1, jobs + 1)))
    return path


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def init(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["init", *map(str, arguments)])
    return int(ended.value.code or 0)


def test_the_file_passes_a_dry_run_and_its_cells_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log(tmp_path / "my log.swf", 2500)
    assert init("my log.swf") == 0
    printed = capsys.readouterr().out
    assert "my-log.yaml: 150 cells, 15 configurations with 10 replicates each, on 2,500 jobs" in printed
    assert "next: gridtune sweep my-log.yaml" in printed
    with pytest.raises(SystemExit) as ended:
        main(["sweep", "my-log.yaml", "--dry-run"])
    assert not ended.value.code
    space = load_space("my-log.yaml")
    assert space.baseline == {"order": "fcfs", "backfill": "easy"}
    folder = finished_sweep(tmp_path / "results", Path("my-log.yaml"))
    assert {result.state for result in read_journal(folder / "journal.jsonl").values()} == {"done"}


def test_it_bounds_the_longest_wait_and_that_of_wide_jobs(tmp_path: Path) -> None:
    assert init("sessions") == 0
    space = load_space("sessions.yaml")
    assert [one.metric for one in space.objective] == [
        "bounded_slowdown_mean",
        "area_weighted_response",
        "wait_max",
    ]
    assert space.subject_to == {"wait_max": "<= 1.2 x baseline", "wait_mean[wide]": "<= 1.05 x baseline"}
    assert set(space.classes) == {"narrow", "wide", "short", "long"}
    assert space.fixed["classes"] == space.classes


@pytest.mark.parametrize(
    ("jobs", "kind", "number"), [(2000, "windows", 10), (1500, "windows", 7), (400, "shakes", 10)]
)
def test_replicates_go_by_the_number_of_jobs(tmp_path: Path, jobs: int, kind: str, number: int) -> None:
    log(tmp_path / "a.swf", jobs)
    assert init("a.swf") == 0
    replicates = load_space("a.yaml").replicates
    assert getattr(replicates, kind) == number
    assert replicates.amount == (10 if kind == "shakes" else None)


def test_a_log_without_walltimes_gets_orders_that_do_not_use_them(tmp_path: Path) -> None:
    log(tmp_path / "a.swf", 300, walltime=-1)
    assert init("a.swf") == 0
    assert load_space("a.yaml").dimensions["order"].grid == ("fcfs", "narrowest", "widest")


def test_a_machine_of_unknown_size_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log(tmp_path / "a.swf", 300, header="", processors=6)
    assert init("a.swf") == 2
    message = capsys.readouterr().err
    assert "a.swf: the log does not say how large the machine is" in message
    assert "give --processors N; the widest job has 6" in message
    assert not Path("a.yaml").exists()
    assert init("a.swf", "--processors", 12) == 0
    assert load_space("a.yaml").fixed["processors"] == 12
    # A machine that is too small.
    assert init("a.swf", "--processors", 4, "--out", "b.yaml") == 2
    assert not Path("b.yaml").exists()


def test_nothing_is_replaced_without_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log(tmp_path / "a.swf", 300)
    Path("a.yaml").write_text("mine")
    assert init("a.swf") == 2
    assert "a.yaml exists; --force replaces it" in capsys.readouterr().err
    assert Path("a.yaml").read_text() == "mine"
    assert init("a.swf", "--force") == 0
    assert "order:" in Path("a.yaml").read_text()


def test_a_version_in_the_name_of_a_log_is_kept(tmp_path: Path) -> None:
    log(tmp_path / "KTH-SP2-1996-2.1-cln.swf", 300)
    assert init("KTH-SP2-1996-2.1-cln.swf") == 0
    space = load_space(tmp_path / "KTH-SP2-1996-2.1-cln.yaml")
    assert space.name == "KTH-SP2-1996-2.1-cln"
    assert {cell.workload for cell in space_cells(space)} == {"KTH-SP2-1996-2.1-cln"}


def test_the_log_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "search_spaces").mkdir()
    log(tmp_path / "logs" / "a.swf", 300)
    assert init("logs/a.swf", "--name", "first") == 0
    space = tmp_path / "search_spaces" / "first.yaml"
    assert load_space(space).fixed["trace"] == os.path.join("..", "logs", "a.swf")  # noqa: PTH118 (relative)
    monkeypatch.chdir("/")
    assert space_cells(space)


@pytest.mark.parametrize("system", ["shutdown", "shutdown/ppo"])
def test_a_system_that_proposes_nothing(system: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert init("quickstart", "--system", system) == 2
    assert "proposes no search space" in capsys.readouterr().err


def test_a_machine_that_does_not_fit_the_log_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log(tmp_path / "idle.swf", 400)
    assert init("idle.swf", "--processors", "64") == 0
    assert "machine: nothing ever waits in this log on 64 processors" in capsys.readouterr().err
    log(tmp_path / "small.swf", 400, header="")
    assert init("small.swf", "--processors", "1") == 0
    said = capsys.readouterr().err
    assert "machine: 1 processors is the width of the widest job, and the log does not say" in said
    assert "nothing ever waits" not in said
