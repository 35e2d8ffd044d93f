"""`EnvironmentConformance`: the tests of every Gymnasium environment of a system."""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

#: Importing it registers the environments of all systems.
_REGISTERS = "gridtune.environments"


def _assert_same(one: Any, other: Any, what: str) -> None:
    """Compare what two environments returned: arrays, numbers, and tuples and dictionaries of them."""
    if isinstance(one, Mapping):
        assert one.keys() == other.keys(), what
        for key, value in one.items():
            _assert_same(value, other[key], f"{what}: {key}")
    elif isinstance(one, tuple):
        assert len(one) == len(other), what
        for index, value in enumerate(one):
            _assert_same(value, other[index], f"{what}: part {index}")
    else:
        np.testing.assert_array_equal(one, other, err_msg=what)
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None), what


class EnvironmentConformance:
    """The rules of an environment; a subclass names it.

    Attributes
    ----------
    environment
        Its id, such as `gridtune/Shutdown-v0`.
    options
        Arguments of `gymnasium.make` beside the id.
    steps, copies
        Steps that are taken, more than an episode has, and environments of the vectorised twin.
    """

    environment: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}
    steps: ClassVar[int] = 1000
    copies: ClassVar[int] = 3

    def make(self) -> gymnasium.Env[Any, Any]:
        """Make one environment, without Gymnasium's wrappers."""
        importlib.import_module(_REGISTERS)
        return gymnasium.make(self.environment, **self.options).unwrapped

    def make_twin(self) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
        """Make the environment's own vectorised twin."""
        importlib.import_module(_REGISTERS)
        return gymnasium.make_vec(
            self.environment, num_envs=self.copies, vectorization_mode="vector_entry_point", **self.options
        )

    def test_gymnasiums_checker_passes(self) -> None:
        """Gymnasium's own checker finds nothing, not even something to warn of."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(self.make(), skip_render_check=True)

    def test_refuses_an_option_that_it_does_not_have(self) -> None:
        """With a TypeError, as any call: libraries try options such as `render_mode`, and go on without."""
        importlib.import_module(_REGISTERS)
        with pytest.raises(TypeError, match="no_such_option"):
            gymnasium.make(self.environment, no_such_option=1, **self.options)

    def test_observations_and_rewards_are_what_they_should_be(self) -> None:
        """Every observation lies in its space and every reward is a finite number, over several episodes."""
        env = self.make()
        env.action_space.seed(1)
        observation, _ = env.reset(seed=1)
        for _ in range(self.steps):
            assert observation in env.observation_space
            observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            assert np.isfinite(float(reward))
            if terminated or truncated:
                assert observation in env.observation_space
                observation, _ = env.reset()

    def test_the_same_seed_gives_the_same_episodes(self) -> None:
        """Two environments with one seed and the same actions go the same way, over several episodes."""
        one, other = self.make(), self.make()
        one.action_space.seed(2)
        _assert_same(one.reset(seed=3), other.reset(seed=3), "reset")
        for step in range(self.steps):
            action = one.action_space.sample()
            result = one.step(action)
            _assert_same(result[:4], other.step(action)[:4], f"step {step}")
            if result[2] or result[3]:
                _assert_same(one.reset()[0], other.reset()[0], f"reset after step {step}")

    def test_a_seed_starts_again(self) -> None:
        """An environment that is given its seed again begins as it began before."""
        env = self.make()
        env.action_space.seed(4)
        first, _ = copy.deepcopy(env.reset(seed=5))
        for _ in range(3):
            env.step(env.action_space.sample())
        _assert_same(env.reset(seed=5)[0], first, "reset")

    def test_the_twin_steps_as_single_environments_do(self) -> None:
        """The vectorised twin equals Gymnasium's loop over single ones: values, types, resets, infos."""
        twin = self.make_twin()
        mode = twin.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        loop = SyncVectorEnv([self.make] * self.copies, autoreset_mode=mode, copy=True)
        assert twin.observation_space == loop.observation_space
        assert twin.action_space == loop.action_space
        assert twin.num_envs == self.copies
        _assert_same(twin.reset(seed=6), loop.reset(seed=6), "reset")
        twin.action_space.seed(7)
        ended = False
        for step in range(self.steps):
            actions = twin.action_space.sample()
            result = twin.step(actions)
            _assert_same(result, loop.step(actions), f"step {step}")
            ended = ended or bool(np.any(result[2]) or np.any(result[3]))
        assert ended, "no episode ended: the suite needs more `steps`"
        twin.close()
        loop.close()
