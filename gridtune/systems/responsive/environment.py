"""Gymnasium environments of a grid site: one site, or many stepped in one compiled call."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import kernel
from gridtune.core.vector_environment import CompiledEnv, CompiledVectorEnv, one_of, stacked
from gridtune.errors import SimulationError
from gridtune.systems.responsive.simulator.candidates import feature_count, fill_features, fill_tick
from gridtune.systems.responsive.simulator.site import (
    SiteJobs,
    SiteModel,
    build_jobs,
    work_by_vo,
)
from gridtune.systems.responsive.simulator.state import GridSite
from gridtune.systems.responsive.simulator.stepping import (
    advance_until_decision,
    request_size,
    reset_site,
    start_job,
)
from gridtune.types import BoolArray, Float32Array, FloatArray, Int8Array, IntArray
from gridtune.workload import read_workload
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import DEFAULT_RULES

#: Features are clipped to ± this.
BOUND = 10.0


class _Observations(NamedTuple):
    """The result of a step; `count` sites, `slots` candidates shown, d features.

    Attributes
    ----------
    rows
        Shape (count, slots, d), float32; zeros in empty slots.
    mask
        Shape (count, slots), int8: 1 where a slot holds a candidate.
    place
        Shape (count, slots), int64: the place in the queue of the job in a slot.
    rewards, over
        Shape (count,), float64 and bool.
    """

    rows: Float32Array
    mask: Int8Array
    place: IntArray
    rewards: FloatArray
    over: BoolArray


@kernel()
def _step_sites(sites, actions, restart, weight, at_start, rows, observed):
    """Carry out a decision on each site and advance to its next one, or start over.

    Parameters
    ----------
    sites
        Stacked: every array has the sites as its first dimension, those of the model excepted.
    actions
        Shape (count, 2), int64: a slot and a pool size: 0 is the present one, i the model's i-th.
    restart
        Shape (count,), bool: sites that start over instead.
    weight, at_start
        λ, and whether rewards are given with the decision.
    rows
        Shape (jobs · options, d), float64: scratch.
    observed
        The `_Observations` to fill in.
    """
    for index in range(actions.shape[0]):
        jobs, state = one_of(sites.jobs, index), one_of(sites.state, index)
        site = GridSite(jobs, sites.model, sites.shares, sites.sizes, state)
        observed.rewards[index] = 0.0
        if restart[index]:
            reset_site(site)
        else:
            memory, done = site.state.memory[0], site.state.memory[0].done
            size = memory.target if site.model[0].scaler != 0 else site.state.options[0]
            if actions[index, 1] > 0:
                size = site.sizes[actions[index, 1] - 1]
            if memory.tick_due:
                request_size(site, size)
            else:
                slot = actions[index, 0]
                place = observed.place[index, slot if observed.mask[index, slot] == 1 else 0]
                decision = site.state.number[start_job(site, place, size)]
                if at_start:
                    observed.rewards[index] = _reward(site, decision, weight)
            advance_until_decision(site)
            if not at_start:
                for place in range(done, memory.done):
                    observed.rewards[index] += _reward(site, site.state.completed[place], weight)
        # An episode has at least one job, so it begins with a decision.
        observed.over[index] = not advance_until_decision(site)
        if observed.over[index]:
            observed.rows[index] = 0.0
            observed.mask[index] = 0
        elif site.state.memory[0].tick_due:
            _show_tick(site, rows, observed, index)
        else:
            _show(site, rows, observed, index)


@kernel()
def _reward(site, decision, weight):
    """Return R_s or R_e of a decision; its job has started."""
    state = site.state
    job = state.decisions[decision].job
    run, wait = site.jobs.run[job], state.start[job] - site.jobs.submit[job]
    taken = state.decisions[decision]
    other = taken.utilisation if site.model[0].elastic else taken.fairness
    return weight * (run / (run + wait)) + (1.0 - weight) * other


@kernel()
def _show(site, rows, observed, index):
    """Fill the slots: the oldest job of each class and VO, then the second oldest of each, and so on."""
    jobs, state, slots = site.jobs, site.state, observed.mask.shape[1]
    memory, count = state.memory[0], feature_count(site)
    fill_features(site, rows)
    options = memory.options
    waiting = memory.tail - memory.head
    shown, turn = 0, 0
    ahead = np.zeros(2 * site.shares.size, np.int64)
    while shown < min(slots, waiting):
        ahead[:] = 0
        for place in range(waiting):
            job = state.waiting[memory.head + place]
            kind = 2 * jobs.vo[job] + jobs.interactive[job]
            if ahead[kind] == turn and shown < slots:
                observed.place[index, shown] = place
                observed.mask[index, shown] = 1
                for column in range(count):
                    value = rows[place * options, column]
                    observed.rows[index, shown, column] = min(max(value, -BOUND), BOUND)
                shown += 1
            ahead[kind] += 1
        turn += 1
    observed.rows[index, shown:] = 0.0
    observed.mask[index, shown:] = 0


@kernel()
def _show_tick(site, rows, observed, index):
    """Show the site in the first slot."""
    fill_tick(site, rows[0], site.state.memory[0].target)
    observed.rows[index] = 0.0
    observed.mask[index] = 0
    observed.mask[index, 0] = 1
    for column in range(feature_count(site)):
        observed.rows[index, 0, column] = min(max(rows[0, column], -BOUND), BOUND)


_Observation = dict[str, npt.NDArray[Any]]
#: When a decision's reward is given: when its job completes, so that a step gives the rewards of the jobs
#: that completed before the next decision; or with the decision itself.
_RewardTime = Literal["completion", "start"]


@lru_cache(maxsize=4)
def _read_site_jobs(trace: str) -> SiteJobs:
    """Return the first half of a trace, the one to learn on; target shares are those of the work in it."""
    workload = read_workload(resolve_trace(trace), clean=DEFAULT_RULES)
    part = workload.take(slice(0, max(1, round(len(workload) / 2))))
    vos, work = work_by_vo(part)
    return build_jobs(part, vos=vos, shares=(work + 1.0) / (work + 1.0).sum())


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
        reward: _RewardTime = "completion",
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
        reward: _RewardTime = "completion",
    ) -> None:
        for name, value in {"num_envs": num_envs, "episode": episode, "slots": slots}.items():
            if value < 1:
                raise SimulationError(f"must be at least 1, but got {value}", field=name)
        if reward not in ("completion", "start"):
            raise SimulationError(f"must be 'completion' or 'start', but got {reward!r}", field="reward")
        if not 0 <= weight <= 1:
            raise SimulationError(f"must be between 0 and 1, but got {weight}", field="weight")
        self._jobs = jobs if isinstance(jobs, SiteJobs) else _read_site_jobs(str(jobs))
        self._episode = min(episode, len(self._jobs))
        if self._episode == 0:
            raise SimulationError("there are no jobs")
        model = model or SiteModel()
        one = self._jobs.take(slice(0, self._episode)).new_site(model)
        self._sites = one._replace(jobs=stacked(one.jobs, num_envs), state=stacked(one.state, num_envs))
        self._weight, self._at_start = weight, reward == "start"
        features, options = int(feature_count(one)), len(one.sizes) + 1
        self._rows = np.zeros((self._episode * options, features))
        self._observed = _Observations(
            rows=np.zeros((num_envs, slots, features), np.float32),
            mask=np.zeros((num_envs, slots), np.int8),
            place=np.zeros((num_envs, slots), np.int64),
            rewards=np.zeros(num_envs),
            over=np.zeros(num_envs, np.bool_),
        )
        rows = gym.spaces.Box(-BOUND, BOUND, (slots, features), np.float32)
        mask = gym.spaces.Box(0, 1, (slots,), np.int8)
        actions: gym.Space[Any] = gym.spaces.Discrete(slots)
        if model.elastic:
            actions = gym.spaces.MultiDiscrete([slots, options])
        super().__init__(num_envs, (gym.spaces.Dict({"observations": rows, "action_mask": mask}), actions))

    def _draw(self, where: BoolArray) -> None:
        self._draw_numbers(where, len(self._jobs) - self._episode + 1)

    def _restart(self) -> None:
        self._step(np.zeros((self.num_envs, 2), np.int64), self._everywhere)

    def _advance(self, actions: npt.ArrayLike, begins: BoolArray | None) -> dict[str, Any]:
        slots = np.asarray(actions, np.int64).reshape(self.num_envs, -1)
        # The actions of a rigid site have no pool size.
        pairs = slots if slots.shape[1] == 2 else np.pad(slots, ((0, 0), (0, 1)))
        self._step(pairs, self._never if begins is None else begins)
        return {}

    def _step(self, actions: IntArray, begins: BoolArray) -> None:
        """Carry out actions, shape (num_envs, 2), or start over where `begins`, with the drawn job."""
        last = len(self._jobs) - self._episode
        for index in np.flatnonzero(begins).tolist():
            first = int(self._numbers[index])
            if not 0 <= first <= last:
                raise SimulationError(f"an episode begins with job 0 to {last}, but got {first}")
            episode = self._jobs.take(slice(first, first + self._episode))
            for mine, column in zip(self._sites.jobs, episode.columns, strict=True):
                mine[index] = column
        _step_sites(self._sites, actions, begins, self._weight, self._at_start, self._rows, self._observed)

    def _results(self) -> tuple[FloatArray, BoolArray]:
        return self._observed.rewards, self._observed.over

    def _observe(self) -> _Observation:
        observed = self._observed
        # Gymnasium batches a Dict in the order of its sorted keys.
        return {"action_mask": observed.mask.copy(), "observations": observed.rows.copy()}
