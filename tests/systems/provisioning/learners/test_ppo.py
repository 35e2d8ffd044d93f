"""Agents that choose slots: how they play, and what they are judged on."""

from __future__ import annotations

import numpy as np
import pytest

from tests.extras import AGENTS

if not AGENTS:
    pytest.skip("needs the extra agents", allow_module_level=True)

import torch

from gridtune.errors import SimulationError
from gridtune.sweep import run_cell
from gridtune.systems.provisioning.environment.choices import FEATURES
from gridtune.systems.provisioning.learners.ppo import ProvisioningPPOParameters, play
from gridtune.systems.provisioning.submission import draw_problems
from gridtune.training.networks import make_network, write_checkpoint
from tests.systems.provisioning.search.problems import small_problem


def network_that(keeps: bool):
    """Return a network that always takes one action."""
    network = make_network("mlp", len(FEATURES), 2, seed=1)
    with torch.no_grad():
        network.policy[-1].weight.zero_()
        network.policy[-1].bias.copy_(torch.tensor([0.0, 1.0] if keeps else [1.0, 0.0]))
    return network.eval()


def test_side_by_side_an_agent_plays_as_it_plays_alone():
    problems, network = (
        [small_problem(seed, slots=7 + seed) for seed in range(4)],
        make_network("mlp", len(FEATURES), 2, seed=3),
    )
    together, plans = play(network, problems)
    for number, problem in enumerate(problems):
        alone, count = play(network, [problem])
        np.testing.assert_array_equal(together.state.costs[number], alone.state.costs[0])
        assert plans[number] == count[0]


def test_a_policy_is_played_as_a_search(tmp_path):
    """One that keeps every slot has the plan of all slots, after one plan; one that drops has another."""
    site = {"trace": "quickstart", "task_processors": 20, "cross_slot": "always", "release": True}
    for keeps in (True, False):
        write_checkpoint(tmp_path / "best.pt", network_that(keeps))
        player = {"search": "ppo", "checkpoint": str(tmp_path)}
        agent, rule = (
            run_cell("provisioning", {**site, **how}).outcome.metrics for how in (player, {"search": "all"})
        )
        assert (agent["slots_taken"] == rule["slots_taken"]) == keeps
        assert (agent["workflow_makespan"] == rule["workflow_makespan"]) == keeps
        assert (agent["evaluations"] == 1) == keeps


def test_what_is_judged_on_is_not_learned_from():
    parameters = ProvisioningPPOParameters(trace="quickstart", tasks=10)
    learned = parameters.submissions(0.1, 0.6, 1_000)
    judged = parameters.submissions(0.6, 0.8, 100_000)
    assert learned.latest <= judged.earliest
    assert learned.workflow_seed + parameters.instances < judged.workflow_seed
    assert ProvisioningPPOParameters().submissions(0.1, 0.6, 5).offers == "poisson"


def test_the_defaults_draw_workflows_that_random_slots_hold():
    """As in the paper's section 3; with a log the workflow is that of section 5."""
    submissions = ProvisioningPPOParameters().submissions(0.1, 0.6, 1_000)
    problems = draw_problems(submissions, None, 8, seed=1_000)
    assert len(problems) == 8
    for problem in problems:
        assert problem.workflow.widest == 1
        assert np.isfinite(problem.evaluate(np.ones(len(problem)))).all()
    site = ProvisioningPPOParameters(trace="quickstart").submissions(0.1, 0.6, 1_000)
    assert (site.run_time, site.task_processors, site.communication) == (1000, 22, 0)


def test_workflows_that_no_random_slots_hold_are_refused_soon():
    submissions = ProvisioningPPOParameters(run_time=100_000).submissions(0.1, 0.6, 1_000)
    with pytest.raises(SimulationError, match=r"3 × 100 draws.*") as refused:
        draw_problems(submissions, None, 512, seed=1_000)
    assert "run_time=100" in str(refused.value.hint)
