"""`gridtune status`: what a sweep is doing, while its driver lives and after."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gridtune.cli.main import main
from gridtune.sweep.execution.observing import SweepObserver, SweepPlan, SweepResult, TimeLeft
from gridtune.sweep.execution.status import STATUS_FILE, DriverStatus, StatusFile
from gridtune.sweep.journal.journal import Journal, read_journal
from gridtune.sweep.space.plan import PlannedSpace
from gridtune.sweep.space.schema import parse_space
from tests.sweep.spaces import toy_space
from tests.tracking.synthetic import cell_results, sweep_facts

SPACE = {"name": "orders", "dimensions": {"order": ["order0", "order1", "order2"]}, "objective": "wait_mean"}


def status(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    capsys.readouterr()
    try:
        main(["status", *map(str, arguments)])
    except SystemExit as ended:
        return int(ended.code or 0), capsys.readouterr().out
    raise AssertionError("a command ends with an exit code")


def report_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    return dict(json.loads(status(capsys, *arguments, "--json")[1]))


class Driver:
    """A driver in this process: a journal and a status file, without a sweep."""

    def __init__(self, folder: Path, before: int = 0, total: int = 12) -> None:
        self.results = cell_results()
        self.said = StatusFile()
        self.journal = Journal(folder / "journal.jsonl")
        self.plan = SweepPlan(parse_space(SPACE), folder, ["min"], total, self.results[:before], {})
        sweep_facts(space=SPACE).write(folder)

    def start(self) -> None:
        self.said.started(self.plan)
        self.said.stage("running", 2)

    def end(self, results: int, how: str) -> None:
        self.journal.close()
        done = self.results[:results]
        self.said.ended(SweepResult(self.plan, done, None, Path(), results, 1.0))  # type: ignore[arg-type]
        self.said.close(how)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "results" / "orders").mkdir(parents=True)
    return tmp_path / "results" / "orders"


@pytest.fixture
def driver(folder: Path) -> Iterator[Driver]:
    running = Driver(folder)
    yield running
    running.journal.close()


def killed(folder: Path) -> None:
    """Make what the driver has said that of a process that is gone."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    path = folder / STATUS_FILE
    content = json.loads(path.read_text())
    path.write_text(path.read_text().replace(f'"process": {content["process"]}', f'"process": {gone.pid}'))
    lock = folder / "journal.lock"
    lock.write_text(lock.read_text().replace(str(os.getpid()), str(gone.pid)))


