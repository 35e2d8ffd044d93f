"""`gridtune results rerun`: a cell again, from its id, compared to the last bit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gridtune.cli.main import main
from gridtune.core.cells import CellResult, finite_json
from gridtune.sweep.journal.journal import Journal, read_journal
from tests.cli.folders import finished_sweep, quickstart
from tests.sweep.spaces import toy_space


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["results", "rerun", *map(str, arguments)])
    return int(ended.value.code or 0)


def append(folder: Path, result: CellResult, **changes: Any) -> None:
    with Journal(folder / "journal.jsonl") as journal:
        journal.append([replace(result, **changes)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    space = quickstart(dimensions={"order": ["fcfs", "saf"]}, replicates={"windows": 2})
    return finished_sweep(tmp_path / "results" / "small", space)


def test_a_cell_is_identical_and_leaves_its_schedule(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = next(iter(read_journal(folder / "journal.jsonl").values()))
    monkeypatch.chdir(tmp_path)  # the sweep is found in results/
    assert run(result.cell_id[:8], "--json", "--out", "schedule.parquet") == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert cell["identical"]
    assert cell["metrics"] == finite_json(result.metrics)
    assert pq.read_table("schedule.parquet").num_rows == 2500


def test_another_number_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = next(iter(read_journal(folder / "journal.jsonl").values()))
    value = result.metrics["wait_mean"] * (1 + 1e-15)
    append(folder, result, metrics={**result.metrics, "wait_mean": value})
    assert run(result.cell_id, folder) == 1
    printed = capsys.readouterr().out
    assert re.search(r"1 of \d+ metrics differ", printed)
    assert f"wait_mean: {value!r} then, {result.metrics['wait_mean']!r} now" in printed


def test_a_changed_log_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.swf"
    log.write_text("".join(f"{n} {n} -1 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1\n" for n in range(1, 21)))
    space = quickstart(
        fixed={"trace": str(log), "processors": 4}, dimensions={"order": ["fcfs"]}, replicates={"seeds": 1}
    )
    folder = finished_sweep(tmp_path / "small", space)
    (cell_id,) = read_journal(folder / "journal.jsonl")
    assert run(cell_id, folder) == 0
    log.write_text(log.read_text().replace(" 10 1 ", " 15 1 "))
    assert run(cell_id, folder) == 1
    assert f"another cell now: the content of {log} is not what it was" in capsys.readouterr().out


ORDER = """
from gridtune.batch.policies import queue_order


@queue_order("rerun-mine")
def score(job):
    '''Widest first.'''
    return -job.processors
"""


@pytest.mark.slow
def test_code_that_was_edited_is_named(tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(ORDER)
    dimensions = {"order": ["fcfs", "rerun-mine"]}
    space = quickstart(plugins=[str(plugin)], dimensions=dimensions, replicates={"windows": 2})
    folder = finished_sweep(tmp_path / "small", space)
    results = read_journal(folder / "journal.jsonl").values()
    mine = next(result for result in results if result.configuration["order"] == "rerun-mine")
    plugin.write_text(ORDER.replace("-job", "job"))
    printed = again(folder, mine)
    assert printed.startswith("1 ")
    assert "another cell now" in printed
    assert "mine.py has changed" in printed
    assert "metrics differ" in printed
    # What does not use it is the same cell as before.
    other = next(result for result in results if result.configuration["order"] == "fcfs")
    assert "identical: " in again(folder, other)


FORKING = """
import os
import gridtune as gt

@gt.metric("forked", unit="1", direction="min", formula="1", source="this test")
def forked(jobs):
    "One."
    if os.environ.get("FORK"):
        os.fork()
    return 1.0
