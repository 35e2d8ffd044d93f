"""What the networks see, remember and forget."""

from __future__ import annotations

import copy

import pytest
import torch

from gridtune.batch.simulator.machines import ROW, STATE
from gridtune.errors import PolicyError
from gridtune.training.acting import Actor
from gridtune.training.networks import FRAMES, NETWORKS, make_network

FEATURES, ACTIONS, STEPS, EPISODES = 5, 3, 60, 4
#: Numbers that a network of candidates needs to be shown, and one of rows.
SHOWN = {"candidates": STATE + ACTIONS * ROW, "rows": 2 * ACTIONS}


def run_of(network, seed=0, begin_at=0):
    """Return observations and begins for `STEPS` decisions; episode 1 also begins at `begin_at`."""
    generator = torch.Generator().manual_seed(seed)
    rows = network.lookback + STEPS
    observations = torch.rand(rows, EPISODES, network.features, generator=generator)
    begins = torch.zeros(rows, EPISODES, dtype=torch.bool)
    begins[network.lookback] = True
    begins[network.lookback + begin_at, 1] = True
    return observations, begins


def one_by_one(network, observations, begins):
    state, replies = network.initial_state(EPISODES), []
    for step in range(STEPS):
        window = slice(step, step + network.lookback + 1)
        logits, values, state = network(observations[window], begins[window], state)
        replies.append((logits[0], values[0]))
    return tuple(torch.stack(part) for part in zip(*replies, strict=True))


def step_by_step(network, observations, begins):
    """Return the same from `step`, whose memory is reset where an episode begins."""
    actor, replies = Actor(network, EPISODES), []
    actor.begin()
    for seen, begun in zip(observations[network.lookback :], begins[network.lookback :], strict=True):
        logits = network.step(
            seen,
            torch.where(begun.view(-1, *[1] * (actor.memory.dim() - 1)), network.memory(1), actor.memory),
        )
        replies.append((logits.logits, actor.step(seen, begun, torch.zeros(EPISODES), 0).values))
    return tuple(torch.stack(part) for part in zip(*replies, strict=True))


def some(kind):
    return make_network(kind, SHOWN.get(kind, FEATURES), ACTIONS, seed=1)


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_run_at_once_equals_one_decision_at_a_time(kind) -> None:
    network = some(kind)
    observations, begins = run_of(network, begin_at=23)
    with torch.no_grad():
        logits, values, _ = network(observations, begins, network.initial_state(EPISODES))
        expected = one_by_one(network, observations, begins)
        stepped = step_by_step(network, observations, begins)
    for decided in (expected, stepped):
        torch.testing.assert_close(logits, decided[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(values, decided[1], rtol=1e-5, atol=1e-6)
    assert logits.shape == (STEPS, EPISODES, ACTIONS)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("kind", NETWORKS)
def test_a_gpu_decides_as_the_processor_does(kind) -> None:
    network = some(kind)
    observations, begins = run_of(network, begin_at=23)
    chance = torch.rand(STEPS, EPISODES, generator=torch.Generator().manual_seed(5))
    there = copy.deepcopy(network).cuda()
    actors = Actor(network, EPISODES), Actor(there, EPISODES)
    for actor in actors:
        actor.begin()
    for step in range(STEPS):
        row = network.lookback + step
        here, gpu = (actor.step(observations[row], begins[row], chance[step], step) for actor in actors)
        assert torch.equal(gpu.actions, here.actions)
        torch.testing.assert_close(gpu.values, here.values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", NETWORKS)
def test_nothing_before_an_episode_s_beginning_matters(kind) -> None:
    network = some(kind)
    observations, begins = run_of(network, begin_at=30)
    changed = observations.clone()
    changed[: network.lookback + 30] = 7.0
    with torch.no_grad():
        state = network.initial_state(EPISODES)
        before, after = network(observations, begins, state), network(changed, begins, state)
    torch.testing.assert_close(after.logits[30:, 1], before.logits[30:, 1])
    torch.testing.assert_close(after.values[30:, 1], before.values[30:, 1])
    if kind == "recurrent":
        assert not torch.allclose(after.logits[30:, 0], before.logits[30:, 0])


@pytest.mark.parametrize(("kind", "reach"), [("mlp", 1), ("paper", FRAMES), ("recurrent", STEPS)])
def test_how_far_a_decision_looks_back(kind, reach) -> None:
    network = make_network(kind, FEATURES, ACTIONS, seed=1)
    observations, begins = run_of(network)
    changed = observations.clone()
    changed[network.lookback] += 1.0
    with torch.no_grad():
        state = network.initial_state(EPISODES)
        before, after = (network(seen, begins, state).logits for seen in (observations, changed))
    differs = (before != after).any(-1).any(-1)
    assert differs[:reach].all()
    assert not differs[reach:].any()


def test_the_paper_s_network_has_the_shapes_of_the_authors_weights() -> None:
    network = make_network("paper", 48, 15)
    tower = network.policy
    assert tower.memory.weight_ih_l0.T.shape == (48, 512)
    assert tower.memory.weight_hh_l0.T.shape == (128, 512)
    assert tower.memory.bias_ih_l0.numel() + tower.memory.bias_hh_l0.numel() == 1024
    assert tower.dense.weight.T.shape == (128, 64)
    assert tower.out.weight.T.shape == (64, 15)
    assert network.value.out.weight.T.shape == (64, 1)


def test_a_network_for_one_number_of_actions_is_refused_for_another() -> None:
    with pytest.raises(PolicyError, match=", not 4"):
        some("mlp").resized(4)


def test_a_seed_draws_the_same_weights_and_leaves_torch_s_own_numbers_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, other = (make_network("recurrent", FEATURES, ACTIONS, seed=9) for _ in range(2))
    assert torch.equal(torch.rand(3), expected)
    for left, right in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(left, right)


def test_an_unknown_network_is_refused() -> None:
    with pytest.raises(PolicyError, match="one of candidates, mlp, paper, recurrent, rows"):
        make_network("lstm", FEATURES, ACTIONS)
    with pytest.raises(PolicyError, match="cannot learn from 4 decisions"):
        make_network("mlp", FEATURES, ACTIONS, sequence=4)
