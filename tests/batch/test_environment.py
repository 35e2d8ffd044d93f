"""The batch environment makes the simulator's schedules; its rewards are metrics; it hides run times."""

from __future__ import annotations

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given

import gridtune as gt
from gridtune.batch.environment import STEPWISE, BatchEnv, BatchVectorEnv, read_jobs
from gridtune.batch.simulator.machines import ROW, STATE
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


def shortest(machines):
    """Return the first machine's candidate with the shortest walltime, as `decide` takes it."""
    rows = machines.observed[:, STATE:].reshape(1, machines.actions, -1)[..., [0, WALLTIME]]
    return np.where(rows[..., 0] > 0, rows[..., 1], np.inf).argmin(1)


def seen_until(log, time, **options):
    """Return the observations up to a time, and the schedule."""
    machines, seen = BatchVectorEnv(1, log, jobs=len(log), flat=True, candidates=ROOM, **options), []
    everywhere = np.ones(1, np.bool_)
    machines.begin(everywhere, np.zeros(1, np.int64))
    while not machines.over[0]:
        if machines._machines.states["now"][0] <= time:
            seen.append(machines.observed[0].copy())
        machines.decide(shortest(machines), everywhere)
    return np.array(seen), machines.schedule()


@pytest.mark.parametrize("warm", [0, 60])
def test_no_prediction_depends_on_a_run_time_that_has_not_ended(warm):
    log = read_jobs("quickstart").take(slice(0, 300))
    options = {"predict": True, "warm": warm, "order": "sjf"}
    _, schedule = seen_until(log, -1, **options)
    time = int(np.median(schedule.start_time - log.submit_time[0]))
    elapsed = log.submit_time[0] + time - schedule.start_time
    late = schedule.end_time > log.submit_time[0] + time
    run = np.where(late, np.maximum(elapsed, 0) + 1, log.run_time)
    other = dataclasses.replace(log, columns={**log.columns, "run_time": run})
    (seen, _), (again, _) = seen_until(log, time, **options), seen_until(other, time, **options)
    assert late.sum() > 50
    assert len(seen) > 20
    np.testing.assert_array_equal(seen, again)


def test_predictions_are_those_of_the_last_two():
    log = read_jobs("quickstart").take(slice(0, 400))
    machines = BatchVectorEnv(1, log, jobs=len(log), candidates=ROOM, predict=True)
    _, schedule = seen_until(log, -1, predict=True)
    everywhere, compared, kinds = np.ones(1, np.bool_), 0, set()
    machines.begin(everywhere, np.zeros(1, np.int64))
    while not machines.over[0]:
        now = int(machines._machines.states["now"][0])
        jobs = machines._column(0, 2)[: machines._machines.states["waiting"][0]][:ROOM]
        rows = machines.observed[0, STATE:].reshape(ROOM, -1)[:, ROW:]
        end = schedule.end_time - log.submit_time[0]
        for slot, job in enumerate(jobs.tolist()):
            ended = np.flatnonzero((end <= now) & (log.user == log.user[job]))
            past = ended[np.lexsort((schedule.start_time[ended], end[ended]))][-2:]
            walltime = schedule.walltime[job]
            runs = (schedule.end_time - schedule.start_time)[past]
            mean = min(walltime, runs.mean()) if len(runs) else walltime
            early = np.mean(np.minimum(runs, walltime) < 0.1 * walltime) if len(runs) else 0
            expected = np.log1p(mean) / np.log1p(30 * 86_400), (mean + 1) / (walltime + 1), early
            np.testing.assert_allclose(rows[slot], np.minimum(expected, 1), rtol=1e-6)
            compared, kinds = compared + 1, kinds | {(len(runs), float(early))}
        machines.decide(shortest(machines), everywhere)
    assert compared > 500
    assert len(kinds) == 6


def test_an_agent_takes_over_a_warm_machine():
    log, options = read_jobs("quickstart"), {"jobs": 200, "warm": 100, "order": "sjf", "reward": "wait_mean"}
    machines = BatchVectorEnv(1, log, candidates=ROOM, **options)
    everywhere, total = np.ones(1, np.bool_), 0.0
    machines.begin(everywhere, np.array([50]))
    left, now = machines._column(0, 0) < 0, machines._machines.states["now"][0] + log.submit_time[0]
    submit = log.submit_time[50:350]
    assert submit[99] <= now
    assert 0 < left[:100].sum() < 100
    while not machines.over[0]:
        machines.decide(shortest(machines), everywhere)
        total += machines.rewards[0]
    schedule = machines.schedule()
    np.testing.assert_array_equal(
        schedule.start_time, gt.simulate(log.take(slice(50, 350)), order="sjf").start_time
    )
    waited = (schedule.start_time - np.maximum(submit, np.where(submit <= now, now, 0)))[left]
    assert total == pytest.approx(-waited.sum() / left.sum())


def test_delays_are_three_metrics_relative_to_the_whole_log():
    whole = read_jobs("quickstart")
    log = whole.take(whole.run_time >= 10)
    metrics = ["bounded_slowdown_mean", "area_weighted_response", "wait_mean"]
    machines = BatchEnv(log.take(slice(0, 300)), jobs=300, order="sjf", reward="delay")
    total, _ = play(machines, first_candidate)
    mine, base = (
        gt.evaluate(schedule, only=metrics)
        for schedule in (machines.schedule(), gt.simulate(log.take(slice(0, 300)), order="wfp3"))
    )
    assert total == pytest.approx(-np.mean([mine[name] / base[name] for name in metrics]))


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
        {"warm": 20, "predict": True, "reward": "delay", "relative": True, "order": "saf"},
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
        ({"warm": 9000}, "after those"),
        ({"warm": 9, "reward": "utilisation"}, "at the end only"),
        ({"processors": 2}, "wider"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(SimulationError, match=message):
        BatchEnv(**{"trace": "quickstart", **wrong})


def test_a_log_without_decisions_is_refused():
    with pytest.raises(SimulationError, match="nothing"):
        BatchEnv("quickstart", processors=100_000, jobs=50).reset(seed=1)
