"""Gymnasium environments: an agent reserves nodes on one cluster, or on many in one compiled call."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from gridtune.core.vector_environment import CompiledVectorEnv
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.clusters import ClusterBatch
from gridtune.systems.shutdown.simulator.days import Days, build_days
from gridtune.systems.shutdown.simulator.observing import observation_bounds
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.types import BoolArray, Float32Array, FloatArray
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import DEFAULT_RULES
from gridtune.workload.files import read_days

__all__ = ["ShutdownEnv", "ShutdownVectorEnv", "read_training_days"]


#: How a day is drawn: any of them, or, as the paper's authors do, a group and then a day of it.
Draw = Literal["days", "groups"]


@lru_cache(maxsize=4)
def read_training_days(trace: str, subset: str = "train") -> Days:
    """Return the days of a trace: all of them, or those for training or testing.

    Parameters
    ----------
    trace
        A folder, archive or log, or the name of a bundled one (see `gridtune.workload.files.read_days`).
    subset
        `all`, `train` or `test`.
    """
    days = build_days(read_days(resolve_trace(trace), clean=DEFAULT_RULES))
    return days if subset == "all" else days.take(days.subset(subset))


class _Draws:
    """Draws days with the caller's random generator."""

    def __init__(self, days: Days, how: Draw) -> None:
        if len(days) == 0:
            raise SimulationError("there are no days to draw from")
        if how not in ("days", "groups"):
            raise SimulationError(f"days are drawn by 'days' or 'groups', but got {how!r}", field="draw")
        groups = days.group if how == "groups" else np.ones(len(days), np.int64)
        self._groups = [np.flatnonzero(groups == group) for group in np.unique(groups)]

    def __call__(self, rng: np.random.Generator) -> int:
        group = self._groups[0] if len(self._groups) == 1 else self._groups[rng.integers(len(self._groups))]
        return int(group[rng.integers(len(group))])


def _batch(days: Days | str | Path, platform: Platform | None, chain: int, **options: Any) -> ClusterBatch:
    read = days if isinstance(days, Days) else read_training_days(str(days))
    if chain < 1:
        raise SimulationError(f"must be at least 1, but got {chain}", field="chain")
    return ClusterBatch(read if chain == 1 else read.chained(chain), platform, **options)


def _spaces(batch: ClusterBatch) -> tuple[gym.spaces.Box, gym.spaces.Discrete[np.int64]]:
    """Return one cluster's spaces of observations and actions."""
    high = observation_bounds(int(batch.days.walltime.max(initial=0)), batch.view, batch.platform.nodes)
    shape = high.shape if batch.frames == 1 else (batch.frames, *high.shape)
    observations = gym.spaces.Box(0.0, np.broadcast_to(high, shape).copy(), dtype=np.float32)
    return observations, gym.spaces.Discrete(batch.platform.nodes + 1)


