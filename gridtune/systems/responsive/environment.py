"""Deciding which job a grid site runs next: one site at a time, or many in one compiled call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gridtune.errors import SimulationError
from gridtune.systems.responsive.simulator.batch import BOUND, RewardTime, SiteBatch
from gridtune.systems.responsive.simulator.jobs import SiteJobs, build_jobs, group_vos, vo_of
from gridtune.systems.responsive.simulator.site import SiteModel, pool_sizes
from gridtune.workload import read_workload
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import DEFAULT_RULES

__all__ = ["ResponsiveEnv", "ResponsiveVectorEnv", "read_site_jobs"]

Observation = dict[str, npt.NDArray[Any]]
Rewards = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Actions = npt.NDArray[np.int64]


@lru_cache(maxsize=4)
def read_site_jobs(trace: str, split: float = 0.5, vos: int = 7) -> SiteJobs:
    """Return the first part of a trace, the one to learn on.

    Parameters
    ----------
    trace
        A log of sequential jobs, or the name of a bundled one.
    split
        Share of the jobs.
    vos
        VOs told apart; their target shares are those of the work in this part.
    """
    workload = read_workload(resolve_trace(trace), clean=DEFAULT_RULES)
    part = workload.take(slice(0, max(1, round(split * len(workload)))))
    known = group_vos(part.group, vos)
    work = np.bincount(vo_of(part.group, known), part.run_time, minlength=len(known) + 1) + 1.0
    return build_jobs(part, vos=known, shares=work / work.sum())


def _spaces(batch: SiteBatch) -> tuple[gym.spaces.Dict, gym.Space[Any]]:
    """Return one site's spaces of observations and actions."""
    rows = gym.spaces.Box(-BOUND, BOUND, (batch.slots, batch.features), np.float32)
    mask = gym.spaces.Box(0, 1, (batch.slots,), np.int8)
    seen = gym.spaces.Dict({"observations": rows, "action_mask": mask})
    if not batch.model.elastic:
        return seen, gym.spaces.Discrete(batch.slots)
    return seen, gym.spaces.MultiDiscrete([batch.slots, len(pool_sizes(batch.model)) + 1])


