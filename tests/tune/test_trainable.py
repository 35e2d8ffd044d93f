"""Systems as trainables: means over replicates, saved, restored and reset; Tune's own schedulers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
from ray import tune
from ray.air.integrations.mlflow import MLflowLoggerCallback
from ray.tune.schedulers import ASHAScheduler, PopulationBasedTraining
from ray.tune.search.optuna import OptunaSearch

import gridtune as gt
from gridtune.core.cells import replicate_streams
from gridtune.errors import GridtuneError, SweepError
from tests.sweep.spaces import TOY


def toy(**options: Any) -> type[tune.Trainable]:
    return gt.tune.trainable("toy", plugins=[TOY], **options)


def losses(x: float, seeds: int) -> list[float]:
    noise = [float(replicate_streams(seed, {})("noise").standard_normal()) for seed in range(seeds)]
    return [(x - 3) ** 2 + 0.01 * value for value in noise]


def test_an_iteration_is_a_replicate_and_reports_the_mean_so_far() -> None:
    trial = toy(replicates=3, metrics=["loss"])({"x": 5})
    reports = [trial.train() for _ in range(3)]
    expected = losses(5, 3)
    assert [report["loss"] for report in reports] == [np.mean(expected[: n + 1]) for n in range(3)]
    assert [report["training_iteration"] for report in reports] == [1, 2, 3]
    assert [report["done"] for report in reports] == [False, False, True]
    assert "gain" not in reports[0]


def test_an_iteration_may_be_a_value_of_a_resource() -> None:
    trial = toy(replicates=2, resource={"x": [1, 4]})({})
    first, second = trial.train(), trial.train()
    assert (first["x"], second["x"]) == (1, 4)
    assert first["loss"] == np.mean(losses(1, 2))
    assert second["loss"] == np.mean(losses(4, 2))
    assert (first["done"], second["done"]) == (False, True)


def test_windows_are_replicates() -> None:
    trial = gt.tune.trainable("batch", fixed={"trace": "quickstart"}, replicates={"windows": 2})(
        {"order": "sjf"}
    )
    reports = [trial.train(), trial.train()]
    cells = [
        gt.run_cell("batch", {"trace": "quickstart", "order": "sjf", "window": f"{n}/2"}, seed=n - 1)
        for n in (1, 2)
    ]
    waits = [cell.outcome.metrics["wait_mean"] for cell in cells]
    assert [report["wait_mean"] for report in reports] == [waits[0], np.mean(waits)]


def test_a_trial_is_saved_and_restored(tmp_path: Path) -> None:
    made = toy(replicates=4)
    trial = made({"x": 2})
    trial.train()
    trial.train()
    trial.save_checkpoint(str(tmp_path))
    again = made({"x": 2})
    again.load_checkpoint(str(tmp_path))
    third, expected = again.step(), trial.step()
    assert third["loss"] == expected["loss"] == np.mean(losses(2, 3))
    assert third["replicates"] == 3
    # Another configuration goes on at the same replicate, with means of its own.
    other = made({"x": 5})
    other.load_checkpoint(str(tmp_path))
    assert other.step()["loss"] == losses(5, 3)[2]
    assert other.step()["done"]


def test_a_trial_is_reset_for_another() -> None:
    trial = toy(replicates=2)({"x": 2})
    trial.train()
    assert trial.reset_config({"x": np.float64(7.0)})
    assert trial.step()["loss"] == losses(7, 1)[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fixed": {"y": 1}}, "no parameter 'y'"),
        ({"metrics": ["lost"]}, "no metric 'lost'"),
        ({"metrics": "lost"}, "no metric 'lost'"),
        ({"replicates": 0}, "greater than 0"),
        ({"replicates": "ten"}, "replicates.seeds"),
        ({"replicates": {"seed": 3}}, "seed"),
        ({"resource": {"x": [3, 1]}}, "ascend"),
        ({"resource": {"x": [1], "depth": [1]}}, "one parameter"),
        ({"resource": {"z": [1, 2]}}, "no parameter 'z'"),
    ],
)
def test_what_is_wrong_is_refused_before_ray_starts(options: dict[str, Any], words: str) -> None:
    with pytest.raises(GridtuneError, match=words):
        toy(**options)


def test_a_misspelt_parameter_of_a_trial_is_named() -> None:
    with pytest.raises(SweepError, match="no parameter 'wrd'"):
        toy()({"wrd": "a"})


@pytest.mark.integration
@pytest.mark.usefixtures("cluster")
def test_tune_searches_and_stops_trials_and_mlflow_has_them(tmp_path: Path, empty_store: bytes) -> None:
    (tmp_path / "mlflow.db").write_bytes(empty_store)
    store_uri = f"sqlite:///{tmp_path}/mlflow.db"
    tuner = tune.Tuner(
        tune.with_resources(toy(replicates=4, metrics=["loss", "gain"]), {"cpu": 1}),
        param_space={"x": tune.uniform(0, 10), "word": tune.choice(["a", "b"])},
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=8,
            search_alg=OptunaSearch(seed=1),
            scheduler=ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2),
            reuse_actors=True,
            max_concurrent_trials=2,
        ),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path / "tune"),
            callbacks=[MLflowLoggerCallback(store_uri, experiment_name="toys")],
            verbose=0,
        ),
    )
    results = tuner.fit()
    assert results.num_errors == 0
    assert {result.metrics["replicates"] for result in results} >= {1, 4}
    best = results.get_best_result()
    assert best.metrics is not None
    client = mlflow.MlflowClient(tracking_uri=store_uri)
    experiment = client.get_experiment_by_name("toys")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert len(runs) == 8
    tracked = sorted(run.data.metrics["loss"] for run in runs)
    assert tracked == sorted(result.metrics["loss"] for result in results if result.metrics)


@pytest.mark.integration
@pytest.mark.usefixtures("cluster")
@pytest.mark.slow
def test_population_based_training_moves_bad_trials_to_good_ones(tmp_path: Path) -> None:
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        hyperparam_mutations={"x": tune.uniform(0, 10)},
        quantile_fraction=0.5,
        resample_probability=0.0,
        synch=True,
    )
    results = tune.Tuner(
        tune.with_resources(toy(replicates=6, metrics=["loss"]), {"cpu": 1}),
        param_space={"x": tune.grid_search([2.5, 9.5])},
        tune_config=tune.TuneConfig(metric="loss", mode="min", scheduler=scheduler, reuse_actors=True),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path),
            verbose=0,
        ),
    ).fit()
    assert results.num_errors == 0
    assert all(result.metrics and result.metrics["done"] for result in results)
    # The bad trial has taken the good one's configuration, changed by a fifth.
    assert max(result.config["x"] for result in results if result.config) < 4
