"""What a sweep says when something went wrong: a cell without a result, a report that fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from gridtune.cli.main import EXIT_FAILED_CELLS, main
from gridtune.core.cells import CellResult
from gridtune.errors import SweepError
from gridtune.sweep.execution.runner import error_text
from gridtune.sweep.journal.journal import Journal
from gridtune.sweep.run import space_cells

PLUGIN = """\
from gridtune.core.measures import Measure
from gridtune.core.system import Outcome, System, SystemParameters, register_system


class Parameters(SystemParameters):
    x: float = 0.0


class BrokenReport(System):
    name, version, Parameters = "broken_report", "1", Parameters
    metrics = {"loss": Measure("s", "min", "x", source="gridtune")}

    def run(self, parameters, **options):
        return Outcome({"loss": parameters.x})

    def report(self, sweep):
        raise OSError("the disk is full")


register_system(BrokenReport())
"""
REPORT_ERROR = "the report of the system 'broken_report' failed"
MODES = ([], ["--quiet"], ["--json"])


def finished_sweep(folder: Path) -> list[str]:
    """Write a space and the journal of all its cells; return the arguments of its sweep, which runs none."""
    plugin, space = folder / "broken_report.py", folder / "space.yaml"
    plugin.write_text(PLUGIN)
    space.write_text(
        yaml.safe_dump(
            {
                "name": "errors",
                "system": "broken_report",
                "plugins": [str(plugin)],
                "dimensions": {"x": [1.0, 2.0]},
                "replicates": {"seeds": 2},
                "objective": "loss",
            }
        )
    )
    with Journal(folder / "out" / "journal.jsonl") as journal:
        journal.append(
            CellResult.of(cell, "done", metrics={"loss": cell.parameters["x"]}, seconds=0.1)
            for cell in space_cells(space)
        )
    return ["sweep", str(space), "--out", str(folder / "out"), "--no-tracking"]


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Return the exit code and what was printed."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


@pytest.mark.parametrize("mode", MODES, ids=["screen", "quiet", "json"])
def test_a_sweep_whose_report_fails_says_so_and_keeps_its_results(
    mode: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run([*finished_sweep(tmp_path), *mode], capsys)
    assert code == EXIT_FAILED_CELLS
    shown = err if mode else out
    assert REPORT_ERROR in shown
    assert "OSError: the disk is full" in shown
    if mode == ["--json"]:
        content = json.loads(out)
        assert REPORT_ERROR in content["report_error"]
        assert content["done"] == 4
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files >= {"results.parquet", "results.csv", "ranking-loss.csv", "journal.jsonl"}


@pytest.mark.parametrize("mode", [[], ["--json"]], ids=["screen", "json"])
def test_a_report_that_fails_makes_its_command_fail(
    mode: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run([*finished_sweep(tmp_path), "--quiet"], capsys)
    code, out, err = run(["report", str(tmp_path / "out"), *mode], capsys)
    assert code == EXIT_FAILED_CELLS
    assert REPORT_ERROR in (err if mode else out)


@pytest.mark.parametrize("mode", MODES, ids=["screen", "quiet", "json"])
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            SweepError("the log has no jobs", hint="give another log"),
            "4 cells have no result; the first: SweepError: the log has no jobs\n  hint: give another log",
        ),
        (ZeroDivisionError("division by zero"), "the first: ZeroDivisionError: division by zero"),
    ],
)
def test_cells_without_a_result_show_the_error_before_its_hint(
    fault: Exception, words: str, mode: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = finished_sweep(tmp_path)
    with Journal(tmp_path / "out" / "journal.jsonl") as journal:
        journal.append(
            CellResult.of(cell, "failed", error=error_text(fault))
            for cell in space_cells(tmp_path / "space.yaml")
        )
    code, out, err = run([*arguments, *mode], capsys)
    assert code == EXIT_FAILED_CELLS
    assert words in (err if mode else out)