class ShutdownEnv(gym.Env[Float32Array, np.int64]):
    """A cluster whose reserved nodes are switched off; a day is an episode.

    Action: the number of nodes to reserve in the coming minute. Observation: 48 numbers, see
    `gridtune.systems.shutdown.simulator.observing`, or the last `frames` observations, with zeros before the
    first. Reward: minus the minute's waste, as a share of the largest possible, minus the late requests that
    the variant counts. The episode terminates at the end of the day; every day begins with all nodes asleep.
    With `chain` days in an episode time goes on at midnight, and the episode is truncated at its end, so that
    an agent gains nothing by what it puts off until then.

    Parameters
    ----------
    days
        The days, or a trace whose training days are read.
    platform
        The cluster; by default the paper's Taurus.
    tau (0.5), variant ("paper")
        See `gridtune.systems.shutdown.simulator.state.build_model`.
    frames (1)
        Observations returned at once: 1 for an agent with a memory, 20 in the paper.
    view ("paper")
        `paper`: the authors' 48 numbers. `effects`: the effect of each reservation, and more of the past, see
        `gridtune.systems.shutdown.simulator.observing`.
    decisions
        With `view="effects"`: a step lasts until reservations differ in their effects.
        The info `minutes` says how many minutes it took.
    chain
        Days in an episode: each day is followed by others (`Days.chained`).
    draw
        `days`: all days are equally likely. `groups`: first draw a group of days by share of sequential
        submissions, then a day of it, as the paper's authors do.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}  # type: ignore[misc]

    def __init__(
        self,
        days: Days | str | Path = "taurus_days",
        platform: Platform | None = None,
        *,
        decisions: bool = False,
        chain: int = 1,
        draw: Draw = "days",
        **options: Any,
    ) -> None:
        self._batch = batch = _batch(days, platform, chain, decisions=decisions, **options)
        self._chain = chain
        self._draws, self._decisions = _Draws(batch.days, draw), decisions
        self.observation_space, self.action_space = _spaces(batch)

    @property
    def cluster(self) -> ClusterBatch:
        """The cluster, as a batch of one."""
        return self._batch

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32Array, dict[str, Any]]:
        """Begin a random day, or the day with the number `options["day"]`."""
        super().reset(seed=seed)
        number = (options or {}).get("day")
        day = self._draws(self.np_random) if number is None else int(number)
        self._batch.reset(np.array([day]))
        return self._batch.observations[0].copy(), {"day": day}

    def step(self, action: np.int64 | int) -> tuple[Float32Array, float, bool, bool, dict[str, Any]]:
        """Reserve `action` nodes for a minute."""
        batch = self._batch
        batch.actions[0] = action
        before = batch.now[0]
        batch.step(None)
        info = {"minutes": int(batch.now[0] - before)} if self._decisions else {}
        over = bool(batch.over[0])
        terminated, truncated = (over, False) if self._chain == 1 else (False, over)
        return batch.observations[0].copy(), float(batch.rewards[0]), terminated, truncated, info


class ShutdownVectorEnv(CompiledVectorEnv):
    """Many clusters stepped in one compiled call, with the trajectories of single environments.

    Parameters
    ----------
    num_envs
        Number of clusters.
    days, platform, decisions, chain, draw, options
        As of `ShutdownEnv`; the options are `tau`, `variant`, `frames` and `view`.
    copy
        Return copies. False returns the environment's own memory, which the next step overwrites.
    """

    episode = "day"

    def __init__(
        self,
        num_envs: int = 1,
        days: Days | str | Path = "taurus_days",
        platform: Platform | None = None,
        *,
        decisions: bool = False,
        chain: int = 1,
        draw: Draw = "days",
        copy: bool = True,
        **options: Any,
    ) -> None:
        self._batch = batch = _batch(days, platform, chain, count=num_envs, decisions=decisions, **options)
        self._draws, self._decisions = _Draws(batch.days, draw), decisions
        super().__init__(num_envs, _spaces(batch), copy=copy, truncates=chain > 1)

    @property
    def clusters(self) -> ClusterBatch:
        """The clusters."""
        return self._batch

    def step(
        self, actions: npt.ArrayLike
    ) -> tuple[Float32Array, FloatArray, BoolArray, BoolArray, dict[str, Any]]:
        """Reserve `actions[i]` nodes of each cluster i for a minute."""
        if not self._decisions:
            return super().step(actions)
        before, begins = self._batch.now, self._over
        *results, info = super().step(actions)
        minutes = {"minutes": np.where(begins, 0, self._batch.now - before), "_minutes": ~begins}
        return *results, {**info, **minutes}

    def _draw(self, where: BoolArray) -> None:
        for i in np.flatnonzero(where).tolist():
            self._numbers[i] = self._draws(self._rngs[i])

    def _restart(self) -> None:
        self._batch.reset(self._numbers)

    def _advance(self, actions: npt.ArrayLike, begins: BoolArray) -> None:
        if begins.any():
            self._batch.step(actions, begins, self._numbers)
        else:
            self._batch.step(actions)

    def _results(self) -> tuple[FloatArray, BoolArray]:
        return self._batch.rewards, self._batch.over

    def _observe(self) -> Float32Array:
        return self._batch.observations.copy() if self._copy else self._batch.observations
