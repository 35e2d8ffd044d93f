"""The batch environment makes the simulator's schedules; its rewards are metrics; it hides run times."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given

import gridtune as gt
from gridtune.batch.environment import STEPWISE, BatchEnv, BatchVectorEnv, read_jobs
from gridtune.batch.simulator.decisions import ROW, STATE
from gridtune.errors import SimulationError
from gridtune.testing.environments import _assert_same
from tests.batch.logs import logs, make_log
from tests.conftest import examples

ROOM = 64
WALLTIME, AREA = 2, 3


def first_candidate(_observation):
    return 0


def smallest(column):
    """Return a policy: the candidate with the least value of a feature, the oldest of equals."""

    def choose(observation):
        rows = observation["observations"][:, column].astype(float)
        return int(np.argmin(np.where(observation["action_mask"] == 1, rows, np.inf)))

    return choose


def play(env, choose, first=0):
    """Play a window; return the sum of rewards and the schedule's starts. One without decisions is empty."""
    try:
        observation, _ = env.reset(options={"first": first})
    except SimulationError:
        return None, env.schedule().start_time
    total, over = 0.0, False
    while not over:
        assert observation in env.observation_space
        observation, reward, over, _, _ = env.step(choose(observation))
        total += reward
    return total, env.schedule().start_time


@examples(100)
@given(logs(machine=8, jobs=24))
def test_the_first_candidate_and_the_shortest_are_the_simulators_orders(log):
    whole = {"jobs": len(log), "candidates": ROOM}
    for backfill in ("none", "easy"):
        _, start = play(BatchEnv(log, backfill=backfill, **whole), first_candidate)
        np.testing.assert_array_equal(start, gt.simulate(log, order="fcfs", backfill=backfill).start_time)
    _, start = play(BatchEnv(log, order="sjf", **whole), smallest(WALLTIME))
    np.testing.assert_array_equal(start, gt.simulate(log, order="sjf", backfill="easy").start_time)
    _, start = play(BatchEnv(log, kill=False, **whole), smallest(WALLTIME))
    expected = gt.simulate(log, order="sjf", backfill="easy", fill_order="fcfs", kill=False)
    np.testing.assert_array_equal(start, expected.start_time)


@examples(60)
@given(logs(machine=8, jobs=24))
def test_choices_of_backfilling_are_the_simulators(log):
    whole = {"jobs": len(log), "candidates": ROOM, "mode": "backfill"}
    for order in ("fcfs", "saf", "f2"):
        env = BatchEnv(log, order=order, **whole)
        for choose, rules in (
            (first_candidate, {"backfill": "easy", "fill_order": "fcfs"}),
            (smallest_or_last(WALLTIME), {"backfill": "easy", "fill_order": "sjf"}),
            (lambda _: ROOM, {"backfill": "none"}),
        ):
            _, start = play(env, choose)
            np.testing.assert_array_equal(start, gt.simulate(log, order=order, **rules).start_time)


def smallest_or_last(column):
    """Return a policy that backfills whenever it can: the last choice, none, is left aside."""
    choose = smallest(column)
    return lambda seen: choose({**seen, "action_mask": np.r_[seen["action_mask"][:-1], [0]]})


@pytest.mark.parametrize("metric", STEPWISE)
def test_rewards_of_steps_add_up_to_the_metric(metric):
    log = read_jobs("quickstart")
    measured = gt.evaluate(gt.simulate(log.take(slice(50, 250)), order="saf", fill_order="fcfs"))[metric]
    plain = gt.evaluate(gt.simulate(log.take(slice(50, 250))))[metric]
    for options, expected in (
        ({}, -measured),
        ({"relative": True}, (plain - measured) / plain),
    ):
        env = BatchEnv("quickstart", jobs=200, reward=metric, **options)
        total, _ = play(env, smallest(AREA), first=50)
        assert total == pytest.approx(expected)


def test_any_metric_rewards_at_the_end():
    env = BatchEnv("quickstart", jobs=200, reward="utilisation", relative=True)
    total, _ = play(env, smallest(AREA), first=50)
    log = read_jobs("quickstart").take(slice(50, 250))
    mine = gt.evaluate(gt.simulate(log, order="saf", fill_order="fcfs"))["utilisation"]
    plain = gt.evaluate(gt.simulate(log))["utilisation"]
    assert total == pytest.approx((mine - plain) / plain)


def test_only_the_oldest_are_candidates_and_what_is_not_there_is_the_first():
    rows = [(0, 50, 60, 4)] + [(i, 10, 20 - i, 3 + i % 2) for i in range(1, 8)]
    env = BatchEnv(make_log(rows, machine=4), jobs=8, candidates=3, backfill="none")
    observation, _ = env.reset(options={"first": 0})
    assert observation["action_mask"].tolist() == [1, 1, 1]
    assert observation["state"][2] == pytest.approx(1 - 3 / 7)
    env.step(77)
    assert env.schedule().start_time[:3].tolist()[1] == 50


