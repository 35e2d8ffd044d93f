"""PPO: its arithmetic by hand, what it learns, and the files of its policies."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch

from gridtune.errors import PolicyError
from gridtune.training.acting import Actor, best_actions, draw
from gridtune.training.networks import load_policy, make_network, read_checkpoint, write_checkpoint
from gridtune.training.ppo import (
    PPOSettings,
    _empty_rollout,
    _Minibatch,
    collect,
    ppo_losses,
)
from gridtune.training.rllib import ppo_config
from tests.training.tasks import RecallTask


def network_for(task, kind="mlp", sequence=None):
    return make_network(kind, task.cues + 1, task.cues, sequence=sequence, seed=3)


def rollout_of(steps, rewards, values, terminated=(), truncated=(), unused=()):
    rollout = _empty_rollout(make_network("mlp", 2, 2), steps, 1)
    rollout.rewards[:, 0] = torch.tensor(rewards)
    rollout.values[:, 0] = torch.tensor(values)
    rollout.terminated[list(terminated), 0] = True
    rollout.truncated[list(truncated), 0] = True
    rollout.used[list(unused), 0] = False
    return rollout


def test_advantages_bootstrap_where_an_episode_is_cut_off() -> None:
    # γ = 0.5 and λ = 0.5. Cut off after step 1, whose last observation stands in row 2.
    rollout = rollout_of(4, [1.0, 2.0, 0.0, 4.0], [1.0, 1.0, 8.0, 2.0, 6.0], truncated=[1], unused=[2])
    advantages = rollout.advantages(0.5, 0.5)[:, 0]
    # δ_1 = 2 + 4 − 1; δ_0 = 1 + 0.5 − 1, A_0 = 0.5 + 0.25·5; δ_3 = 4 + 3 − 2.
    assert advantages.tolist() == [1.75, 5.0, 0.0, 5.0]


def test_advantages_expect_nothing_after_a_terminal_step() -> None:
    rollout = rollout_of(4, [1.0, 2.0, 0.0, 4.0], [1.0, 1.0, 8.0, 2.0, 6.0], terminated=[1], unused=[2])
    advantages = rollout.advantages(0.5, 0.5)[:, 0]
    assert advantages.tolist() == [0.75, 1.0, 0.0, 5.0]


def advantages_in_turn(rollout, gamma, lam):
    """The same sums in torch, for all environments at once."""
    carried, ahead = torch.zeros_like(rollout.rewards[0]), rollout.values[-1]
    advantages = []
    for step in reversed(range(len(rollout.rewards))):
        used, values = rollout.used[step], rollout.values[step]
        goes_on = gamma * (~rollout.terminated[step]).float()
        weight = gamma * (~(rollout.terminated | rollout.truncated)[step]).float() * lam
        returned = rollout.rewards[step] + goes_on * ahead
        carried = (returned - values + weight * carried) * used
        ahead = values
        advantages.append(carried)
    return torch.stack(advantages[::-1])


@pytest.mark.parametrize("seed", range(8))
def test_compiled_advantages_are_those_of_single_operations(seed) -> None:
    generator = torch.Generator().manual_seed(seed)
    rollout = _empty_rollout(make_network("mlp", 2, 2), 96, 7)
    rollout.rewards.normal_(generator=generator)
    rollout.values.normal_(generator=generator)
    chances = {"terminated": 0.1, "truncated": 0.1, "used": 0.9}
    for name, chance in chances.items():
        getattr(rollout, name).bernoulli_(chance, generator=generator)
    # To the last bit, so that trainings go on as they did.
    assert torch.equal(rollout.advantages(0.97, 0.9), advantages_in_turn(rollout, 0.97, 0.9))


def batch_of(network, log_probability, advantage, value, target):
    shape = (1, 1)
    observations = torch.zeros(1, 1, network.features)
    return _Minibatch(
        observations,
        torch.ones(shape, dtype=torch.bool),
        network.initial_state(1),
        torch.zeros(shape, dtype=torch.int64),
        torch.full(shape, log_probability),
        torch.full(shape, value),
        torch.full(shape, advantage),
        torch.full(shape, target),
        torch.ones(shape, dtype=torch.bool),
    )


def losses_of(network, batch):
    return ppo_losses(network(batch.observations, batch.begins, batch.state), batch, PPOSettings())


def test_losses_are_clipped_as_written() -> None:
    network = make_network("mlp", 2, 2, seed=0)
    for tower in (network.policy, network.value):
        torch.nn.init.zeros_(tower[-1].weight)
    # The policy says ½, the value 0.
    old = float(np.log(0.25))
    losses = losses_of(network, batch_of(network, old, 2.0, 1.0, 3.0))
    # ρ = 2 is clipped to 1.2; the value may move from 1 to 0.8 only, but the larger error counts: (0 − 3)².
    assert losses.policy.item() == pytest.approx(-2.4)
    assert losses.value.item() == pytest.approx(9.0)
    assert losses.entropy.item() == pytest.approx(np.log(2))
    assert losses.total.item() == pytest.approx(-2.4 + 4.5 - 0.005 * np.log(2))
    worse = losses_of(network, batch_of(network, old, -2.0, 1.0, 0.0))
    assert worse.policy.item() == pytest.approx(4.0)
    assert worse.value.item() == pytest.approx(0.64)


def test_an_output_that_is_not_a_number_is_an_error_with_its_step() -> None:
    logits = torch.tensor([[0.0, -math.inf], [0.0, math.nan]])
    with pytest.raises(PolicyError, match="at step 7 the network's output is NaN"):
        draw(logits, torch.zeros(2), 7)
    with pytest.raises(PolicyError, match="at step 8 "):
        best_actions(logits, 8)
    assert best_actions(logits[:1], 0).tolist() == [0]


def test_draws_follow_the_probabilities() -> None:
    logits = torch.log(torch.tensor([[0.2, 0.5, 0.3]])).expand(100_000, 3)
    actions, log_probabilities = draw(
        logits, torch.rand(100_000, generator=torch.Generator().manual_seed(1)), 0
    )
    shares = torch.bincount(actions, minlength=3) / 100_000
    torch.testing.assert_close(shares, torch.tensor([0.2, 0.5, 0.3]), atol=0.01, rtol=0)
    torch.testing.assert_close(log_probabilities.exp(), torch.tensor([0.2, 0.5, 0.3])[actions])
    assert draw(logits[:1], torch.tensor([0.0]), 0)[0].item() == 0
    assert draw(logits[:1], torch.tensor([1.0 - 2**-24]), 0)[0].item() == 2


def test_a_rollout_leaves_resets_out() -> None:
    task = RecallTask(3, lengths=(4, 6, 5), cut=True)
    rollout = collect(task, Actor(network_for(task), 3), 12, seed=1)
    expected = np.ones((12, 3), bool)
    for episode, length in enumerate((4, 6, 5)):
        expected[length :: length + 1, episode] = False
    np.testing.assert_array_equal(rollout.used.numpy(), expected)
    # Row t + 1 of what is seen belongs to step t: an episode begins after a reset.
    np.testing.assert_array_equal(rollout.begins[1:].numpy(), ~expected)
    assert rollout.begins[0].all()
    assert rollout.truncated.sum(0).tolist() == [2, 1, 2]
    assert (rollout.rewards[~rollout.used] == 0).all()


@pytest.mark.parametrize("kind", ["mlp", "recurrent", "paper"])
def test_minibatches_hold_every_step_once_and_repeat_what_the_policy_said(kind) -> None:
    task = RecallTask(3, lengths=(7, 9), cut=True)
    network = network_for(task, kind, 6 if kind == "recurrent" else None)
    rollout = collect(task, Actor(network, 3), 24, seed=2)
    marks = torch.arange(72.0).view(24, 3)
    seen = []
    for batch in rollout.segments(marks, marks, network, 5, torch.Generator().manual_seed(1)):
        seen += batch.advantages.flatten().tolist()
        with torch.no_grad():
            logits, values, _ = network(batch.observations, batch.begins, batch.state)
        said = torch.log_softmax(logits, -1).gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1)
        torch.testing.assert_close(said, batch.log_probabilities, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(values, batch.values, rtol=1e-4, atol=1e-5)
    assert sorted(seen) == list(range(72))


LEARNABLE = PPOSettings(
    steps=24, minibatches=4, gamma=0.9, learning_rate=3e-3, decay=1.0, updates=100, entropy_weight=0.0, seed=1
)


def returns_of(task, kind, updates, sequence=None):
    """Train through RLlib on copies of a task; return the mean return of each iteration."""
    make = partial(RecallTask, lengths=tuple(task.lengths[:1]), shown=task.shown)
    algorithm = ppo_config(make, kind, LEARNABLE, environments=16, sequence=sequence).build_algo()
    try:
        return [algorithm.train()["env_runners"]["episode_return_mean"] for _ in range(updates)]
    finally:
        algorithm.stop()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("kind", "shown", "sequence", "updates"),
    [
        ("mlp", True, None, 15),
        ("recurrent", False, 12, 25),
        pytest.param("paper", False, None, 5, marks=pytest.mark.slow),
    ],
)
def test_it_learns_what_each_network_can_know(cluster, kind, shown, sequence, updates) -> None:
    returns = returns_of(RecallTask(1, lengths=(11,), shown=shown), kind, updates, sequence)
    # Guessing earns half of the 11; knowing the cue earns all.
    assert returns[0] < 8
    assert returns[-1] > (9 if kind == "paper" else 10.5)


@pytest.mark.integration
def test_without_memory_the_hidden_cue_cannot_be_known(cluster) -> None:
    assert max(returns_of(RecallTask(1, lengths=(11,)), "mlp", 15)) < 8.5


def test_a_policy_comes_back_from_its_file(tmp_path) -> None:
    network = make_network("paper", 4, 3, seed=1)
    write_checkpoint(tmp_path / "deep" / "policy.pt", network, notes={"score": 1.5})
    loaded = load_policy(tmp_path / "deep" / "policy.pt")
    for name, weight in network.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight)
    assert read_checkpoint(tmp_path / "deep" / "policy.pt")["notes"] == {"score": 1.5}
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"\x80\x02N."])
def test_what_is_no_checkpoint_is_refused(tmp_path, content) -> None:
    (tmp_path / "bad.pt").write_bytes(content)
    with pytest.raises(PolicyError, match=r"bad\.pt: is not a checkpoint"):
        load_policy(tmp_path / "bad.pt")
    with pytest.raises(PolicyError, match="cannot be read"):
        load_policy(tmp_path / "none.pt")


def test_settings_are_checked_and_the_learning_rate_falls_as_the_authors() -> None:
    paper = PPOSettings()
    assert paper.learning_rate_at(0) == 5e-4
    assert paper.learning_rate_at(2170) == pytest.approx(5e-5)
    assert paper.learning_rate_at(10**6) == 1e-6
    for wrong in ({"steps": 0}, {"gamma": 1.5}, {"clip": 0.0}):
        with pytest.raises(PolicyError, match=f"field {next(iter(wrong))}"):
            PPOSettings(**wrong)
    with pytest.raises(PolicyError, match="multiple of the 48 steps"):
        _empty_rollout(make_network("recurrent", 2, 2), 50, 1)
