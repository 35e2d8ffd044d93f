"""The scripts and benchmarks read their command lines, and the study in Python runs its search space."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import mlflow
import pytest

import gridtune

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "sweep_backfilling.py"
sys.path.insert(0, str(ROOT / "scripts"))

BENCHMARKS = sorted(
    path for path in (ROOT / "benchmarks").glob("*.py") if "def main(" in path.read_text(encoding="utf-8")
)


def test_the_study_script_runs_its_space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRIDTUNE_HOME", str(tmp_path / "made" / "by it"))

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
    assert Path.cwd() == tmp_path / "made" / "by it"
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


@pytest.mark.parametrize("script", ["sweep_backfilling", "tune_shutdown_tau"])
def test_a_job_whose_results_would_go_away_is_refused(script: str, tmp_path: Path) -> None:
    folder = tmp_path / "runtime_resources" / "working_dir_files" / "_ray_pkg_1"
    folder.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if name != "GRIDTUNE_HOME"}
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / f"{script}.py"],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "env GRIDTUNE_HOME=/FOLDER" in done.stderr
    assert not list(folder.iterdir())


@pytest.mark.integration
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        pytest.param("responsive_lambda", ["--first", "300"], "weight", marks=pytest.mark.slow),
        pytest.param(
            "shutdown_tau",
            ["--trace", "orion_days", "--cluster", "orion", "--iterations", "1"],
            "tau",
            marks=pytest.mark.slow,
        ),
        pytest.param("provisioning_tradeoff", ["--tasks", "10"], "alpha", marks=pytest.mark.slow),
        pytest.param("provisioning_moga", ["--plans", "20"], "population", marks=pytest.mark.slow),
    ],
)
def test_a_tune_script_searches_and_tracks(
    name: str,
    options: list[str],
    words: str,
    empty_store: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = ROOT / "scripts" / f"tune_{name}.py"
    (tmp_path / "mlflow.db").write_bytes(empty_store)
    places = ["--storage", str(tmp_path / "tune"), "--tracking-uri", f"sqlite:///{tmp_path}/mlflow.db"]
    command = [str(script), "--samples", "3", "--replicates", "2", "--concurrent", "2", *options, *places]
    monkeypatch.setattr(sys, "argv", command)
    runpy.run_path(str(script), run_name="__main__")
    assert words in capsys.readouterr().out
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.get_experiment_by_name(f"tune_{name}")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert [run.info.status for run in runs] == ["FINISHED"] * 3
    assert f"python scripts/tune_{name}.py" in script.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["shutdown_speed", "recorded_waits", "rollouts", "memory", "egee_calibration"]
)
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
        assert re.search(r"parse_(intermixed_)?args\(\)", path.read_text(encoding="utf-8")), path.name


def test_a_size_above_its_limit_ends_with_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    size = runpy.run_path(str(ROOT / "scripts" / "size"))
    limits = size["LIMITS"].read_text(encoding="utf-8")
    lowered = tmp_path / "size_limits.toml"
    lowered.write_text(re.sub(r"files = \d+", "files = 3", limits), encoding="utf-8")
    monkeypatch.setitem(size["check"].__globals__, "LIMITS", lowered)
    assert size["check"]() == 1
    assert re.search(r"^files .* of +3  above the limit", capsys.readouterr().out, re.MULTILINE)