"""


def test_users_code_that_forks_and_returns_adds_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = tmp_path / "forking.py"
    plugin.write_text(FORKING)
    monkeypatch.setenv("FORK", "1")
    command = [sys.executable, "-m", "gridtune", "results", "rerun", str(folder), "--add-metric", "forked"]
    command += ["--plugin", str(plugin)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.count(str(folder)) == 1, done.stdout
    lines = (folder / "journal.jsonl").read_text().splitlines()
    assert sum('"forked"' in line for line in lines) == 4
    assert {result.metrics["forked"] for result in read_journal(folder / "journal.jsonl").values()} == {1.0}


def again(folder: Path, result: CellResult) -> str:
    """Run the command in a process of its own, as it is a new one that reads an edited file."""
    command = [sys.executable, "-m", "gridtune", "results", "rerun", result.cell_id, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"{done.returncode} {done.stdout}{done.stderr}"


def test_a_failed_cell_fails_again_or_says_that_it_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = toy_space(dimensions={"x": [1], "kind": ["good", "raises"]}, replicates={"seeds": 1})
    folder = finished_sweep(tmp_path / "toys", space)
    results = {
        result.configuration["kind"]: result for result in read_journal(folder / "journal.jsonl").values()
    }
    assert run(results["raises"].cell_id, folder) == 1
    assert "failed (it was failed, too)" in capsys.readouterr().out
    append(folder, results["good"], state="lost", metrics={})
    assert run(results["good"].cell_id, folder) == 1
    assert "done now" in capsys.readouterr().out


def test_an_unclear_beginning_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = next(iter(read_journal(folder / "journal.jsonl").values()))
    append(folder, result, cell_id=f"{result.cell_id[:10]}{'0' * 10}", identity="")
    assert run(result.cell_id[:9], folder) == 2
    assert f"2 cells' ids begin with {result.cell_id[:9]!r}" in capsys.readouterr().err
    assert run(result.cell_id[:2], folder) == 2
    assert "too short" in capsys.readouterr().err
    assert run("0123456789", folder) == 2
    assert "no cell's id begins with '0123456789'" in capsys.readouterr().err


METRIC = """
from gridtune.batch.metrics import metric


@metric("long_waits", unit="jobs", direction="min", formula="#{i : wᵢ > 100 s}", source="here, 2026")
def long_waits(jobs):
    \"\"\"How many jobs waited for more than 100 s.\"\"\"
    return float((jobs.wait > 100).sum())
"""


@pytest.mark.usefixtures("registrations")
@pytest.mark.slow
def test_a_metric_is_added_under_the_same_ids_and_goes_on_after_a_kill(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "long.py").write_text(METRIC)
    journal = folder / "journal.jsonl"
    before = read_journal(journal)
    # In processes of their own, because the metric would stay registered in this one. The first is killed
    # after a cell.
    adding = f"add_metrics(Path({str(folder)!r}), ['long_waits'], [Path({str(tmp_path / 'long.py')!r})])"
    imports = "import os; from pathlib import Path; from gridtune.study.stored import add_metrics"
    killed = subprocess.run(
        [sys.executable, "-c", f"{imports}; next({adding}); os._exit(9)"], check=False, timeout=600
    )
    assert killed.returncode == 9
    assert ["long_waits" in result.metrics for result in read_journal(journal).values()].count(True) == 1
    command = [sys.executable, "-m", "gridtune"]
    again = [
        *command,
        "results",
        "rerun",
        str(folder),
        "--add-metric",
        "long_waits",
        "--plugin",
        str(tmp_path / "long.py"),
    ]
    added = subprocess.run(again, check=True, timeout=600, capture_output=True, text=True)
    assert added.stdout.startswith("3 cells have long_waits now")
    after = read_journal(journal)
    assert after.keys() == before.keys()
    for key, result in after.items():
        assert {**result.metrics} == {**before[key].metrics, "long_waits": result.metrics["long_waits"]}
        assert result.metrics["long_waits"] > 0
    # The report finds the plug-in's copy in the folder: nothing names it here.
    with pytest.raises(SystemExit) as ended:
        main(["report", str(folder), "--objective", "long_waits"])
    assert not ended.value.code
    assert "long_waits" in capsys.readouterr().out


def test_a_metric_that_there_is_not_changes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "journal.jsonl").read_bytes()
    assert run(folder, "--add-metric", "wait_maen") == 2
    assert "did you mean 'wait_mean'" in capsys.readouterr().err
    assert (folder / "journal.jsonl").read_bytes() == before
