"""`policy=ppo`: a trained network as a rule of the shutdown system."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest
import torch

from gridtune.errors import GridtuneError, PolicyError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.shutdown.environment import read_training_days
from gridtune.systems.shutdown.metrics import combine_days, measure_days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from gridtune.systems.shutdown.simulator.state import FEATURES
from gridtune.systems.shutdown.training import find_policy, load_published, play_days
from gridtune.tracking.training import TrainingTracker
from gridtune.training.networks import load_policy, make_network, write_checkpoint


@pytest.fixture
def checkpoint(tmp_path):
    write_checkpoint(tmp_path / "policy.pt", make_network("mlp", FEATURES, 15, seed=4))
    return tmp_path / "policy.pt"


def run(**parameters):
    return run_cell("shutdown", {"trace": "taurus_days", "first": 3, **parameters})


def test_it_plays_the_checkpoint(checkpoint) -> None:
    days = read_training_days("taurus_days", "all").take(np.arange(3))
    greedy = run(policy="ppo", checkpoint=str(checkpoint), greedy=True)
    results, _ = replay(days, rule=play_days(load_policy(checkpoint), days))
    expected = combine_days(measure_days(days, results, Platform()))["energy_waste_total"]
    assert greedy.outcome.metrics["energy_waste_total"] == expected
    drawn, again = (run(policy="ppo", checkpoint=str(checkpoint)) for _ in range(2))
    assert drawn.outcome.metrics == again.outcome.metrics
    assert drawn.outcome.metrics["energy_waste_total"] != greedy.outcome.metrics["energy_waste_total"]


def test_a_policy_that_a_training_tracked_comes_back_from_mlflow(
    checkpoint, store_uri, tmp_path, monkeypatch
) -> None:
    tracker = TrainingTracker("training", "first", tmp_path / "training", parameters={}, uri=store_uri)
    tracker.checkpoint(checkpoint)
    outcome = tracker.close()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store_uri)
    stored, local = (
        run(policy="ppo", checkpoint=place, greedy=True)
        for place in (outcome.checkpoint("policy.pt"), str(checkpoint))
    )
    assert stored.outcome.metrics == local.outcome.metrics
    with pytest.raises(GridtuneError, match="has no file"):
        run(policy="ppo", checkpoint=outcome.checkpoint("other.pt"))


def test_another_network_is_another_cell(checkpoint) -> None:
    before = run(policy="ppo", checkpoint=str(checkpoint)).cell.cell_id
    write_checkpoint(checkpoint, make_network("mlp", FEATURES, 15, seed=5))
    assert run(policy="ppo", checkpoint=str(checkpoint)).cell.cell_id != before


def wasted(policy: dict[str, Any], cluster: str) -> dict[str, float]:
    days = {"trace": f"{cluster}_days", "cluster": cluster, "first": 25, "subset": "test"}
    return run_cell("shutdown", {**days, **policy}).outcome.metrics


def test_the_papers_network_wastes_what_the_paper_says_against_t5() -> None:
    learnt = wasted({"policy": "ppo", "checkpoint": "taurus-lstm"}, "taurus")
    ruled = wasted({"policy": "timeout", "timeout": 5}, "taurus")
    assert 0.45 < learnt["energy_waste_total"] / ruled["energy_waste_total"] < 0.65


def test_the_bundled_policy_is_small() -> None:
    assert find_policy("taurus-lstm").stat().st_size < 1_500_000


def test_a_file_goes_before_a_bundled_name(checkpoint, monkeypatch) -> None:
    monkeypatch.chdir(checkpoint.parent)
    assert load_policy(find_policy("taurus-lstm")).kind == "recurrent"
    checkpoint.rename("taurus-lstm")
    assert load_policy(find_policy("taurus-lstm")).kind == "mlp"


SHAPES = {
    "network__cu_dnnlstm{0}__kernel": (FEATURES, 512),
    "network__cu_dnnlstm{0}__recurrent_kernel": (128, 512),
    "network__cu_dnnlstm{0}__bias": (1024,),
    "network__dense{0}__kernel": (128, 64),
    "network__dense{0}__bias": (64,),
}


def published_weights(actions: int = 15) -> dict[str, Any]:
    """Return arrays by the names and in the shapes of the published ones."""
    rng, shapes = np.random.default_rng(3), {}
    for tower, number, outputs in (("policy", "", actions), ("value", "_1", 1)):
        shapes |= {f"{tower}_{name.format(number)}": shape for name, shape in SHAPES.items()}
        shapes |= {f"{tower}_logits__kernel": (64, outputs), f"{tower}_logits__bias": (outputs,)}
    return {f"{name}:0": rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}


def by_hand(arrays: dict[str, Any], frames: Any) -> Any:
    """Return the published policy's logits after these observations, written out with NumPy alone."""
    units, place = 128, "policy_network__cu_dnnlstm__"
    kernels = np.split(arrays[place + "kernel:0"], 4, axis=1)
    kernels = [kernel.ravel().reshape(units, FEATURES).T for kernel in kernels]
    recurrent = [kernel.T for kernel in np.split(arrays[place + "recurrent_kernel:0"], 4, axis=1)]
    biases = np.split(arrays[place + "bias:0"][:512] + arrays[place + "bias:0"][512:], 4)
    hidden, cell = np.zeros(units), np.zeros(units)
    for seen in frames:
        i, f, c, o = (seen @ kernels[g] + hidden @ recurrent[g] + biases[g] for g in range(4))
        sigmoid = [1 / (1 + np.exp(-gate)) for gate in (i, f, o)]
        cell = sigmoid[1] * cell + sigmoid[0] * np.tanh(c)
        hidden = sigmoid[2] * np.tanh(cell)
    dense = hidden @ arrays["policy_network__dense__kernel:0"] + arrays["policy_network__dense__bias:0"]
    dense = np.where(dense > 0, dense, 0.2 * dense)
    return dense @ arrays["policy_logits__kernel:0"] + arrays["policy_logits__bias:0"]


