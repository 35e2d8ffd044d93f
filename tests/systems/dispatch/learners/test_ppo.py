"""Agents that dispatch: a policy that is played is the rule that it stands for, and what it is judged on."""

from __future__ import annotations

import numpy as np
import pytest

from tests.extras import AGENTS

if not AGENTS:
    pytest.skip("needs the extra agents", allow_module_level=True)

import torch

from gridtune.errors import GridtuneError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.dispatch.environment import FEATURES
from gridtune.systems.dispatch.learners.ppo import (
    BROKER,
    DispatchPPO,
    _DispatchPPOParameters,
    _held_out,
    _play,
)
from gridtune.systems.dispatch.metrics import tardiness
from gridtune.systems.dispatch.simulator.model import Machines
from gridtune.systems.dispatch.simulator.replay import dispatch
from gridtune.training.networks import ActorCritic, NetworkOutput, RowNetwork, write_checkpoint
from gridtune.workload import read_workload
from gridtune.workload.catalogue import resolve_trace
from tests.systems.dispatch.simulator.test_twin import make_jobs

FACTORS = (1.5, 0.5, 1.0)
MACHINES = Machines(np.array(FACTORS), np.full(3, 2))


class EarliestEnd(ActorCritic):
    """Takes the machine where tardiness grows least; of equals where the job ends first."""

    kind = "earliest"

    def __init__(self) -> None:
        super().__init__(3 * FEATURES, 3)
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, observations, begins, state) -> NetworkOutput:
        rows = observations.double().unflatten(-1, (-1, FEATURES))
        # Tardiness first: what the end takes off is less than the least growth.
        logits = 1e9 * rows[..., 7].clamp(max=0) - rows[..., 6]
        return NetworkOutput(logits, logits.amax(-1), state)


def test_side_by_side_a_rule_that_is_played_is_the_rule():
    episodes = [make_jobs(np.random.default_rng(seed), 120, 400, 0.7) for seed in range(3)]
    network = EarliestEnd()
    for jobs, outcome in zip(
        episodes, _play(network, episodes, MACHINES, order="fifo", forget=0.95), strict=True
    ):
        expected = dispatch(jobs, MACHINES, rule="erd", speeds="learned", rng=np.random.default_rng(0))
        np.testing.assert_array_equal(outcome.machine, expected.machine)
        np.testing.assert_array_equal(outcome.start, expected.start)
        np.testing.assert_array_equal(outcome.finish, expected.finish)


@pytest.fixture
def policy(tmp_path):
    """Return a folder with an untrained network for three machines."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = RowNetwork(3 * FEATURES, 3)
    write_checkpoint(tmp_path / "best.pt", network, notes={BROKER: {"order": "shortest", "forget": 0.95}})
    return tmp_path


SMALL = {"batches": 2, "batch_jobs": 60}


def test_a_policy_is_played_on_any_number_of_machines(policy):
    for factors in (FACTORS, (1.0, 2.0, 0.5, 1.2, 0.7)):
        player = {"policy": "ppo", "checkpoint": str(policy), "factors": factors, **SMALL}
        run = run_cell("dispatch", player).outcome
        rule = run_cell("dispatch", {"rule": "shared_queue", "factors": factors, **SMALL}).outcome
        assert len(run.notes["assignments"]) == len(factors)
        # The reference is ERD with tabu search on the same jobs.
        assert run.notes["reference_tardiness_by_batch"] == rule.notes["reference_tardiness_by_batch"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "ppo"}, "needs a checkpoint"),
        ({"checkpoint": "x.pt"}, "takes no checkpoint"),
        ({"policy": "ppo", "checkpoint": "x.pt", "rule": "erd"}, "rule"),
        ({"policy": "ppo", "checkpoint": "x.pt", "mean_up": 9, "mean_down": 9}, "neither change nor fail"),
    ],
)
def test_what_a_policy_cannot_have_is_refused(options, message):
    with pytest.raises(GridtuneError, match=message):
        run_cell("dispatch", {**SMALL, **options})


def test_a_policy_of_another_system_is_refused(tmp_path):
    write_checkpoint(tmp_path / "best.pt", RowNetwork(3 * FEATURES, 3))
    with pytest.raises(GridtuneError, match="is not a policy of the dispatch system"):
        run_cell("dispatch", {**SMALL, "policy": "ppo", "checkpoint": str(tmp_path)})


def test_what_is_judged_on_is_not_learned_from():
    training, log = DispatchPPO(), read_workload(resolve_trace("quickstart"))
    parameters = _DispatchPPOParameters(trace="quickstart", batch_jobs=50, order="fifo")
    learned, held_out = training.split(parameters, log)
    assert len(learned) + len(held_out) == len(log.windows(2)[0])
    assert learned.submit_time.max() <= held_out.submit_time.min()
    episodes, _ = _held_out(parameters.episode, held_out)
    assert {len(jobs) for jobs in episodes} == {50}


def test_it_is_judged_beside_rules(monkeypatch):
    training = DispatchPPO()
    parameters = _DispatchPPOParameters(batch_jobs=40, factors=FACTORS, order="fifo")
    monkeypatch.setattr("gridtune.training.rllib.network_of", lambda network: network)
    metrics = training.evaluate(parameters, EarliestEnd(), rng=np.random.default_rng(0), load=lambda _: None)
    # First in, first out, the drain model inserts as ERD does: where the job ends first, by learned speeds.
    assert metrics["tardiness_mean"] == pytest.approx(metrics["tardiness_mean_drain"])
    episodes, machines = _held_out(parameters.episode, None)
    pooled = [
        dispatch(
            jobs, machines, rule="shared_queue", order="fifo", speeds="nominal", rng=np.random.default_rng(0)
        )
        for jobs in episodes
    ]
    late = [tardiness(jobs, outcome).mean() for jobs, outcome in zip(episodes, pooled, strict=True)]
    assert metrics["tardiness_mean_shared_queue"] == pytest.approx(np.mean(late))
