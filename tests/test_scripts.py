"""The study scripts name studies that exist, and say truly how they are started."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import gridtune

SCRIPTS = sorted((Path(__file__).resolve().parent.parent / "scripts").glob("sweep_*.py"))


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
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0
    assert ran == [script.stem.removeprefix("sweep_")]
    assert f"python scripts/{script.name}" in script.read_text(encoding="utf-8")
