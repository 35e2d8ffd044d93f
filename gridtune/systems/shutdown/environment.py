"""Gymnasium environments: an agent reserves nodes on one cluster, or on many in one compiled call."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from gridtune.core.vector_environment import CompiledEnv, CompiledVectorEnv
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.clusters import ClusterBatch
from gridtune.systems.shutdown.simulator.days import Days, build_days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.state import Variant
from gridtune.types import BoolArray, Float32Array, FloatArray
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import DEFAULT_RULES
from gridtune.workload.files import read_days


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
    `gridtune.systems.shutdown.simulator.clusters`. Reward: minus the minute's waste, as a share of the
    largest possible, minus the late requests that the variant counts. The episode terminates at the end of
    the day; every day begins with all nodes asleep.

    Parameters
    ----------
    days
        The days, or a trace whose training days are read.
    platform
        The cluster; by default the paper's Taurus.
    tau, variant
        See `gridtune.systems.shutdown.simulator.state.build_model`.

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
        tau: float = 0.5,
        variant: Variant = "paper",
    ) -> None:
        vector = ShutdownVectorEnv(1, days, platform, tau=tau, variant=variant)
        self.cluster = vector.clusters
        super().__init__(vector)


class ShutdownVectorEnv(CompiledVectorEnv):
    """Many clusters stepped in one compiled call, with the trajectories of single environments.

    Parameters
    ----------
    num_envs
        Number of clusters.
    days, platform
        As of `ShutdownEnv`.
    tau, variant
        See `gridtune.systems.shutdown.simulator.state.build_model`.
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
        tau: float = 0.5,
        variant: Variant = "paper",
        copy: bool = True,
    ) -> None:
        days = days if isinstance(days, Days) else read_training_days(str(days))
        self.clusters = ClusterBatch(days, platform, count=num_envs, tau=tau, variant=variant)
        if len(days) == 0:
            raise SimulationError("there are no days to draw from")
        high = self.clusters.observation_bounds(int(days.walltime.max(initial=0)))
        observations = gym.spaces.Box(0.0, high, dtype=np.float32)
        actions: gym.spaces.Discrete[np.int64] = gym.spaces.Discrete(self.clusters.platform.nodes + 1)
        super().__init__(num_envs, (observations, actions), copy=copy)

    def _draw(self, where: BoolArray) -> None:
        self._draw_numbers(where, len(self.clusters.days))

    def _restart(self) -> None:
        self.clusters.reset(self._numbers)

    def _advance(self, actions: npt.ArrayLike, begins: BoolArray | None) -> dict[str, Any]:
        self.clusters.step(actions, begins, self._numbers)
        return {}

    def _results(self) -> tuple[FloatArray, BoolArray]:
        return self.clusters.rewards, self.clusters.over

    def _observe(self) -> Float32Array:
        return self.clusters.observations.copy() if self._copy else self.clusters.observations
