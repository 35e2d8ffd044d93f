"""The scripts and benchmarks read their command lines, and the study in Python runs its search space."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import gridtune

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "sweep_backfilling.py"

BENCHMARKS = sorted(
    path for path in (ROOT / "benchmarks").glob("*.py") if "def main(" in path.read_text(encoding="utf-8")
)


def test_the_study_script_runs_its_space(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    class Finished:
        complete = True

    def note(space: Path) -> Finished:
        ran.append(gridtune.load_space(space).name)
        return Finished()

    monkeypatch.setattr(gridtune, "run_sweep", note)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert ended.value.code == 0
    assert ran == ["backfilling"]
    assert f"python scripts/{SCRIPT.name}" in SCRIPT.read_text(encoding="utf-8")


def test_the_study_scripts_help_says_what_it_does_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gridtune, "run_sweep", lambda space: pytest.fail("help starts the sweep"))
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert ended.value.code == 0
    assert "search_spaces/backfilling.yaml" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["shutdown_speed", "recorded_waits", "memory", "egee_calibration"])
def test_a_benchmarks_help_measures_nothing(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("usage: ")
    assert "Measured on" not in done.stdout


def test_every_benchmark_reads_its_command_line() -> None:
    assert len(BENCHMARKS) > 10
    for path in BENCHMARKS:
        assert "parse_args()" in path.read_text(encoding="utf-8"), path.name
