"""`gridtune results export --format optuna`: a sweep as a study that Optuna reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gridtune as gt
from gridtune.cli.main import main
from gridtune.sweep.journal.journal import read_proposals
from tests.sweep.spaces import toy_space

optuna = pytest.importorskip("optuna")
TrialState = optuna.trial.TrialState


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    return int(ended.value.code or 0)


def swept(folder: Path, **changes: Any) -> gt.Study:
    space = toy_space(**changes)
    return gt.run_sweep(space, directory=folder, executor="inline", tracking=False, output="quiet")


def exported(folder: Path, *options: str) -> Any:
    assert run("results", "export", folder, "--out", folder / "study.db", "--force", *options) == 0
    return optuna.load_study(study_name="toys", storage=f"sqlite:///{folder}/study.db")


def test_an_adaptive_sweep_is_a_study_of_its_trials(tmp_path: Path) -> None:
    sweep = swept(
        tmp_path,
        dimensions={"x": {"uniform": [0, 3]}, "word": {"choice": ["a", "b"]}},
        strategy={"optuna": {"trials": 12, "seed": 3, "parallel": 2}},
    )
    study = exported(tmp_path)
    cells = sweep.to_pandas()
    proposals = sorted(read_proposals(tmp_path / "journal.jsonl"), key=lambda entry: entry["number"])
    assert [trial.params for trial in study.trials] == [entry["point"] for entry in proposals]
    assert study.metric_names == ["loss, s"]
    assert study.best_value == pytest.approx(cells.groupby("configuration_id")["metric.loss"].mean().min())
    assert study.best_params == {name: sweep.best().parameters[name] for name in ("x", "word")}
    assert study.best_trial.user_attrs["configurations"] == [sweep.best().row["configuration_id"]]
    assert study.best_trial.distributions["x"] == optuna.distributions.FloatDistribution(0, 3)
    assert list(study.best_trial.intermediate_values) == [1, 2]  # after each seed
    # Optuna can go on from it.
    trial = study.ask()
    assert 0 <= trial.suggest_float("x", 0, 3) <= 3
    assert trial.suggest_categorical("word", ["a", "b"]) in {"a", "b"}


def test_stopped_trials_are_pruned_and_failed_ones_failed(tmp_path: Path) -> None:
    rungs = [1, 2, 4]
    swept(
        tmp_path,
        fixed={"notebook": str(tmp_path)},
        dimensions={
            "x": {"uniform": [0, 3]},
            "kind": {"choice": ["good", "raises"]},
            "depth": {"grid": rungs},
        },
        baseline={"x": 5, "kind": "good", "depth": 4},
        strategy={"asha": {"trials": 12, "resource": "depth", "reduction": 2, "seed": 2}},
        replicates={"seeds": 1},
    )
    *trials, baseline = exported(tmp_path).trials
    assert {trial.state for trial in trials} == {TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL}
    for trial in trials:
        assert "depth" not in trial.params
        assert (trial.state == TrialState.FAIL) == (trial.params["kind"] == "raises")
        reached = list(trial.intermediate_values)
        assert reached == rungs[: len(reached)]
        assert (trial.state == TrialState.COMPLETE) == (reached == rungs)
    # Its x is outside the dimension, where Optuna takes no parameter.
    assert baseline.user_attrs["x"] == 5
    assert baseline.params == {"kind": "good"}
    assert baseline.state == TrialState.COMPLETE


def test_several_objectives_have_a_front(tmp_path: Path) -> None:
    sweep = swept(
        tmp_path, objective=["loss", {"metric": "size", "direction": "max"}], fixed={"trace": "mm4"}
    )
    study = exported(tmp_path)
    assert [direction.name for direction in study.directions] == ["MINIMIZE", "MAXIMIZE"]
    assert study.metric_names == ["loss, s", "size, jobs"]
    assert len(study.trials) == 8
    assert study.trials[0].values[1] == sweep.to_pandas()["metric.size"].iloc[0]
    assert exported(tmp_path, "--objective", "gain").best_value == pytest.approx(-0, abs=0.1)


def test_what_it_cannot_have_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swept(tmp_path)
    for options, words in (
        (["--format", "optuna"], "add --out study.db"),
        (["--format", "optuna", "--rank", 2, "--out", tmp_path / "a.db"], "leave out --workload and --rank"),
        (["--objective", "los", "--out", tmp_path / "a.db"], "did you mean 'loss'"),
    ):
        assert run("results", "export", tmp_path, *options) == 2
        assert words in capsys.readouterr().err
    assert not (tmp_path / "a.db").exists()
