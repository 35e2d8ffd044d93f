"""Gymnasium environments: an agent reserves nodes on one cluster, or on many in one compiled call."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from gridtune.core.vector_environment import CompiledEnv, CompiledVectorEnv
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.clusters import ClusterBatch
from gridtune.systems.shutdown.simulator.days import Days, build_days
from gridtune.systems.shutdown.simulator.observing import observation_bounds
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.state import Variant, View
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


class ShutdownEnv(CompiledEnv):
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
    tau, variant
        See `gridtune.systems.shutdown.simulator.state.build_model`.
    frames
        Observations returned at once: 1 for an agent with a memory, 20 in the paper.
    view
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

    Attributes
    ----------
    cluster
        The cluster, as a batch of one.

    Examples
    --------
    `reset(options={"day": 3})` begins the day with that number, and `reset()` a random one.
    """

    def __init__(
        self,
        days: Days | str | Path = "taurus_days",
        platform: Platform | None = None,
        *,
        decisions: bool = False,
        chain: int = 1,
        draw: Draw = "days",
        tau: float = 0.5,
        variant: Variant = "paper",
        frames: int = 1,
        view: View = "paper",
    ) -> None:
        vector = ShutdownVectorEnv(
            1,
            days,
            platform,
            decisions=decisions,
            chain=chain,
            draw=draw,
            tau=tau,
            variant=variant,
            frames=frames,
            view=view,
        )
        self.cluster = vector.clusters
        super().__init__(vector)


class ShutdownVectorEnv(CompiledVectorEnv):
    """Many clusters stepped in one compiled call, with the trajectories of single environments.

    Parameters
    ----------
    num_envs
        Number of clusters.
    days, platform, decisions, chain, draw, tau, variant, frames, view
        As of `ShutdownEnv`.
    copy
        Return copies. False returns the environment's own memory, which the next step overwrites.

    Attributes
    ----------
    clusters
        The clusters.
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
        tau: float = 0.5,
        variant: Variant = "paper",
        frames: int = 1,
        view: View = "paper",
        copy: bool = True,
    ) -> None:
        days = days if isinstance(days, Days) else read_training_days(str(days))
        if chain < 1:
            raise SimulationError(f"must be at least 1, but got {chain}", field="chain")
        days = days if chain == 1 else days.chained(chain)
        model: dict[str, Any] = {"tau": tau, "variant": variant, "view": view, "decisions": decisions}
        self.clusters = ClusterBatch(days, platform, count=num_envs, frames=frames, **model)
        if len(days) == 0:
            raise SimulationError("there are no days to draw from")
        if draw not in ("days", "groups"):
            raise SimulationError(f"days are drawn by 'days' or 'groups', but got {draw!r}", field="draw")
        groups = days.group if draw == "groups" else np.ones(len(days), np.int64)
        self._groups = [np.flatnonzero(groups == group) for group in np.unique(groups)]
        self._decisions = decisions
        high = observation_bounds(int(days.walltime.max(initial=0)), view, self.clusters.platform.nodes)
        shape = high.shape if frames == 1 else (frames, *high.shape)
        observations = gym.spaces.Box(0.0, np.broadcast_to(high, shape).copy(), dtype=np.float32)
        actions: gym.spaces.Discrete[np.int64] = gym.spaces.Discrete(self.clusters.platform.nodes + 1)
        super().__init__(num_envs, (observations, actions), copy=copy, truncates=chain > 1)

    def _draw(self, where: BoolArray) -> None:
        for i in np.flatnonzero(where).tolist():
            rng, groups = self._rngs[i], self._groups
            group = groups[0] if len(groups) == 1 else groups[rng.integers(len(groups))]
            self._numbers[i] = group[rng.integers(len(group))]

    def _restart(self) -> None:
        self.clusters.reset(self._numbers)

    def _advance(self, actions: npt.ArrayLike, begins: BoolArray | None) -> dict[str, Any]:
        before = self.clusters.now if self._decisions else None
        self.clusters.step(actions, begins, self._numbers)
        if before is None:
            return {}
        acted = self._everywhere if begins is None else ~begins
        return {"minutes": np.where(acted, self.clusters.now - before, 0), "_minutes": acted}

    def _results(self) -> tuple[FloatArray, BoolArray]:
        return self.clusters.rewards, self.clusters.over

    def _observe(self) -> Float32Array:
        return self.clusters.observations.copy() if self._copy else self.clusters.observations
