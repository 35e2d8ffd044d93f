"""`gridtune train`: one trial of Tune that goes on after a stop, and what it leaves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.algorithm import Algorithm

from gridtune.errors import GridtuneError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.responsive.learners.rllib import policy_of
from gridtune.systems.responsive.learners.training import load_policy as load_values
from gridtune.tracking.checkpoints import _run_file
from gridtune.tracking.store import connect
from gridtune.training.networks import load_policy, read_checkpoint
from gridtune.training.rllib import network_of
from gridtune.tune.training import _TrainingFolder, train

TINY = {
    "trace": "orion_days",
    "cluster": "orion",
    "first": 30,
    "environments": 2,
    "steps": 48,
    "minibatches": 2,
    "validate_every": 1,
}


def weights_of(checkpoint: Path):
    algorithm = Algorithm.from_checkpoint(str(checkpoint.resolve()))
    try:
        return network_of(algorithm).state_dict()
    finally:
        algorithm.stop()


def expect_same(one: Path, other: Path) -> None:
    """Compare two folders of trainings: curve, best policy, weights of the last iteration."""
    assert (one / "learning_curve.jsonl").read_text() == (other / "learning_curve.jsonl").read_text()
    for mine, theirs in (
        (load_policy(one / "best.pt").state_dict(), load_policy(other / "best.pt").state_dict()),
        (weights_of(one / "checkpoint"), weights_of(other / "checkpoint")),
    ):
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


@pytest.fixture(scope="module")
def whole(cluster, tmp_path_factory) -> Path:
    """Two iterations of `TINY` in one go, untracked."""
    folder = tmp_path_factory.mktemp("training") / "whole"
    train("shutdown", {**TINY, "iterations": 2}, directory=folder, tracking=False)
    return folder


@pytest.mark.integration
@pytest.mark.slow
def test_it_goes_on_where_it_stopped_is_tracked_and_plays(whole, store_uri, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store_uri)
    monkeypatch.setenv("GRIDTUNE_TRAININGS", str(tmp_path / "cells"))
    halves = tmp_path / "halves"
    train("shutdown", {**TINY, "iterations": 1}, directory=halves)
    (second,) = train("shutdown", {**TINY, "iterations": 2}, directory=halves)
    expect_same(halves, whole)
    assert (second.began, len(second.curve)) == (1, 2)
    # The same training as a cell of a sweep.
    cell = run_cell("shutdown/ppo", {**TINY, "iterations": 2}).outcome
    assert cell.metrics["score_per_day"] == second.curve[-1]["score_per_day"]
    # Tracked as one run, whose id is a policy.
    assert second.tracking is not None
    run = connect(store_uri).get_run(second.tracking.run_id)
    assert (run.info.run_name, run.info.status, run.data.params["cluster"]) == ("halves", "FINISHED", "orion")
    history = connect(store_uri).get_metric_history(second.tracking.run_id, "score_per_day")
    assert [point.step for point in history] == [1, 2]
    days = {"trace": "orion_days", "cluster": "orion", "first": 2, "policy": "ppo"}
    played = [
        run_cell("shutdown", {**days, "checkpoint": str(place)}).outcome.metrics
        for place in (halves, halves / "best.pt", halves / "checkpoint", second.tracking.run_id)
    ]
    assert played[0] == played[1] == played[2] == played[3]
    best = max(point["score_per_day"] for point in second.curve)
    assert read_checkpoint(halves / "best.pt")["notes"]["score_per_day"] == best
    # What belongs to another training is refused, and what is done already is not done again.
    with pytest.raises(GridtuneError, match="another training here, with another learning_rate"):
        train("shutdown", {**TINY, "learning_rate": 0.1}, directory=halves, tracking=False)
    (again,) = train("shutdown", {**TINY, "iterations": 2}, directory=halves, tracking=False)
    assert (again.began, len(again.curve)) == (2, 2)


@pytest.mark.integration
@pytest.mark.slow
def test_it_goes_on_elsewhere_from_the_checkpoint_of_its_run(whole, store_uri, tmp_path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (first,) = train("shutdown", {**TINY, "iterations": 1}, directory=there, tracking_uri=store_uri)
    shutil.rmtree(there)
    packed = _run_file(f"runs:/{first.tracking.run_id}/checkpoints/checkpoint.tar.gz", store_uri)
    shutil.unpack_archive(packed, here / "checkpoint")
    (second,) = train("shutdown", {**TINY, "iterations": 2}, directory=here, tracking_uri=store_uri)
    expect_same(here, whole)
    assert second.began == 1
    history = connect(store_uri).get_metric_history(second.tracking.run_id, "score_per_day")
    assert [point.step for point in history] == [1, 2]


@pytest.mark.integration
@pytest.mark.slow
def test_trainings_of_a_sweep_leave_curves_and_policies(store_uri, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store_uri)
    space = {
        "name": "rates",
        "system": "shutdown/ppo",
        "fixed": TINY,
        "dimensions": {"learning_rate": [1e-4, 1e-3]},
        "strategy": {"train": {"trials": 2, "iterations": [1, 2], "seed": 1}},
        "replicates": {"seeds": 1},
        "objective": "score_per_day",
    }
    (tmp_path / "rates.yaml").write_text(json.dumps(space))
    command = [sys.executable, "-m", "gridtune", "sweep", "rates.yaml", "--quiet", "--workers", "1"]
    # A process of its own, for its workers have its environment.
    environment = {**os.environ, "GRIDTUNE_TRAININGS": str(tmp_path / "trainings")}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    client = connect(store_uri)
    experiment = client.get_experiment_by_name("rates")
    runs = client.search_runs([experiment.experiment_id], "tags.`gridtune.kind` = 'training'")
    assert len(runs) == 4
    lengths = {
        run.info.run_id: len(client.get_metric_history(run.info.run_id, "score_per_day")) for run in runs
    }
    assert sorted(lengths.values()) == [1, 1, 2, 2]
    longest = max(lengths, key=lambda run_id: lengths[run_id])
    checkpoints = {
        run_id: _run_file(f"runs:/{run_id}/checkpoints/checkpoint", store_uri) for run_id in lengths
    }
    days = {"trace": "orion_days", "cluster": "orion", "first": 2, "policy": "ppo"}
    played = [
        run_cell("shutdown", {**days, "checkpoint": str(place)}).outcome.metrics
        for place in (longest, checkpoints[longest])
    ]
    assert played[0] == played[1]
    assert weights_of(checkpoints[longest])


@pytest.mark.integration
@pytest.mark.slow
def test_values_of_a_grid_site_are_those_of_its_cells(cluster, tmp_path) -> None:
    jobs = {"trace": "egee", "first": 240}
    parameters = {**jobs, "neurons": 10, "held_out": 0, "iterations": 2}
    (trained,) = train("responsive", parameters, directory=tmp_path, tracking=False)
    algorithm = Algorithm.from_checkpoint(str(trained.checkpoint.resolve()))
    policy_of(algorithm).save(tmp_path / "last.npz")
    algorithm.stop()
    learned = run_cell("responsive", {**jobs, "neurons": 10, "policy": "esn-sarsa", "sweeps": 1}).outcome
    played = run_cell(
        "responsive", {**jobs, "policy": "learned", "checkpoint": str(tmp_path / "last.npz")}
    ).outcome
    assert played.metrics == learned.metrics
    assert np.isfinite(load_values(tmp_path / "best.npz").arrays.readout).all()


@pytest.mark.integration
@pytest.mark.slow
def test_a_killed_training_ends_as_one_that_was_not(cluster, tmp_path) -> None:
    longer = {**TINY, "iterations": 6}
    command = [sys.executable, "-m", "gridtune", "train", "shutdown", "--no-tracking"]
    command += [f"{name}={value}" for name, value in TINY.items()]
    command += ["--iterations", "6", "--out", str(tmp_path / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 300
    while len(list((tmp_path / "killed").glob("tune/seed-0/checkpoint_*/training.json"))) < 2:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    (resumed,) = train("shutdown", longer, directory=tmp_path / "killed", tracking=False)
    assert 1 <= resumed.as_dict()["resumed_from"] < longer["iterations"]
    train("shutdown", longer, directory=tmp_path / "whole", tracking=False)
    expect_same(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.parametrize(
    ("system", "parameters", "fault"),
    [
        ("shutdwn", {}, "no system is named 'shutdwn'"),
        ("shutdown/dqn", {}, "shutdown has no training 'dqn'"),
        ("shutdown", {**TINY, "learning_rat": 1}, "learning_rat"),
        ("shutdown", {**TINY, "first": 5}, "too few to hold out"),
    ],
)
def test_faults_are_found_before_anything_starts(system, parameters, fault, tmp_path) -> None:
    with pytest.raises(GridtuneError, match=fault):
        train(system, parameters, directory=tmp_path / "new", tracking=False)
    assert not list(tmp_path.rglob("learning_curve.jsonl"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_is_refused_where_there_is_none(tmp_path) -> None:
    with pytest.raises(GridtuneError, match="no GPU that torch can use"):
        train("shutdown", {**TINY, "device": "cuda"}, directory=tmp_path, tracking=False)


def checkpoint(folder: Path, curve, identity, policy="weights") -> None:
    """Write a checkpoint as a training leaves it."""
    folder.mkdir(parents=True)
    (folder / "best.pt").write_text(policy)
    state = {"identity": identity, "iteration": len(curve), "curve": curve, "best": 1.0}
    (folder / "training.json").write_text(json.dumps({**state, "files": {"best.pt": len(policy)}}))


def test_a_folder_goes_on_from_the_newest_complete_checkpoint(tmp_path) -> None:
    points = [{"iteration": number, "score": 0.5} for number in (1, 2, 3)]
    checkpoint(tmp_path / "checkpoint", points[:1], {"seed": 1}, "old")
    checkpoint(tmp_path / "tune" / "checkpoint_1", points[:2], {"seed": 1}, "new")
    checkpoint(tmp_path / "tune" / "checkpoint_2", points, {"seed": 1}, "cut")
    (tmp_path / "tune" / "checkpoint_2" / "best.pt").write_text("")
    folder = _TrainingFolder(tmp_path, tune=tmp_path / "tune", policy_file="best.pt")
    folder.settle()
    assert (folder.iteration, folder.policy.read_text()) == (2, "new")
    assert not (tmp_path / "tune").exists()
    # A point of an iteration that is there already replaces those after it.
    for point in (points[2], {"iteration": 2, "score": 0.7}):
        folder.add(point)
    lines = (tmp_path / "learning_curve.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [points[0], {"iteration": 2, "score": 0.7}]


def test_a_folder_of_another_training_is_refused(tmp_path) -> None:
    identity = {"seed": 1, "parameters": {"learning_rate": 0.1}}
    checkpoint(tmp_path / "checkpoint", [{"iteration": 1}], identity)
    folder = _TrainingFolder(tmp_path, tune=tmp_path / "tune", policy_file="best.pt")
    folder.check(identity)
    with pytest.raises(GridtuneError, match="with another seed, learning_rate, steps"):
        folder.check({"seed": 2, "parameters": {"learning_rate": 0.2, "steps": 5}})
