"""The environment that keeps or drops slots: simple rules as agents, rewards, and what is seen."""

from __future__ import annotations

import pickle

import gymnasium as gym
import numpy as np
import pytest

from gridtune.environments import ProvisioningEnv, ProvisioningVectorEnv
from gridtune.errors import SimulationError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.provisioning.environment import FEATURES
from gridtune.systems.provisioning.planning.bounds import cost_bound, makespan_bound
from gridtune.systems.provisioning.search.fronts import enumerate_front
from tests.systems.provisioning.search.problems import small_problem

DIVISIBLE, START, LEFT = (
    next(i for i, feature in enumerate(FEATURES) if feature.startswith(name))
    for name in ("divisible", "start", "left")
)
#: Submissions at one instant of the log, so that cells have the same.
SITE = {"trace": "quickstart", "task_processors": 20, "earliest": 0.4, "latest": 0.4}


def bounds_of(problem):
    """Return the bounds of cost and makespan."""
    on_offer = (problem.workflow, problem.slots)
    return np.array([cost_bound(*on_offer), makespan_bound(*on_offer)])


def play(env, action_of, **options):
    """Play an episode; return its observations and rewards."""
    seen, _ = env.reset(**options)
    rows, rewards, over = [], [], False
    while not over:
        rows.append(seen)
        seen, reward, over, cut, _ = env.step(action_of(seen))
        assert not cut
        rewards.append(reward)
    return np.array(rows), np.array(rewards)


@pytest.mark.parametrize("release", [True, False])
def test_whoever_keeps_all_slots_has_the_plan_of_all_slots(release):
    env = ProvisioningEnv(instances=1, release=release, **SITE)
    _, rewards = play(env, lambda seen: 1)
    plan = env.plan()
    rule = {"search": "all", "cross_slot": "always", "release": release}
    metrics = run_cell("provisioning", {**SITE, **rule}).outcome.metrics
    assert plan.makespan == metrics["workflow_makespan"]
    assert plan.allocation_cost / 3600 == metrics["allocation_cost"]
    assert plan.taken.sum() == metrics["slots_taken"]
    assert not rewards.any()


def test_whoever_keeps_divisible_slots_has_the_plan_of_the_open_ones():
    env = ProvisioningEnv(instances=1, **SITE)
    rows, rewards = play(env, lambda seen: int(seen[DIVISIBLE]))
    assert not rows[:, DIVISIBLE].all()
    plan = env.plan()
    rule = {"search": "open", "cross_slot": "always"}
    metrics = run_cell("provisioning", {**SITE, **rule}).outcome.metrics
    assert plan.makespan == metrics["workflow_makespan"]
    assert plan.allocation_cost / 3600 == pytest.approx(metrics["allocation_cost"], rel=1e-12)
    assert rewards.any()


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_return_is_what_the_plan_improves_by(alpha, seed):
    problem = small_problem(seed)
    env = ProvisioningEnv([problem], alpha=alpha, release=seed % 2 == 0)
    rng = np.random.default_rng(seed)
    _, rewards = play(env, lambda seen: int(rng.random() < 0.4))
    evaluate = (lambda x: problem.evaluate_released(x).costs) if seed % 2 == 0 else problem.evaluate
    before, plan = evaluate(np.ones((1, len(problem))))[0], env.plan()
    bounds = np.array(
        [cost_bound(problem.workflow, problem.slots), makespan_bound(problem.workflow, problem.slots)]
    )
    gain = (before - [plan.allocation_cost, plan.makespan]) / bounds
    assert rewards.sum() == pytest.approx(alpha * gain[0] + (1 - alpha) * gain[1])
    # A slot without which there is no plan stays: whoever drops all he can still has one.
    play(env, lambda seen: 0)
    assert env.plan().feasible


def test_agents_can_reach_the_exact_front():
    """All sequences of decisions on few slots include the best plan of the exact front."""
    problem = small_problem(5, slots=7)
    env = ProvisioningEnv([problem], alpha=0.5)
    bounds = np.array(
        [cost_bound(problem.workflow, problem.slots), makespan_bound(problem.workflow, problem.slots)]
    )
    best = (enumerate_front(problem).costs / bounds).mean(axis=1).min()
    reached = []
    for number in range(1 << 7):
        actions = [number >> bit & 1 for bit in range(7)]
        play(env, lambda seen, left=actions: left.pop())
        plan = env.plan()
        reached.append((np.array([plan.allocation_cost, plan.makespan]) / bounds).mean())
    assert min(reached) == pytest.approx(best)


def test_what_is_seen_is_of_the_first_slot_that_is_paid_for():
    problem = small_problem(2)
    env = ProvisioningEnv([problem])
    rows, _ = play(env, lambda seen: 1)
    used = problem.evaluate_released(np.ones((1, len(problem)))).used[0]
    assert len(rows) == used.sum()
    shortest = makespan_bound(problem.workflow, problem.slots)
    np.testing.assert_allclose(
        rows[:, START], np.minimum(problem.slots.start[used] / shortest, 10), rtol=1e-6
    )
    np.testing.assert_array_equal(rows[:, DIVISIBLE], problem.slots.divisible[used])
    assert (np.diff(rows[:, LEFT]) < 0).all()


def test_random_slots_and_workflows_from_files(tmp_path):
    path = tmp_path / "two.dax"
    tasks = '<job id="a" runtime="100"/><job id="b" runtime="50"/><child ref="b"><parent ref="a"/></child>'
    path.write_text(f"<adag>{tasks}</adag>")
    env = gym.make("gridtune/Provisioning-v0", offers="poisson", workflow=str(path), instances=3)
    assert {env.reset(seed=seed)[1]["instance"] for seed in range(20)} == {0, 1, 2}
    play(env, lambda seen: 1)
    assert len(env.unwrapped.plan().start) == 2


def test_a_copy_goes_its_own_way():
    env = ProvisioningEnv([small_problem(1), small_problem(2, slots=12)])
    env.reset(seed=1)
    copied = pickle.loads(pickle.dumps(env))
    for _ in range(3):
        np.testing.assert_array_equal(env.step(0)[0], copied.step(0)[0])


def test_vector_costs_are_those_of_the_plans():
    problems = [small_problem(seed) for seed in (1, 2, 3)]
    env = ProvisioningVectorEnv(3, problems)
    env.reset(options={"instance": np.arange(3)})
    ones = [problem.evaluate_released(np.ones((1, len(problem)))).costs[0] for problem in problems]
    np.testing.assert_array_equal(env.costs, ones)


@pytest.mark.parametrize("wrong", [{"alpha": 2.0}, {"trace": "quickstart", "problems": "x"}])
def test_what_makes_no_sense_is_refused(wrong):
    problems = [small_problem(1)] if "problems" in wrong else None
    with pytest.raises(SimulationError, match=next(iter(wrong))):
        ProvisioningEnv(problems, **{name: value for name, value in wrong.items() if name != "problems"})