def test_observations_do_not_depend_on_run_times_of_the_future():
    """Two logs differ in the run times of jobs that have not ended: the agent sees the same."""
    rows = [(0, 30, 100, 3), (1, 5, 40, 2), (2, 5, 30, 1), (3, 5, 20, 4), (4, 5, 10, 3)]
    other = [(0, 30, 100, 3), (1, 20, 40, 2), (2, 9, 30, 1), (3, 2, 20, 4), (4, 7, 10, 3)]
    seen = []
    for table in (rows, other):
        env = BatchEnv(make_log(table, machine=4), jobs=5, candidates=4)
        seen.append(env.reset(options={"first": 0})[0])
    _assert_same(seen[0], seen[1], "the first observation")


def test_a_reservation_holds_unless_the_agent_may_break_it():
    rows = [(0, 10, 10, 3), (1, 10, 10, 4), (2, 50, 50, 1)]
    log = make_log(rows, machine=4)
    strict = BatchEnv(log, jobs=3, candidates=4, mode="backfill")
    with pytest.raises(SimulationError, match="nothing to decide"):
        strict.reset(options={"first": 0})
    free = BatchEnv(log, jobs=3, candidates=4, mode="backfill", protect=False)
    _, start = play(free, first_candidate)
    assert start.tolist() == [0, 52, 2]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "backfill", "order": "f1", "relative": True},
        {"flat": True, "reward": "utilisation", "backfill": "none"},
    ],
)
def test_vectorised_trajectories_are_the_single_ones(options):
    arguments = {"trace": "quickstart", "jobs": 40, "candidates": 8, **options}
    native = BatchVectorEnv(3, **arguments)
    looped = SyncVectorEnv([lambda: BatchEnv(**arguments)] * 3, autoreset_mode=AutoresetMode.NEXT_STEP)
    assert native.observation_space == looped.observation_space
    assert native.action_space == looped.action_space
    _assert_same(native.reset(seed=7), looped.reset(seed=7), "reset")
    native.action_space.seed(8)
    ended = 0
    for step in range(200):
        actions = native.action_space.sample()
        result = native.step(actions)
        _assert_same(result, looped.step(actions), f"step {step}")
        ended += int(result[2].sum())
    assert ended > 3


def test_made_by_gymnasium_natively():
    env = gym.make_vec("gridtune.environments:gridtune/Batch-v0", num_envs=256, trace="quickstart")
    assert isinstance(env.unwrapped, BatchVectorEnv)
    observation, _ = env.reset(seed=0)
    assert observation["action_mask"].shape == (256, 128)
    assert observation["observations"].shape == (256, 128, ROW)
    assert observation["state"].shape == (256, STATE)
    # Machines in the thick of a window and at its end: zeros stand where no candidate does.
    for _ in range(60):
        observation = env.step(env.action_space.sample())[0]
        np.testing.assert_array_equal(observation["observations"][..., 0], observation["action_mask"])
        empty = observation["action_mask"] == 0
        assert not observation["observations"][empty].any()


def test_masks_are_those_of_the_observations_through_wrappers_too():
    env = gym.make("gridtune/Batch-v0", jobs=32, candidates=16)
    seen, _ = env.reset(seed=1)
    few = 0
    for _ in range(20):
        masks = env.get_wrapper_attr("action_masks")()
        assert masks.dtype == bool
        np.testing.assert_array_equal(masks, seen["action_mask"] == 1)
        few += 0 < masks.sum() < len(masks)
        seen, _, over, _, _ = env.step(int(np.flatnonzero(masks)[-1]))
        if over:
            seen, _ = env.reset()
    assert few
    flat = BatchEnv("quickstart", jobs=32, candidates=16, flat=True)
    flat.reset(seed=1)
    seen, _ = BatchEnv("quickstart", jobs=32, candidates=16).reset(seed=1)
    np.testing.assert_array_equal(flat.action_masks(), seen["action_mask"] == 1)


def test_parts_of_a_log():
    whole, first, third = (len(read_jobs("quickstart", part)) for part in ("whole", "first-half", "3/10"))
    assert (whole, first, third) == (5000, 2500, 500)
    assert read_jobs("quickstart", "second-half").submit_time[0] > read_jobs("quickstart").submit_time[2499]
    assert np.ptp(read_jobs("quickstart", load=2.0).submit_time) < np.ptp(read_jobs("quickstart").submit_time)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"part": "last"}, "first-half"),
        ({"mode": "guess"}, "pick"),
        ({"backfill": "conservative"}, "none"),
        ({"mode": "backfill", "backfill": "none"}, "easy"),
        ({"order": "wfp3"}, "changes while jobs wait"),
        ({"order": "sjf", "backfill": "none"}, "no effect"),
        ({"protect": False}, "no effect"),
        ({"jobs": 0}, "jobs"),
        ({"processors": 2}, "wider"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(SimulationError, match=message):
        BatchEnv(**{"trace": "quickstart", **wrong})


def test_a_log_without_decisions_is_refused():
    with pytest.raises(SimulationError, match="nothing"):
        BatchEnv("quickstart", processors=100_000, jobs=50).reset(seed=1)
