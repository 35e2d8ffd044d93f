"""Gymnasium environments of a grid site: one site, or many stepped in one compiled call."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from gridtune.core.vector_environment import CompiledEnv, CompiledVectorEnv
from gridtune.systems.responsive.simulator.batch import BOUND, RewardTime, SiteBatch
from gridtune.systems.responsive.simulator.site import SiteJobs, SiteModel, build_jobs, group_vos, vo_of
from gridtune.types import BoolArray, FloatArray, IntArray
from gridtune.workload import read_workload
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import DEFAULT_RULES

__all__ = ["ResponsiveEnv", "ResponsiveVectorEnv"]

Observation = dict[str, npt.NDArray[Any]]


@lru_cache(maxsize=4)
def _read_site_jobs(trace: str) -> SiteJobs:
    """Return the first half of a trace, the one to learn on; target shares are those of the work in it."""
    workload = read_workload(resolve_trace(trace), clean=DEFAULT_RULES)
    part = workload.take(slice(0, max(1, round(len(workload) / 2))))
    groups = group_vos(part.group)
    work = np.bincount(vo_of(part.group, groups), part.run_time, minlength=len(groups) + 1) + 1.0
    return build_jobs(part, vos=groups, shares=work / work.sum())


def _spaces(batch: SiteBatch) -> tuple[gym.spaces.Dict, gym.Space[Any]]:
    """Return one site's spaces of observations and actions."""
    rows = gym.spaces.Box(-BOUND, BOUND, (batch.slots, batch.features), np.float32)
    mask = gym.spaces.Box(0, 1, (batch.slots,), np.int8)
    observations = gym.spaces.Dict({"observations": rows, "action_mask": mask})
    if not batch.model.elastic:
        return observations, gym.spaces.Discrete(batch.slots)
    return observations, gym.spaces.MultiDiscrete([batch.slots, len(batch.model.pool_sizes) + 1])


class ResponsiveEnv(CompiledEnv):
    """A grid site on which the agent chooses the waiting job to start; an episode is a number of jobs.

    Observation: `observations`, a row of features for each candidate
    (`gridtune.systems.responsive.simulator.candidates`) in `slots` slots, and `action_mask`, 1 where a slot
    is filled. If more jobs wait than there are slots, the slots hold the oldest of each class and VO, then
    the second oldest of each, and so on. Action: a slot; an empty one stands for the first. On an elastic
    site also a pool size: 0 keeps the pool, i requests the i-th of `pool_sizes`. Reward: R_s = λ·W + (1 −
    λ)·F; on an elastic site, R_e = λ·W + (1 − λ)·U. The episode is over (`terminated`) when all its jobs have
    run.

    If the model has an autoscaler with the rule `agent`, there is also a step at each tick of its timer: the
    first slot shows the site, with zeros for the candidate, only the pool size counts, and no job starts.

    Parameters
    ----------
    jobs
        Jobs, or a trace, of which the first half is used.
    model
        The site; by default 81 cores, rigid, run times estimated.
    episode, slots
        Number of consecutive jobs of an episode, and of candidates shown.
    weight
        λ.
    reward
        `completion`: a step returns the rewards of the jobs that have completed since; `start`: that of its
        own job.

    Examples
    --------
    `reset(options={"first": 3})` begins with the job of that number, and `reset()` with a random one.
    """

    def __init__(
        self,
        jobs: SiteJobs | str | Path = "egee",
        model: SiteModel | None = None,
        *,
        episode: int = 500,
        slots: int = 32,
        weight: float = 0.5,
        reward: RewardTime = "completion",
    ) -> None:
        options: dict[str, Any] = {"episode": episode, "slots": slots, "weight": weight, "reward": reward}
        super().__init__(ResponsiveVectorEnv(1, jobs, model, **options))


class ResponsiveVectorEnv(CompiledVectorEnv):
    """Many sites stepped in one compiled call; trajectories equal those of single environments.

    Parameters
    ----------
    num_envs
        Number of sites.
    jobs, model, episode, slots, weight, reward
        See `ResponsiveEnv`.
    """

    episode = "first"

    def __init__(
        self,
        num_envs: int = 1,
        jobs: SiteJobs | str | Path = "egee",
        model: SiteModel | None = None,
        *,
        episode: int = 500,
        slots: int = 32,
        weight: float = 0.5,
        reward: RewardTime = "completion",
    ) -> None:
        jobs = jobs if isinstance(jobs, SiteJobs) else _read_site_jobs(str(jobs))
        options: dict[str, Any] = {"episode": episode, "slots": slots, "weight": weight, "reward": reward}
        self._batch = SiteBatch(jobs, model or SiteModel(), count=num_envs, **options)
        super().__init__(num_envs, _spaces(self._batch))

    def _draw(self, where: BoolArray) -> None:
        self._draw_numbers(where, self._batch.starts)

    def _restart(self) -> None:
        self._batch.step(0, self._everywhere, self._numbers)

    def _advance(self, actions: npt.ArrayLike, begins: BoolArray | None) -> dict[str, Any]:
        pairs = _as_pairs(np.asarray(actions).reshape(self.num_envs, -1))
        self._batch.step(pairs, self._never if begins is None else begins, self._numbers)
        return {}

    def _results(self) -> tuple[FloatArray, BoolArray]:
        return self._batch.observed.rewards, self._batch.observed.over

    def _observe(self) -> Observation:
        observed = self._batch.observed
        # Gymnasium batches a Dict in the order of its sorted keys.
        return {"action_mask": observed.mask.copy(), "observations": observed.rows.copy()}


def _as_pairs(actions: IntArray) -> IntArray:
    """Return slots with pool sizes: a rigid site's actions have none."""
    if actions.shape[1] == 2:
        return actions
    return np.concatenate([actions, np.zeros_like(actions)], axis=1)