def test_a_sweep_that_runs(folder: Path, driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    driver.start()
    driver.journal.append(driver.results[:5])
    content = report_of(capsys, folder)
    assert content["state"] == "running"
    assert content["process"] == os.getpid()
    assert (content["counts"]["done"], content["left"], content["total"]) == (5, 7, 12)
    assert content["busy"] == 2
    code, text = status(capsys, folder)
    assert code == 0
    assert "5 done, 7 left, of 12 cells" in text
    assert "2 workers busy" in text


def test_the_time_left_is_that_of_the_driver(
    folder: Path, driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the cost of cells, not by the time since the first one."""
    now = [0.0]
    driver.said._left = TimeLeft(lambda: now[0])
    driver.start()
    assert "seconds_left" not in status(capsys, folder)[1]
    now[0] += 100.0
    results = [replace(result, seconds=60.0) for result in driver.results[:5]]
    driver.journal.append(results)
    driver.said.finished(results)
    driver.said.stage("ending Ray", 0)
    assert report_of(capsys, folder)["seconds_left"] == pytest.approx(7 * 60 / 2)
    assert "about 3:30 left" in status(capsys, folder)[1]


def test_the_total_of_a_strategy_that_stops_configurations_is_a_limit(
    folder: Path, driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    driver.plan = replace(driver.plan, at_most=True)
    driver.start()
    # The first configuration in all its replicates, of the others one that is better by luck.
    replicates = [result for result in driver.results if result.configuration["order"] == "order0"]
    lucky = [
        replace(result, metrics={"wait_mean": -1.0})
        for result in driver.results
        if result.configuration["order"] != "order0" and result.replicate == replicates[0].replicate
    ]
    driver.journal.append([*replicates, *lucky])
    done = len(replicates) + len(lucky)
    text = status(capsys, folder)[1]
    assert f"{done} done, up to {12 - done} left, of up to 12 cells" in text
    driver.said.ended(SweepResult(driver.plan, [*replicates, *lucky], None, Path(), done, 1.0))  # type: ignore[arg-type]
    driver.journal.close()
    driver.said.close("finished")
    text = status(capsys, folder)[1]
    assert f"{done} done, 0 left, of {done} cells" in text


def test_a_sweep_whose_driver_was_killed(
    folder: Path, driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    driver.start()
    driver.journal.append(driver.results[:5])
    driver.journal.close()
    killed(folder)
    code, text = status(capsys, folder)
    assert code == 1
    assert "died while running; last sign of life" in text
    assert "5 done, 7 left, of 12 cells" in text
    assert "goes on with what is left" in text


def test_the_number_of_a_dead_driver_that_another_process_has_now(
    folder: Path, driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    driver.start()
    driver.journal.close()
    path = folder / STATUS_FILE
    content = json.loads(path.read_text())
    assert DriverStatus.read(folder).alive  # type: ignore[union-attr]
    path.write_text(json.dumps(content | {"clock": (content["clock"] or 0) - 1}))
    assert report_of(capsys, folder)["state"] == "died"


def elsewhere(folder: Path, driver: Driver, seconds: float) -> None:
    """Make a running driver one of another machine, whose lock does not reach us; last heard of then."""
    driver.journal.close()
    path = folder / STATUS_FILE
    before = time.time() - seconds
    changes = {"process": 7, "host": "elsewhere", "updated": before}
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    (folder / "journal.lock").write_text("process 7 on elsewhere")
    os.utime(path, (before, before))


@pytest.mark.parametrize(
    ("seconds", "state", "said"),
    [
        (5, "running", "running for"),
        (
            300,
            "died",
            "not running: its driver (process 7 on elsewhere) died while running; last sign of life 5:0",
        ),
    ],
)
def test_another_machines_driver_is_judged_by_its_heartbeat(
    seconds: float,
    state: str,
    said: str,
    folder: Path,
    driver: Driver,
    capsys: pytest.CaptureFixture[str],
) -> None:
    driver.start()
    elsewhere(folder, driver, seconds)
    assert report_of(capsys, folder)["state"] == state
    assert said in status(capsys, folder)[1]


def test_a_driver_that_lives_and_is_silent_is_said_to_be(
    folder: Path, driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    driver.start()
    os.utime(folder / STATUS_FILE, (time.time() - 300,) * 2)
    code, text = status(capsys, folder)
    assert code == 0
    assert "without a sign of life for 5:0" in text
    assert "is it suspended?" in text


def test_a_running_driver_has_a_heartbeat(
    folder: Path, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridtune.sweep.execution.status._BEAT_SECONDS", 0.01)
    driver.start()
    path = folder / STATUS_FILE
    os.utime(path, (0, 0))
    deadline = time.monotonic() + 60
    while path.stat().st_mtime == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    driver.said.close("finished")


def test_a_driver_that_writes_the_report_still_runs(
    folder: Path, driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    driver.start()
    driver.journal.append(driver.results)
    driver.journal.close()
    driver.said.stage("writing the report", 0)
    content = report_of(capsys, folder)
    assert (content["state"], content["stage"], content["left"]) == ("running", "writing the report", 0)


@pytest.mark.parametrize(
    ("how", "results", "state", "code", "word"),
    [
        ("finished", 12, "finished", 0, "orders: finished"),
        ("interrupted", 5, "interrupted", 1, "orders: interrupted"),
        ("the machine is on fire", 5, "stopped", 1, "its driver stopped: the machine is on fire"),
    ],
)
def test_a_driver_that_has_ended(
    folder: Path,
    driver: Driver,
    how: str,
    results: int,
    state: str,
    code: int,
    word: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    driver.start()
    driver.journal.append(driver.results[:results])
    driver.end(results, how)
    assert report_of(capsys, folder)["state"] == state
    found, text = status(capsys, folder)
    assert found == code
    assert word in text


def test_cells_of_an_earlier_space_do_not_count(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Journal(folder / "journal.jsonl") as journal:
        journal.append(cell_results(workload="elsewhere"))
        journal.append(cell_results()[:3])
    driver = Driver(folder, before=2)  # the third is to be run again
    driver.start()
    assert report_of(capsys, folder)["counts"]["done"] == 2
    driver.journal.append(driver.results[2:4])
    content = report_of(capsys, folder)
    assert (content["counts"]["done"], content["left"]) == (4, 8)
    driver.journal.close()


def test_all_sweeps_are_listed(
    folder: Path, driver: Driver, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parents[1])
    driver.start()
    driver.journal.append(driver.results)
    driver.end(12, "finished")
    (folder.parent / "broken").mkdir()
    (folder.parent / "broken" / "journal.jsonl").write_text("{}\n{}\n")
    _, text = status(capsys)
    assert "orders" in text
    assert "finished" in text
    rows = {row["name"]: row for row in json.loads(status(capsys, "--json")[1])}
    assert rows["orders"]["complete"]
    assert "no journal of a sweep" in rows["broken"]["error"]
    # By its name, and by its search space.
    assert report_of(capsys, "orders")["state"] == "finished"
    Path("space.yaml").write_text(yaml.safe_dump(SPACE))
    assert report_of(capsys, "space.yaml")["state"] == "finished"
    assert status(capsys, "ordres")[0] == 2


def test_a_journal_without_a_word_from_its_driver(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Journal(folder / "journal.jsonl") as journal:
        journal.append(cell_results())
    sweep_facts(space=SPACE).write(folder)
    assert report_of(capsys, folder)["state"] == "finished"
    sweep_facts(space=SPACE, cells=20).write(folder)
    content = report_of(capsys, folder)
    assert (content["state"], content["left"]) == ("died", 8)


@pytest.mark.parametrize(
    ("fault", "ended"), [(KeyboardInterrupt(), "interrupted"), (RuntimeError("no luck"), "no luck")]
)
def test_how_a_sweep_ended_is_said(
    fault: BaseException, ended: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gridtune.study import run  # noqa: PLC0415

    def run_space(
        planned: PlannedSpace, *, observers: Sequence[SweepObserver], **options: Any
    ) -> SweepResult:
        plan = SweepPlan(planned.space, folder, ["min"], 12, [], {})
        for observer in observers:
            observer.started(plan)
        raise fault

    monkeypatch.setattr(run, "run_space", run_space)
    with pytest.raises(type(fault)):
        run.run_sweep(toy_space(), directory=folder, tracking=False, output="quiet")
    said = DriverStatus.read(folder)
    assert said is not None
    assert said.ended == ended


@pytest.mark.integration
def test_status_is_true_after_a_real_kill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space, out = tmp_path / "space.yaml", tmp_path / "out"
    dimensions = {"x": list(range(200))}
    space.write_text(yaml.safe_dump(toy_space(fixed={"nap": 0.1}, dimensions=dimensions)))
    command = [sys.executable, "-m", "gridtune", "sweep", str(space), "--out", str(out)]
    quiet = ["--no-tracking", "--workers", "1", "--quiet"]
    with subprocess.Popen([*command, *quiet]) as sweep:
        deadline = time.monotonic() + 500
        while len(read_journal(out / "journal.jsonl")) < 3:
            assert sweep.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        running = report_of(capsys, out)
        os.kill(sweep.pid, signal.SIGKILL)
        sweep.wait()
    assert running["state"] == "running"
    assert running["process"] == sweep.pid
    died = report_of(capsys, out)
    assert died["state"] == "died"
    assert died["total"] == 400
    assert died["counts"]["done"] == len(read_journal(out / "journal.jsonl"))
    assert died["left"] == 400 - died["counts"]["done"] > 0
    assert status(capsys, out)[0] == 1


def test_the_end_is_what_the_file_says_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(tmp_path)
    driver.start()

    class Slow:
        """A lock that lets the end overtake the writing that waits for it."""

        def __enter__(self) -> None:
            if DriverStatus.read(tmp_path).ended is None:  # type: ignore[union-attr]
                monkeypatch.setattr(driver.said, "_lock", contextlib.nullcontext())
                driver.said.close("finished")

        def __exit__(self, *fault: object) -> None:
            pass

    monkeypatch.setattr(driver.said, "_lock", Slow())
    driver.said.stage("writing the report", 0)
    driver.journal.close()
    last = DriverStatus.read(tmp_path)
    assert last is not None
    assert last.ended == "finished"
