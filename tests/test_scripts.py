"""The study scripts name studies that exist, and say truly how they are started."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import gridtune

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted((ROOT / "scripts").glob("sweep_*.py"))


BENCHMARKS = sorted(
    path for path in (ROOT / "benchmarks").glob("*.py") if "def main(" in path.read_text(encoding="utf-8")
)


def test_there_are_study_scripts() -> None:
    assert {path.stem for path in SCRIPTS} >= {
        "sweep_backfilling",
        "sweep_load",
        "sweep_queue_orders",
        "sweep_walltime_noise",
    }


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_study_script_runs_its_own_space(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    class Finished:
        complete = True

    def note(space: Path) -> Finished:
        ran.append(gridtune.load_space(space).name)
        return Finished()

    monkeypatch.setattr(gridtune, "run_sweep", note)
    monkeypatch.setattr(sys, "argv", [str(script)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0
    assert ran == [script.stem.removeprefix("sweep_")]
    assert f"python scripts/{script.name}" in script.read_text(encoding="utf-8")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_study_scripts_help_says_what_it_does_and_runs_nothing(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gridtune, "run_sweep", lambda space: pytest.fail("help starts the sweep"))
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert f"search_spaces/{script.stem.removeprefix('sweep_')}.yaml" in told


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
