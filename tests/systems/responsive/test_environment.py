"""The responsive environment: Gymnasium's contract, and one trajectory whichever way it is stepped."""

from __future__ import annotations

import copy
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gridtune.environments import ResponsiveEnv, ResponsiveVectorEnv
from gridtune.errors import SimulationError
from gridtune.systems.responsive.metrics import measure_site
from gridtune.systems.responsive.simulator.replay import replay
from gridtune.systems.responsive.simulator.site import Autoscaler, SiteJobs, SiteModel

RIGID = SiteModel(cores=5)
ELASTIC = SiteModel(cores=5, elastic=True, floor=2, largest=12, step=3, period=60)

EVENTS = SiteModel(
    cores=5,
    elastic=True,
    floor=2,
    largest=12,
    step=3,
    autoscaler=Autoscaler("agent", boot=30, idle=20, timer=60),
)


def busy_jobs(count: int = 120) -> SiteJobs:
    rng = np.random.default_rng(3)
    submit = np.sort(rng.integers(0, 4 * count, count))
    run = rng.integers(1, 60, count)
    return SiteJobs(submit, run, rng.integers(0, 3, count), (run < 20).astype(int), np.array([0.5, 0.3, 0.2]))


def options(model: SiteModel, **more):
    return {"jobs": busy_jobs(), "model": model, "episode": 30, "slots": 6, **more}


@pytest.mark.parametrize("model", [None, RIGID, ELASTIC, EVENTS])
def test_gymnasiums_checker_passes(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        arguments = {} if model is None else options(model)
        check_env(gym.make("gridtune/Responsive-v0", **arguments).unwrapped)


@pytest.mark.parametrize("reward", ["completion", "start"])
@pytest.mark.parametrize("model", [RIGID, ELASTIC, EVENTS])
def test_an_episode_is_a_row_of_jobs_and_its_rewards_are_theirs(model, reward):
    env = gym.make("gridtune/Responsive-v0", **options(model, reward=reward, weight=0.3))
    observation, info = env.reset(seed=1)
    total, steps, over = 0.0, 0, False
    while not over:
        tick = observation["observations"][0, 10] == 0
        assert observation in env.observation_space
        assert observation["action_mask"][0] == 1
        observation, gained, over, cut, _ = env.step(env.action_space.sample())
        assert not cut
        total, steps = total + gained, steps + (not tick)
    assert steps == 30
    assert 0 <= info["first"] <= 90
    assert not observation["action_mask"].any()
    # Both ways of giving rewards come to the same sum, that of the simulator's own accounts.
    state = env.unwrapped._vector._sites.state
    wait = state.start[0] - busy_jobs().submit[info["first"] :][:30]
    run = busy_jobs().run[info["first"] :][:30]
    other = state.decisions["utilisation" if model.elastic else "fairness"][0][state.number[0]]
    assert total == pytest.approx((0.3 * run / (run + wait) + 0.7 * other).sum())


def test_an_agent_that_asks_for_more_cores_waits_less():
    """With the model's largest pool at every step, and with its smallest."""
    waits = {}
    for number in (1, len(EVENTS.pool_sizes)):
        env = ResponsiveEnv(**options(EVENTS, episode=120))
        env.reset(options={"first": 0})
        over = False
        while not over:
            _, _, over, _, _ = env.step(np.array([0, number]))
        waits[number] = (env._vector._sites.state.start[0] - busy_jobs().submit).mean()
    assert waits[len(EVENTS.pool_sizes)] < 0.5 * waits[1]


def test_the_first_slot_is_a_rule_of_its_own():
    """One VO and one class: slots stand by submission, so the first one is FCFS."""
    jobs = busy_jobs()
    plain = SiteJobs(jobs.submit, jobs.run, 0 * jobs.vo, 0 * jobs.vo, np.ones(1))
    env = ResponsiveEnv(plain, SiteModel(cores=5), episode=120, slots=4, weight=1.0)
    env.reset(options={"first": 0})
    total, over = 0.0, False
    while not over:
        _, gained, over, _, _ = env.step(0)
        total += gained
    outcome = replay(plain, SiteModel(cores=5), "fcfs")
    measures = measure_site(plain, outcome, weight=1.0, left_out=0)
    assert total == pytest.approx(120 * measures["rigid_reward_mean"])


def test_every_class_and_vo_is_shown_first():
    """Ten batch jobs of one VO, then one interactive one of another: it stands in the second slot."""
    submit, run = np.array([0] * 12), np.array([50] + [30] * 10 + [5])
    jobs = SiteJobs(submit, run, [0] * 11 + [1], [0] * 11 + [1], np.array([0.5, 0.5]))
    env = ResponsiveEnv(jobs, SiteModel(cores=1), episode=12, slots=3)
    observation, _ = env.reset(options={"first": 0})
    assert observation["action_mask"].tolist() == [1, 1, 1]
    assert observation["observations"][:, 6].tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("model", [RIGID, ELASTIC, EVENTS])
@pytest.mark.parametrize("reward", ["completion", "start"])
def test_vectorised_trajectories_are_the_single_ones(model, reward):
    """Over several episodes: Gymnasium's own loop over single environments, autoreset and infos included."""
    arguments = options(model, reward=reward)
    native = ResponsiveVectorEnv(3, **arguments)
    looped = SyncVectorEnv([lambda: ResponsiveEnv(**arguments)] * 3, autoreset_mode=AutoresetMode.NEXT_STEP)
    assert native.observation_space == looped.observation_space
    assert native.action_space == looped.action_space
    assert native.metadata["autoreset_mode"] == looped.metadata["autoreset_mode"]
    expect_same(native.reset(seed=7), looped.reset(seed=7))
    native.action_space.seed(8)
    for _ in range(80):
        actions = native.action_space.sample()
        expect_same(native.step(actions), looped.step(actions))


def test_what_was_seen_stays():
    env = ResponsiveVectorEnv(2, **options(RIGID))
    observation, _ = env.reset(seed=1)
    copied = copy.deepcopy(observation)
    env.step(env.action_space.sample())
    np.testing.assert_array_equal(observation["observations"], copied["observations"])


def test_made_by_gymnasium():
    env = gym.make_vec("gridtune/Responsive-v0", num_envs=2, vectorization_mode="vector_entry_point")
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"weight": 2.0}, {"reward": "never"}, {"episode": 0}])
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(SimulationError, match=next(iter(wrong))):
        ResponsiveEnv(**{**options(RIGID), **wrong})


def expect_same(one, other):
    """Compare what reset or step returned, arrays and infos alike."""
    for mine, theirs in zip(one, other, strict=True):
        if isinstance(mine, dict):
            for key in set(mine) | set(theirs):
                np.testing.assert_array_equal(mine[key], theirs[key])
        else:
            np.testing.assert_array_equal(mine, theirs)
