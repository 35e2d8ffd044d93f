"""The frame of environments that one compiled call steps side by side, and that of a single one.

Its simulators are stacked: a NamedTuple of arrays whose first dimension is the simulator.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numba import types
from numba.extending import intrinsic

from gridtune.errors import SimulationError
from gridtune.types import BoolArray, FloatArray


class CompiledVectorEnv(VectorEnv[Any, Any, Any]):
    """Environments with the trajectories of single ones, each with a random generator of its own.

    After a reset with a seed s, environment i draws the same episodes as a single environment with the seed
    s + i. The step after the end of an episode begins another and ignores the action
    (`AutoresetMode.NEXT_STEP`).

    A subclass makes its simulators, calls this constructor, and defines `_draw`, `_advance`, `_observe`
    and `_results`, and `_restart` unless drawing an episode begins it.

    Parameters
    ----------
    num_envs
        Number of environments.
    spaces
        Observations and actions of one of them.
    copy
        Return copies. False returns the environment's own memory, which the next step overwrites.

    Attributes
    ----------
    episode
        Name of the info, and of the option of `reset`, with the number that says which episode it is.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }
    episode: ClassVar[str]

    def __init__(
        self, num_envs: int, spaces: tuple[gym.Space[Any], gym.Space[Any]], *, copy: bool = True
    ) -> None:
        self.num_envs, self._copy = num_envs, copy
        self.single_observation_space, self.single_action_space = spaces
        self.observation_space, self.action_space = (batch_space(space, num_envs) for space in spaces)
        self._rngs = [seeding.np_random(None)[0] for _ in range(num_envs)]
        self._numbers = np.zeros(num_envs, np.int64)
        self._over = np.zeros(num_envs, np.bool_)
        self._never, self._everywhere = np.zeros(num_envs, np.bool_), np.ones(num_envs, np.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode everywhere: a random one, or those of the numbers in the options."""
        self._seed_each(seed)
        given = (options or {}).get(self.episode)
        if given is None:
            self._draw(self._everywhere)
        else:
            self._choose(given)
        self._restart()
        self._over = self._never.copy()
        return self._observe(), self._infos(self._everywhere)

    def step(self, actions: npt.ArrayLike) -> tuple[Any, FloatArray, BoolArray, BoolArray, dict[str, Any]]:
        """Take an action in each, and advance to the next decisions."""
        begins = self._over
        begun = bool(begins.any())
        if begun:
            self._draw(begins)
        infos = self._advance(actions, begins if begun else None)
        if begun:
            infos = infos | self._infos(begins)
        rewards, over = self._results()
        self._over, cut = over.copy(), self._never
        if self._copy:
            rewards, over, cut = rewards.copy(), over.copy(), cut.copy()
        return self._observe(), rewards, over, cut, infos

    @abstractmethod
    def _draw(self, where: BoolArray) -> None:
        """Draw the next episodes of these environments, each with its generator in `_rngs`."""

    @abstractmethod
    def _advance(self, actions: npt.ArrayLike, begins: BoolArray | None) -> dict[str, Any]:
        """Take actions, and return the infos of this step, in Gymnasium's form.

        Where an episode begins, come to its beginning instead; None: it does nowhere.
        """

    @abstractmethod
    def _observe(self) -> Any:
        """Return the observations."""

    @abstractmethod
    def _results(self) -> tuple[FloatArray, BoolArray]:
        """Return the rewards of the last step, and where the episode is over: shapes (num_envs,)."""

    def _choose(self, numbers: Any) -> None:
        """Take the episodes of these numbers, one or one for each."""
        self._numbers[:] = numbers

    def _restart(self) -> None:
        """Bring all environments to the beginning of their episodes."""

    def _draw_numbers(self, where: BoolArray, episodes: int) -> None:
        """Draw the numbers of these environments' episodes, all equally likely."""
        for i in np.flatnonzero(where).tolist():
            self._numbers[i] = self._rngs[i].integers(episodes)

    def _seed_each(self, seed: int | Sequence[int | None] | None) -> None:
        if seed is None:
            return
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else list(seed)
        if len(seeds) != self.num_envs:
            raise SimulationError(f"{self.num_envs} environments, but {len(seeds)} seeds", field="seed")
        for i, own_seed in enumerate(seeds):
            if own_seed is not None:
                self._rngs[i] = seeding.np_random(own_seed)[0]

    def _infos(self, begun: BoolArray) -> dict[str, Any]:
        """Return the numbers of the episodes that have just begun, in Gymnasium's form."""
        return {self.episode: np.where(begun, self._numbers, 0), f"_{self.episode}": begun.copy()}


class CompiledEnv(gym.Env[Any, Any]):
    """A single environment: a vector environment of one, without its first axis.

    Parameters
    ----------
    vector
        The vector environment; it draws episodes with this environment's random generator.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}  # type: ignore[misc]

    def __init__(self, vector: CompiledVectorEnv) -> None:
        actions = vector.action_space
        self._vector, self._actions = vector, np.zeros(actions.shape or (1,), actions.dtype)
        self.observation_space = vector.single_observation_space
        self.action_space = vector.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a random episode, or the one that the options name."""
        super().reset(seed=seed)
        self._vector._rngs[0] = self.np_random
        observations, infos = self._vector.reset(options=options)
        return _first(observations), _first_info(infos)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action, and advance to the next decision."""
        vector = self._vector
        self._actions[0] = action
        if vector._over[0]:
            observations, rewards, terminated, truncated, infos = vector.step(self._actions)
            ended = bool(terminated[0]), bool(truncated[0])
            return _first(observations), float(rewards[0]), *ended, _first_info(infos)
        # Within an episode there is less to do: several times as fast as a step of the vector environment.
        infos = vector._advance(self._actions, None)
        rewards, ends = vector._results()
        over = vector._over[0] = bool(ends[0])
        return _first(vector._observe()), float(rewards[0]), over, False, _first_info(infos) if infos else {}

    def action_masks(self) -> BoolArray:
        """Return which actions are choices now, shape (actions,): MaskablePPO of sb3-contrib asks for them.

        All are, where observations have no `action_mask`.
        """
        observed = self._vector._observe()
        mask = observed.get("action_mask") if isinstance(observed, dict) else None
        if mask is not None:
            return np.asarray(mask[0], bool)
        assert isinstance(self.action_space, gym.spaces.Discrete)
        return np.ones(int(self.action_space.n), bool)


def _first(observations: Any) -> Any:
    if isinstance(observations, dict):
        return {name: part[0] for name, part in observations.items()}
    return observations[0]


def _first_info(infos: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the first environment, without the masks of Gymnasium's form."""
    return {name: values[0].item() for name, values in infos.items() if not name.startswith("_")}


T = TypeVar("T", bound=tuple[Any, ...])


def stacked(state: T, count: int) -> T:
    """Return a NamedTuple with `count` copies of each of its arrays, shape (count, …)."""
    return type(state)(*(np.repeat(column[None], count, 0) for column in state))


@intrinsic
def one_of(typing_context: Any, stack: Any, index: Any) -> Any:
    """Return one of the stacked simulators: the NamedTuple of views of its arrays."""
    if not isinstance(stack, types.BaseNamedTuple):
        return None
    getters = [
        typing_context.resolve_function_type(operator.getitem, (column, index), {}) for column in stack.types
    ]
    views = [getter.return_type for getter in getters]
    alike = all(view == views[0] for view in views)
    kind = types.NamedUniTuple(views[0], len(views), stack.instance_class) if alike else None
    kind = kind or types.NamedTuple(views, stack.instance_class)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        parts = []
        for place, getter in enumerate(getters):
            take = context.get_function(operator.getitem, getter)
            parts.append(take(builder, (builder.extract_value(arguments[0], place), arguments[1])))
        return context.make_tuple(builder, kind, parts)

    return kind(stack, index), generate
