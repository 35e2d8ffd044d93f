"""The shutdown environment: Gymnasium's contract, and one trajectory whichever way it is stepped."""

from __future__ import annotations

import copy
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import gridtune.environments
from gridtune.environments import ShutdownEnv, ShutdownVectorEnv
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.environment import read_training_days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from tests.systems.shutdown.simulator.twins import make_days

assert gridtune.environments.__all__

MINUTES = 40
SMALL = Platform(3, 4)


def short_days(count: int = 6):
    """Busy days of forty minutes, of all five groups more or less."""
    rng = np.random.default_rng(11)
    days = []
    for day in range(count):
        gap = 1 + 3 * day
        submit = np.minimum(1 + np.cumsum(rng.integers(0, gap + 1, 20)), MINUTES + 1).tolist()
        days.append([(at, *rng.integers(1, high=(13, 20, 20, 4)).tolist()) for at in submit])
    return make_days(days, MINUTES)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"variant": "exact", "tau": 0.1},
        {"platform": Platform(22, 16)},
    ],
)
def test_gymnasiums_checker_passes(options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make("gridtune/Shutdown-v0", **options).unwrapped)


def test_an_episode_is_a_day():
    env = gym.make("gridtune/Shutdown-v0", days=short_days(), platform=SMALL)
    assert env.get_wrapper_attr("action_masks")().tolist() == [True] * env.action_space.n
    seen, told = env.reset(seed=1)
    assert seen in env.observation_space
    rewards, ends = [], []
    for _ in range(MINUTES):
        seen, reward, over, cut, _ = env.step(env.action_space.sample())
        assert seen in env.observation_space
        rewards.append(reward)
        ends.append(over)
        assert not cut
    assert ends == [False] * (MINUTES - 1) + [True]
    assert 0 <= told["day"] < 6


def test_it_is_the_simulator_that_rules_are_replayed_on():
    days = short_days()
    actions = np.random.default_rng(2).integers(0, 4, (len(days), MINUTES))
    results, _ = replay(days, SMALL, rule=actions)
    env = ShutdownEnv(days, SMALL)
    for day in range(len(days)):
        env.reset(options={"day": day})
        score = 0.0
        for action in actions[day]:
            score += env.step(action)[1]
        assert score == results.score[day]


@pytest.mark.parametrize("copies", [True, False])
def test_vectorised_trajectories_are_the_single_ones(copies):
    """Over several days: Gymnasium's own loop over single environments, autoreset and infos included."""
    options = {"days": short_days(), "platform": SMALL, "variant": "exact"}
    native = ShutdownVectorEnv(3, copy=copies, **options)
    looped = SyncVectorEnv(
        [lambda: ShutdownEnv(**options)] * 3, autoreset_mode=AutoresetMode.NEXT_STEP, copy=True
    )
    assert native.observation_space == looped.observation_space
    assert native.action_space == looped.action_space
    assert native.metadata["autoreset_mode"] == looped.metadata["autoreset_mode"]
    expect_same(native.reset(seed=7), looped.reset(seed=7))
    native.action_space.seed(8)
    begun = set()
    for _ in range(5 * MINUTES):
        actions = native.action_space.sample()
        one, other = native.step(actions), looped.step(actions)
        expect_same(one, other)
        begun |= set(one[-1].get("day", ()))
    assert len(begun) > 1


def expect_same(one, other):
    for mine, theirs in zip(one[:-1], other[:-1], strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    assert one[-1].keys() == other[-1].keys()
    for name, told in one[-1].items():
        np.testing.assert_array_equal(told, other[-1][name])


@pytest.mark.parametrize("kind", [ShutdownEnv, lambda *told: ShutdownVectorEnv(2, *told)])
def test_a_copy_goes_on_alone(kind):
    env = kind(short_days(), SMALL)
    env.reset(seed=3)
    for _ in range(MINUTES + 5):
        env.step(env.action_space.sample())
    twin = copy.deepcopy(env)
    actions = [env.action_space.sample() for _ in range(2 * MINUTES)]
    theirs = [twin.step(action)[:3] for action in actions]
    for action, other in zip(actions, theirs, strict=True):
        for one, told in zip(env.step(action)[:3], other, strict=True):
            np.testing.assert_array_equal(one, told)


def test_made_by_name():
    envs = gym.make_vec("gridtune/Shutdown-v0", num_envs=4, days=short_days(), platform=SMALL)
    assert isinstance(envs, ShutdownVectorEnv)
    assert envs.reset(seed=[5, 6, None, 7])[0].shape == (4, 48)
    with pytest.raises(SimulationError, match="4 environments, but 2 seeds"):
        envs.reset(seed=[1, 2])


def test_what_is_returned_stays_unless_asked_otherwise():
    options = {"days": short_days(), "platform": SMALL}
    kept, shared = ShutdownVectorEnv(2, **options), ShutdownVectorEnv(2, copy=False, **options)
    kept.reset(seed=1)
    shared.reset(seed=1)
    for minute in range(100):
        one, other = kept.step([1, 0]), shared.step([1, 0])
        saved = copy.deepcopy(one[:3])
        np.testing.assert_array_equal(one[0], other[0])
        assert other[0] is shared.clusters.observations, "observations were copied"
        if minute:
            np.testing.assert_array_equal(before[0], before_saved[0])  # noqa: F821 (set in the round before)
        before, before_saved = one, saved  # noqa: F841


def test_train_and_test_days_are_apart():
    train, test = read_training_days("taurus_days"), read_training_days("taurus_days", "test")
    assert not set(train.names) & set(test.names)
    assert len(train) + len(test) == len(read_training_days("taurus_days", "all"))


def test_faults_are_told():
    with pytest.raises(SimulationError, match="at least 1 cluster"):
        ShutdownVectorEnv(0, short_days())
    with pytest.raises(SimulationError, match="no days"):
        ShutdownEnv(short_days().take(np.zeros(6, bool)))
