"""The broker's environment: a rule played in it is that rule, and its rewards are the tardiness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gridtune.errors import SimulationError
from gridtune.systems.dispatch.environment import FEATURES, BrokerBatch, DispatchEnv, DispatchVectorEnv
from gridtune.systems.dispatch.simulator.model import DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.replay import ORDERS, dispatch
from tests.systems.dispatch.simulator.test_twin import make_jobs

FACTORS = (1.5, 0.5, 1.0)
SHAPE: dict[str, Any] = {"batch_jobs": 120, "factors": FACTORS, "cpus": 2}


def play(env: DispatchEnv, jobs: Any, choose: Callable[[int, np.ndarray], int]) -> tuple[Any, Any, float]:
    """Play an episode; return machines, ends and the sum of rewards."""
    seen, _ = env.reset(seed=0, options={"jobs": jobs})
    total, over = 0.0, False
    for job in range(len(jobs)):
        assert not over
        seen, reward, over, _, _ = env.step(choose(job, seen.reshape(-1, FEATURES)))
        total += reward
    assert over
    outcome = env.brokers.outcome()
    return outcome.machine, outcome.finish, total


def earliest_end(job: int, shown: np.ndarray) -> int:
    """Where tardiness grows least; of equals where it ends first: the last two of eight features."""
    growth = np.where(shown[:, 7] < 0, -shown[:, 7], 0)
    return int(np.lexsort((shown[:, 6], growth))[0])


def test_every_feature_by_hand():
    """Machine 0, of factor 2, has run a job since 20 and has one waiting when the last job arrives at 40.

    Its first job took 20 s in place of 10, so that both machines are thought to have the factor 2.
    """
    submit, estimate = np.array([0, 20, 30, 40]), np.array([10, 100, 50, 60])
    jobs = DispatchJobs(submit, estimate, estimate, submit + 200, np.zeros(4, np.int64))
    brokers = BrokerBatch(jobs, Machines(np.array([2.0, 1.0]), np.ones(2, np.int64)), order=ORDERS["fifo"])
    brokers.begin(0, jobs)
    brokers.step([0], np.ones(1, np.bool_))
    for _ in range(3):
        brokers.step([0])
    seen = brokers.observed.features.reshape(2, FEATURES)
    seconds = np.array([1000, 1000, 1, 1000, 1000, 1, 1000, 1])
    expected = [
        # The running job ends at 220, the waiting one at 320, this one at 440.
        [60, 200, 2, 50, 100 - 20 / 2, 2.0, 400, (240 - 440) / 60],
        [60, 200, 0, 0, 0, 2.0, 120, (240 - 160) / 60],
    ]
    np.testing.assert_allclose(np.sign(seen) * np.expm1(np.abs(seen)) * seconds, expected, rtol=1e-5)


@pytest.mark.parametrize("error", [0.0, 0.7])
@pytest.mark.parametrize("reward", ["tardiness", "response"])
def test_a_rule_that_is_played_is_the_rule(error, reward):
    env = DispatchEnv(reward=reward, order="fifo", **SHAPE)
    machines = Machines(np.array(FACTORS), np.full(3, 2))
    rules = {
        "round_robin": lambda job, _: job % 3,
        # By learned speeds, as the environment shows them.
        "erd": earliest_end,
    }
    for seed in range(3):
        jobs = make_jobs(np.random.default_rng(seed), 120, 400, error)
        for rule, choose in rules.items():
            machine, finish, total = play(env, jobs, choose)
            expected = dispatch(jobs, machines, rule=rule, speeds="learned", rng=np.random.default_rng(0))
            np.testing.assert_array_equal(machine, expected.machine)
            np.testing.assert_array_equal(finish, expected.finish)
            due = jobs.deadline if reward == "tardiness" else jobs.submit
            cost = np.maximum(0, finish - due).mean() / jobs.length.mean()
            assert total == pytest.approx(-cost)


@pytest.mark.parametrize("order", ["fifo", "shortest", "due_date"])
@pytest.mark.parametrize("reward", ["tardiness", "response"])
def test_an_agent_that_holds_jobs_until_a_processor_is_free_is_the_shared_queue(order, reward):
    env = DispatchEnv(reward=reward, hold=True, order=order, batch_jobs=120, factors=(1.0, 1.0), cpus=2)
    machines = Machines(np.ones(2), np.full(2, 2))
    for seed in range(3):
        jobs = make_jobs(np.random.default_rng(seed), 120, 400, 0.0)
        seen, _ = env.reset(seed=0, options={"jobs": jobs})
        total, over, held = 0.0, False, 0
        while not over:
            rows = seen.reshape(-1, FEATURES)
            # The third of the features counts the jobs of a machine with two processors: log(1 + 2) is 1.1.
            free = np.flatnonzero(rows[:2, 2] < 1)
            held = max(held, round(np.expm1(rows[2, 2])))
            seen, reward_of_step, over, _, _ = env.step(int(free[0]) if len(free) else 2)
            total += reward_of_step
        outcome = env.brokers.outcome()
        expected = dispatch(jobs, machines, rule="shared_queue", order=order, rng=np.random.default_rng(0))
        np.testing.assert_array_equal(outcome.start, expected.start)
        np.testing.assert_array_equal(outcome.machine, expected.machine)
        assert held > 3
        due = jobs.deadline if reward == "tardiness" else jobs.submit
        assert total == pytest.approx(-np.maximum(0, outcome.finish - due).mean() / jobs.length.mean())


def test_no_job_is_held_while_none_runs():
    env = DispatchEnv(hold=True, batch_jobs=30, factors=(1.0, 0.5), cpus=1)
    env.reset(seed=3)
    over = False
    while not over:
        _, _, over, _, _ = env.step(2)
    outcome = env.brokers.outcome()
    assert (np.sort(outcome.start)[1:] == np.sort(outcome.finish)[:-1]).sum() > 20
    assert set(outcome.machine.tolist()) <= {0, 1}


def test_episodes_come_from_the_first_part_of_a_log():
    env = DispatchEnv(trace="quickstart", split=0.1, batches=2, batch_jobs=30, factors=FACTORS)
    env.reset(seed=3)
    steps, over = 0, False
    while not over:
        over = env.step(steps % 3)[2]
        steps += 1
    assert steps == 60
    with pytest.raises(SimulationError, match="too few for episodes of 60"):
        DispatchEnv(trace="quickstart", split=0.001, batches=2, batch_jobs=30)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_jobs": 10}, "no jobs to learn from"),
        ({"mean_up": 1000.0, "mean_down": 10.0}, "neither change nor fail"),
        ({"reward": "money"}, "must be 'tardiness' or 'response'"),
        ({"split": 0.0}, "above 0"),
    ],
)
def test_what_an_environment_cannot_have_is_refused(options, message):
    for make in (DispatchEnv, DispatchVectorEnv):
        with pytest.raises(SimulationError, match=message):
            make(**options)
