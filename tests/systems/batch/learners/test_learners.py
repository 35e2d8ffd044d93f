"""Trained policies of batch: the network, what it plays, and the training."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gridtune as gt
from gridtune.batch.environment import BatchVectorEnv
from gridtune.batch.simulator.machines import ROW, STATE
from gridtune.errors import GridtuneError, PolicyError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.batch.learners.candidate_network import ENVIRONMENT, CandidateNetwork, play_windows
from gridtune.training.networks import ActorCritic, NetworkOutput, make_network, write_checkpoint

WALLTIME = 2


class ShortestFirst(ActorCritic):
    """Chooses the candidate with the shortest walltime, the oldest of equals."""

    kind = "shortest"

    def __init__(self, actions: int) -> None:
        super().__init__(STATE + actions * ROW, actions)
        self.unused = torch.nn.Parameter(torch.zeros(1))

    def resized(self, actions: int) -> ActorCritic:
        return ShortestFirst(actions)

    def forward(self, observations, begins, state) -> NetworkOutput:
        rows = observations[..., STATE:].unflatten(-1, (self.actions, ROW))
        return NetworkOutput(
            torch.where(rows[..., 0] > 0, -rows[..., WALLTIME], -1e9), rows[..., 0, 0], state
        )


def observations(count, actions, filled, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.random((1, count, actions, ROW))
    rows[..., 0] = 1.0
    rows[..., filled:, :] = 0.0
    state = rng.random((1, count, STATE))
    return torch.tensor(np.concatenate([state, rows.reshape(1, count, -1)], -1), dtype=torch.float32)


def forward(network, seen):
    begins = torch.zeros(seen.shape[:2], dtype=torch.bool)
    return network(seen, begins, network.initial_state(seen.shape[1]))


def test_the_network_scores_jobs_whatever_their_slot():
    network, seen = CandidateNetwork(STATE + 6 * ROW, 6), observations(3, 6, 4)
    order = torch.tensor([2, 0, 3, 1, 4, 5])
    rows = seen[..., STATE:].unflatten(-1, (6, ROW))[:, :, order].flatten(-2)
    logits, values, _ = forward(network, seen)
    moved = forward(network, torch.cat([seen[..., :STATE], rows], -1))
    torch.testing.assert_close(moved.logits, logits[..., order])
    torch.testing.assert_close(moved.values, values)
    assert (logits[..., 4:] < -1e8).all()
    assert (logits[..., :4] > -1e3).all()


def test_the_network_works_with_any_number_of_candidates():
    network = CandidateNetwork(STATE + 6 * ROW, 6)
    larger = network.resized(9)
    wide = observations(2, 9, 4)
    narrow = torch.cat([wide[..., :STATE], wide[..., STATE : STATE + 6 * ROW]], -1)
    torch.testing.assert_close(
        forward(larger, wide).logits[..., :4], forward(network, narrow).logits[..., :4]
    )


def test_played_windows_are_the_simulators_schedules():
    log = gt.read_workload("quickstart")
    machines = BatchVectorEnv(3, log, jobs=300, candidates=300, order="sjf")
    first = np.array([0, 1500, 4700])
    returns = play_windows(ShortestFirst(4), machines, first)
    for index, begin in enumerate(first.tolist()):
        expected = gt.simulate(log.take(slice(begin, begin + 300)), order="sjf", backfill="easy")
        np.testing.assert_array_equal(machines.schedule(index).start_time, expected.start_time)
        assert returns[index] == pytest.approx(-gt.evaluate(expected)["bounded_slowdown_mean"])


@pytest.fixture
def checkpoint(tmp_path):
    network = make_network("candidates", STATE + 16 * ROW, 16, seed=3)
    options = {"candidates": 32, "mode": "pick", "backfill": "easy", "order": "saf", "protect": True}
    write_checkpoint(tmp_path / "best.pt", network, notes={ENVIRONMENT: options})
    return tmp_path


def run(**parameters):
    return run_cell("batch", {"trace": "quickstart", "first": 300, **parameters}, tables=True)


def test_the_system_plays_a_checkpoint(checkpoint):
    done = run(policy="ppo", checkpoint=str(checkpoint))
    assert done.outcome.notes["jobs"] == 300
    assert run(policy="ppo", checkpoint=str(checkpoint)).outcome.metrics == done.outcome.metrics
    assert run(order="saf").outcome.metrics["wait_mean"] != done.outcome.metrics["wait_mean"]


def test_another_network_is_another_cell(checkpoint):
    before = run(policy="ppo", checkpoint=str(checkpoint)).cell.cell_id
    network = make_network("candidates", STATE + 16 * ROW, 16, seed=4)
    write_checkpoint(checkpoint / "best.pt", network, notes={ENVIRONMENT: {"candidates": 32}})
    assert run(policy="ppo", checkpoint=str(checkpoint)).cell.cell_id != before


def test_a_policy_of_another_system_is_refused(tmp_path):
    write_checkpoint(tmp_path / "other.pt", make_network("mlp", 4, 2))
    with pytest.raises(PolicyError, match="not a policy of the batch system"):
        run(policy="ppo", checkpoint=str(tmp_path / "other.pt"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"policy": "ppo"}, "needs a checkpoint"),
        ({"checkpoint": "x"}, "takes no checkpoint"),
        ({"policy": "ppo", "checkpoint": "x", "order": "sjf"}, "no effect"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(GridtuneError, match=message):
        run(**wrong)


def test_too_few_jobs_to_learn_are_refused():
    with pytest.raises(PolicyError, match="too few"):
        run_cell("batch/ppo", {"trace": "quickstart", "first": 300, "iterations": 1})
