"""RLlib's own way to play: `get_module().forward_inference` on the checkpoint of every training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.algorithm import Algorithm

from gridtune.core.cells import validated
from gridtune.core.system import SYSTEMS, get_system
from gridtune.sweep.space.plan import Workloads
from gridtune.systems.responsive.environment import ResponsiveVectorEnv
from gridtune.systems.responsive.learners.rllib import policy_of
from gridtune.training.networks import NETWORKS, make_network
from gridtune.training.rllib import _NetworkModule, network_of
from gridtune.training.system import TrainingRun
from tests.training.test_networks import ACTIONS, FEATURES, SHOWN, STEPS, run_of

DAYS = {"trace": "orion_days", "cluster": "orion", "first": 20, "environments": 2, "steps": 48}
TRAININGS = [
    ("shutdown/ppo", {**DAYS, "network": "mlp"}),
    ("shutdown/ppo", {**DAYS, "network": "paper", "frames": 5}),
    ("shutdown/ppo", {**DAYS, "network": "recurrent"}),
    ("batch/ppo", {"trace": "quickstart", "first": 1000, "environments": 2, "steps": 48, "jobs": 64}),
    ("dispatch/ppo", {"batch_jobs": 40, "environments": 2, "steps": 48, "network": "recurrent"}),
]


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_module_decides_step_by_step_as_its_network_does_at_once(kind) -> None:
    described = {"kind": kind, "features": SHOWN.get(kind, FEATURES), "actions": ACTIONS, "seed": 1}
    module, network = _NetworkModule(model_config={"network": described}), make_network(**described)
    observations, begins = run_of(network)
    observations[: network.lookback] = 0.0
    expected, _, _ = network(observations, begins, network.initial_state(observations.shape[1]))
    seen, state, replies = observations[network.lookback :], {}, []
    for step in range(STEPS):
        reply = module.forward_inference({"obs": seen[step], "state_in": state})
        replies.append(reply["action_dist_inputs"])
        state = reply.get("state_out", {})
    torch.testing.assert_close(torch.stack(replies), expected, rtol=1e-5, atol=1e-6)
    assert bool(state) == module.is_stateful() == (kind in ("paper", "recurrent"))
    # As RLlib's connectors give them to modules with a state: (B, T, features).
    half, rest = seen.transpose(0, 1).split(STEPS // 2, 1)
    first = module.forward_inference({"obs": half})
    second = module.forward_inference({"obs": rest, "state_in": first.get("state_out", {})})
    joined = torch.cat([first["action_dist_inputs"], second["action_dist_inputs"]], 1)
    torch.testing.assert_close(joined.transpose(0, 1), expected, rtol=1e-5, atol=1e-6)


def trained(name, parameters, folder):
    """Train for an iteration; leave the checkpoint in a folder as `gridtune train` does, and load it."""
    training, workloads = get_system(name), Workloads()
    checked = validated(training, {**parameters, "iterations": 1})
    run = TrainingRun(training, checked, seed=1, load=workloads.load)
    run.step()
    run.save(folder)
    run.close()
    return Algorithm.from_checkpoint(str(folder))


def test_every_training_is_played() -> None:
    systems = [system for system in SYSTEMS.values() if type(system).__module__.startswith("gridtune.")]
    own = {f"{system.name}/{name}" for system in systems for name in system.trainings}
    assert {name for name, _ in TRAININGS} | {"responsive/esnq"} == own


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "parameters"),
    [pytest.param(*one, marks=pytest.mark.slow if one in TRAININGS[1:3] else ()) for one in TRAININGS],
)
def test_a_checkpoint_of_ppo_plays_its_environment(name, parameters, cluster, tmp_path) -> None:
    algorithm = trained(name, parameters, tmp_path)
    module, network = algorithm.get_module(), network_of(algorithm)
    env = algorithm.config.env_config["make_env"](1)
    seen, _ = env.reset(seed=3)
    lived, said, state = [], [], {}
    for _ in range(12):
        reply = module.forward_inference({"obs": torch.as_tensor(seen), "state_in": state})
        logits, state = reply["action_dist_inputs"], reply.get("state_out", {})
        lived.append(torch.as_tensor(seen).clone())
        said.append(logits)
        seen, _, terminated, truncated, _ = env.step(logits.argmax(-1).numpy())
        if terminated[0] or truncated[0]:
            break
    algorithm.stop()
    assert len(lived) > 1
    rows = torch.cat([torch.zeros(network.lookback, *lived[0].shape), torch.stack(lived)])
    begins = torch.zeros(rows.shape[:2], dtype=torch.bool)
    with torch.no_grad():
        logits = network(rows, begins, network.initial_state(1)).logits
    torch.testing.assert_close(torch.stack(said), logits, rtol=1e-4, atol=1e-5)
    assert torch.stack(said).std() > 0


@pytest.mark.integration
@pytest.mark.slow
def test_a_checkpoint_of_esnq_plays_its_environment(cluster, tmp_path) -> None:
    parameters = {"trace": "egee", "first": 400, "cores": 12, "neurons": 20, "pretraining_sweeps": 1}
    algorithm = trained("responsive/esnq", parameters, tmp_path)
    module, config = algorithm.get_module(), algorithm.config
    env = ResponsiveVectorEnv(1, config.jobs, config.site_model, episode=len(config.jobs), weight=1.0)
    seen, _ = env.reset(seed=3)
    reward, over, state = 0.0, False, {}
    while not over:
        shown = {name: torch.as_tensor(array) for name, array in seen.items()}
        reply = module.forward_inference({"obs": shown, "state_in": state})
        values, state = reply["action_dist_inputs"], reply["state_out"]
        assert torch.isneginf(values[0]).tolist() == (seen["action_mask"][0] == 0).tolist()
        seen, gained, terminated, _, _ = env.step(values.argmax(-1).numpy())
        reward, over = reward + gained[0], bool(terminated[0])
    site = policy_of(algorithm).play(config.jobs, config.site_model)
    algorithm.stop()
    run, wait = site.jobs.run, site.state.start - site.jobs.submit
    assert wait.max() > 0
    assert reward == pytest.approx(np.sum(run / (run + wait)), rel=1e-6)
