"""A finished sweep answers at once while nothing has changed, and does its work when anything has."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gridtune.cli.main import main
from gridtune.errors import GridtuneWarning
from gridtune.study.finished import FINISHED_FILE

PLUGIN = """
import gridtune as gt

@gt.queue_order("{name}")
def mine(job):
    return job.walltime
"""

#: The order's name, one for each test: what is registered stays in the process.
NAMES = (f"mine{number}" for number in itertools.count())

SPACE: dict[str, Any] = {
    "name": "answered",
    "plugins": ["mine.py"],
    "fixed": {"trace": "log.swf", "processors": 64},
    "replicates": {"windows": 2},
    "objective": "wait_mean",
}

Run = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the sweep; gives what --json says, and what is printed without it."""
    monkeypatch.chdir(tmp_path)
    name = next(NAMES)
    (tmp_path / "mine.py").write_text(PLUGIN.format(name=name))
    lines = [f"{i + 1} {60 * i} -1 {30 + i} 8 -1 -1 8 100 -1 1 1 1 1 1 1 -1 -1" for i in range(40)]
    (tmp_path / "log.swf").write_text("\n".join(lines) + "\n")
    space = {**SPACE, "dimensions": {"order": ["fcfs", name]}}
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(space))

    def go(*options: str) -> tuple[dict[str, Any], str]:
        command = ["sweep", "space.yaml", "--no-tracking", "--executor", "inline", *options]
        printed = []
        for form in (["--json"], []):
            with pytest.raises(SystemExit) as ended:
                main([*command, *form])
            assert ended.value.code == 0
            printed.append(capsys.readouterr().out)
        return json.loads(printed[0]), printed[1]

    return go


def works(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Remember when a sweep does its work."""
    import gridtune.study.run as module  # noqa: PLC0415

    worked: list[str] = []
    usual = module.run_space

    def noted(*args: Any, **options: Any) -> Any:
        worked.append("worked")
        return usual(*args, **options)

    monkeypatch.setattr(module, "run_space", noted)
    return worked


def test_the_answer_is_the_same_without_the_work(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    worked = works(monkeypatch)
    first, _ = run()
    assert worked == ["worked"]  # the second form of output is answered from what is stored
    again, screen = run()
    assert worked == ["worked"]
    assert {**first, "ran": 0, "seconds": 0} == {**again, "seconds": 0}
    assert screen.startswith("4 cells, nothing to run: nothing has changed since ")
    assert "fcfs" in screen


def rewrite(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content + b"\n" if path.suffix != ".swf" else content.replace(b" 30 8 ", b" 31 8 "))


def alter_plugin(folder: Path) -> None:
    path = folder / "mine.py"
    path.write_text(path.read_text().replace("return job", "return -job"))


def alter_space(folder: Path) -> None:
    path = folder / "space.yaml"
    path.write_text(f"{path.read_text()}description: another question\n")


def alter_journal(folder: Path) -> None:
    path = folder / "results/answered/journal.jsonl"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")


CHANGES: dict[str, Callable[[Path], object]] = {
    "log": lambda folder: rewrite(folder / "log.swf"),
    "plug-in": alter_plugin,
    "space": alter_space,
    "journal": alter_journal,
    "table": lambda folder: rewrite(folder / "results/answered/results.csv"),
    "missing figure": lambda folder: (folder / "results/answered/plots/ranking-wait_mean.png").unlink(),
    "damaged": lambda folder: rewrite(folder / "results/answered/results.parquet"),
    "no answer": lambda folder: (folder / "results/answered" / FINISHED_FILE).write_text("{"),
}


@pytest.mark.filterwarnings("ignore:.*has changed since.*they run again")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_the_sweep_does_its_work(
    change: Callable[[Path], object], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked = works(monkeypatch)
    run()
    change(tmp_path)
    run()
    # Both forms of output, where the sweep has something to warn of.
    assert len(worked) > 1


READING = """

@gt.metric("answered_cost", unit="1", direction="min", formula="c", source="this test")
def cost(jobs):
    "A cost."
    return float(open("data.txt").read())
"""


def test_a_file_that_a_metric_reads_in_a_call_is_edited(
    registrations: None, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked = works(monkeypatch)
    plugin, data = tmp_path / "mine.py", tmp_path / "data.txt"
    plugin.write_text(plugin.read_text() + READING)
    data.write_text("1")
    run()
    assert worked == ["worked"]
    data.write_text("2")
    with pytest.warns(GridtuneWarning, match=r"data\.txt has changed since 4 cells read it: they run again"):
        assert run()[0]["ran"] == 4
    assert len(worked) == 2


def test_a_sweep_that_was_not_tracked_is_tracked_when_that_is_asked_for(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gridtune.study.finished import finished_answer  # noqa: PLC0415
    from gridtune.sweep.space.plan import plan_space  # noqa: PLC0415

    run()
    space = plan_space(tmp_path / "space.yaml")
    assert finished_answer(space, None, tracking=False, uri=None) is not None
    assert finished_answer(space, None, tracking=True, uri="sqlite:///mlflow.db") is None
    assert finished_answer(space, None, tracking=True, uri="http://server:5000") is None