def test_the_published_weights_decide_as_written_out_by_hand(tmp_path) -> None:
    arrays = published_weights()
    np.savez(tmp_path / "weights.npz", **arrays)
    network = load_published(tmp_path / "weights.npz")
    frames = np.random.default_rng(4).random((25, FEATURES)).astype(np.float32)
    with torch.no_grad():
        memory = network.memory(1)
        for seen in frames:
            logits, _, memory = network.step(torch.from_numpy(seen)[None], memory)
    np.testing.assert_allclose(logits[0].numpy(), by_hand(arrays, frames[-20:]), rtol=1e-4, atol=1e-5)


def test_files_that_hold_no_published_weights_are_refused(tmp_path) -> None:
    path, arrays = tmp_path / "weights.npz", published_weights()
    for others in (
        {},
        {"policy_logits__bias:0": np.zeros(3)},
        {"policy_logits__bias:0": np.array([None] * 15)},
    ):
        np.savez(path, **(arrays | others if others else {}))
        with pytest.raises(PolicyError, match="holds no weights of the published network"):
            load_published(path)
    np.savez(path, **published_weights(actions=5))
    with pytest.raises(GridtuneError, match="weights for 5 actions, not 15"):
        run(policy="deepshutdown", weights=str(path))


@pytest.mark.real_traces
def test_the_authors_network_scores_what_they_recorded(golden_dir) -> None:
    folder = golden_dir / "shutdown" / "lyon_good"
    if not folder.is_dir():
        pytest.skip("no goldens of the authors' network")
    days = {"trace": str(folder / "workloads" / "test"), "platform": str(folder / "platform.xml")}
    played = run_cell(
        "shutdown", {**days, "policy": "deepshutdown", "weights": str(folder / "weights.npz")}
    ).outcome.metrics
    recorded = pa.csv.read_csv(folder / "results" / "test.csv")
    theirs = recorded.filter(pc.equal(recorded["policy"], "DeepShutdown"))
    assert played["score_per_day"] == pytest.approx(pc.mean(theirs["score"]).as_py(), rel=0.05)
    assert played["switches_per_day"] == pytest.approx(pc.mean(theirs["nb_switches"]).as_py(), rel=0.05)


@pytest.mark.parametrize(
    ("parameters", "fault"),
    [
        ({"policy": "ppo"}, "needs a checkpoint"),
        ({"policy": "timeout", "checkpoint": "a.pt"}, "takes no checkpoint"),
        ({"policy": "oracle", "greedy": True}, "has no effect with policy=oracle"),
        ({"policy": "ppo", "checkpoint": "nowhere.pt"}, "cannot be read"),
        ({"policy": "deepshutdown"}, "needs weights"),
        ({"policy": "timeout", "weights": "a.npz"}, "takes no weights"),
        ({"policy": "deepshutdown", "weights": "nowhere.npz"}, "nowhere.npz"),
        ({"policy": "deepshutdown", "weights": "a.npz", "cut": "whole"}, "needs days of a fixed length"),
    ],
)
def test_faults_are_told(parameters, fault) -> None:
    with pytest.raises(GridtuneError, match=fault):
        run(**parameters)