class ResponsiveEnv(gym.Env[Observation, Any]):
    """A grid site that asks which waiting job it is to start on a free core; an episode is a row of jobs.

    Observation: `observations`, a row of features for each candidate
    (`gridtune.systems.responsive.simulator.features`) in `slots` slots, and `action_mask`, 1 where a slot is
    taken. If more jobs wait than there are slots, those shown are the oldest of each class and VO, then the
    second oldest of each, and so on. Action: a slot; an empty one stands for the first. On an elastic site
    also a pool size: 0 keeps it, i asks for the i-th of `pool_sizes`. Reward: R_s = λ·W + (1 − λ)·F, or, on
    an elastic site, R_e = λ·W + (1 − λ)·U. The episode is over (`terminated`) when all its jobs have run.

    Parameters
    ----------
    jobs
        What there is to live through: jobs, or a trace, of which the first half is read.
    model
        The site; by default 81 cores, rigid, run times estimated.
    episode, slots
        Consecutive jobs of an episode, and candidates shown.
    weight
        λ.
    reward
        `completion`: a step gives the rewards of the jobs that have completed since; `start`: that of its own
        job.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}  # type: ignore[misc]

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
        self._batch = batch = _batch(jobs, model, 1, episode, slots, weight, reward)
        self.observation_space, self.action_space = _spaces(batch)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode: with a job drawn, or with the one whose number `options["first"]` is."""
        super().reset(seed=seed)
        chosen = (options or {}).get("first")
        first = int(self.np_random.integers(self._batch.starts)) if chosen is None else int(chosen)
        self._batch.step(0, np.ones(1, np.bool_), np.array([first]))
        return self._seen(), {"first": first}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Start a job, and live on to the next decision."""
        batch = self._batch
        batch.step(_as_pairs(np.asarray(action).reshape(1, -1)))
        return self._seen(), float(batch.seen.rewards[0]), bool(batch.seen.over[0]), False, {}

    def _seen(self) -> Observation:
        seen = self._batch.seen
        return {"observations": seen.rows[0].copy(), "action_mask": seen.mask[0].copy()}


class ResponsiveVectorEnv(VectorEnv[Observation, Any, Any]):
    """Many such sites, stepped in one compiled call; trajectories are those of single environments.

    Site i of one that was reset with a seed s draws the episodes that a single environment with the seed
    s + i draws. After an episode's end the next step begins another and ignores the action
    (`AutoresetMode.NEXT_STEP`).

    Parameters
    ----------
    num_envs
        How many sites.
    jobs, model, episode, slots, weight, reward
        As of `ResponsiveEnv`.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

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
        self.num_envs = num_envs
        self._batch = batch = _batch(jobs, model, num_envs, episode, slots, weight, reward)
        seen, chosen = _spaces(batch)
        self.single_observation_space, self.single_action_space = seen, chosen
        self.observation_space = batch_space(seen, num_envs)
        self.action_space = batch_space(chosen, num_envs)
        self._rngs = [seeding.np_random(None)[0] for _ in range(num_envs)]
        self._first = np.zeros(num_envs, np.int64)
        self._over = np.zeros(num_envs, np.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode on each site: with jobs drawn, or with those that `options["first"]` numbers."""
        if seed is not None:
            seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else list(seed)
            if len(seeds) != self.num_envs:
                raise SimulationError(f"{self.num_envs} environments, but {len(seeds)} seeds", field="seed")
            for i, each in enumerate(seeds):
                if each is not None:
                    self._rngs[i] = seeding.np_random(each)[0]
        chosen = (options or {}).get("first")
        everywhere = np.ones(self.num_envs, np.bool_)
        self._draw(everywhere)
        if chosen is not None:
            self._first[:] = chosen
        self._batch.step(0, everywhere, self._first)
        self._over = np.zeros(self.num_envs, np.bool_)
        return self._seen(), self._told(everywhere)

    def step(self, actions: npt.ArrayLike) -> tuple[Observation, Rewards, Bools, Bools, dict[str, Any]]:
        """Start a job on each site, and live on to the next decisions."""
        begins = self._over
        self._draw(begins)
        self._batch.step(_as_pairs(np.asarray(actions).reshape(self.num_envs, -1)), begins, self._first)
        seen = self._batch.seen
        self._over = seen.over.copy()
        cut = np.zeros(self.num_envs, np.bool_)
        told = self._told(begins) if begins.any() else {}
        return self._seen(), seen.rewards.copy(), seen.over.copy(), cut, told

    def _draw(self, where: Bools) -> None:
        for i in np.flatnonzero(where).tolist():
            self._first[i] = self._rngs[i].integers(self._batch.starts)

    def _seen(self) -> Observation:
        seen = self._batch.seen
        # Gymnasium batches a Dict in the order of its sorted keys.
        return {"action_mask": seen.mask.copy(), "observations": seen.rows.copy()}

    def _told(self, begun: Bools) -> dict[str, Any]:
        """Return the first jobs of the episodes that have just begun, as Gymnasium tells them."""
        return {"first": np.where(begun, self._first, 0), "_first": begun.copy()}


def _batch(
    jobs: SiteJobs | str | Path,
    model: SiteModel | None,
    count: int,
    episode: int,
    slots: int,
    weight: float,
    reward: RewardTime,
) -> SiteBatch:
    known = jobs if isinstance(jobs, SiteJobs) else read_site_jobs(str(jobs))
    return SiteBatch(
        known, model or SiteModel(), count=count, episode=episode, slots=slots, weight=weight, reward=reward
    )


def _as_pairs(actions: Actions) -> Actions:
    """Return slots with pool sizes: a rigid site's actions have none."""
    if actions.shape[1] == 2:
        return actions
    return np.concatenate([actions, np.zeros_like(actions)], axis=1)
