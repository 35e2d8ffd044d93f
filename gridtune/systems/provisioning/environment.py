"""Gymnasium environments for a choice of slots: one, or many stepped in one compiled call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from gridtune.core.cells import environment_parameters
from gridtune.core.compiled import columns_at, kernel
from gridtune.core.system import get_system
from gridtune.core.vector_environment import CompiledEnv, CompiledVectorEnv
from gridtune.errors import SimulationError
from gridtune.systems.provisioning.parameters import ProvisioningParameters
from gridtune.systems.provisioning.planning.bounds import cost_bound, makespan_bound
from gridtune.systems.provisioning.planning.placement import (
    INFINITE,
    Graph,
    Instance,
    SlotColumns,
    new_workspace,
)
from gridtune.systems.provisioning.planning.problem import Plan, PlanProblem
from gridtune.systems.provisioning.planning.schedulers import make_plan, payment
from gridtune.types import BoolArray, Float32Array, FloatArray, IntArray

_GRAPH = len(Graph._fields)
#: Features are clipped to ± this.
_BOUND = 10.0
#: In this order. M is the bound of the makespan, A that of the cost, P the most processors ever free.
FEATURES = (
    "start: from now to the slot's start / M",
    "length: of the slot / M",
    "width: processors of the slot / P",
    "divisible: 1 if parts of the slot can be taken",
    "extensible: 1 if the slot may be extended",
    "paid: what the plan pays for the slot / A",
    "used: share of what it pays for that tasks use",
    "end: from now to the end of the last task in the slot / makespan of the plan",
    "last: 1 if the plan's last task ends in the slot",
    "cost: of the plan / A − 1",
    "makespan: of the plan / M − 1",
    "widest: processors of the widest task / P",
    "beside: processors of the other slots kept that overlap with this one / P",
    "wider: 1 if one of these other slots is as wide as the widest task",
    "later: from the slot's start to that of the next slot kept that is divisible and as wide / M",
    "left: share of the slots that can still be dropped",
)


class _DrawnProblems(NamedTuple):
    """The problems that episodes are drawn from, n of them, and their common rules.

    Attributes
    ----------
    handles, size
        Shapes (n, arrays · 2) and (n, 3): those of each problem's `Instance`; tasks, slots and sites.
    memory
        Handles of the memory of a plan.
    now, cost_bound, makespan_bound
        Shape (n,): when each plan begins, and lower bounds of its costs.
    widest, free
        Shape (n,): processors of the widest task, and the most that are ever free.
    latency, bandwidth
        Shape (n,), of transfers between sites.
    scheduler, cross
        As in `Instance`.
    release
        Whether a plan pays only for the slots that its tasks use.
    alpha
        The trade-off: 0 the makespan alone, 1 the cost alone.
    """

    handles: IntArray
    size: IntArray
    memory: IntArray
    now: FloatArray
    cost_bound: FloatArray
    makespan_bound: FloatArray
    widest: FloatArray
    free: FloatArray
    latency: FloatArray
    bandwidth: FloatArray
    scheduler: int
    cross: int
    release: bool
    alpha: float


class _Choices(NamedTuple):
    """The state of the environments, and the result of their last step.

    Attributes
    ----------
    problem, slot
        Shape (count,): the problem of each, and the slot to be decided.
    kept, decided
        Shape (count, slots): slots not dropped; slots kept or dropped for good.
    paid, used, until
        Shape (count, slots): of the present plan, the price it pays for each slot, the processor-seconds that
        tasks use of it, and the end of the last task in it.
    costs
        Shape (count, 2): cost and makespan of the present plan.
    rows, rewards, over
        Shapes (count, 16), (count,) and (count,): features, rewards, and ends of episodes.
    """

    problem: IntArray
    slot: IntArray
    kept: BoolArray
    decided: BoolArray
    paid: FloatArray
    used: FloatArray
    until: FloatArray
    costs: FloatArray
    rows: Float32Array
    rewards: FloatArray
    over: BoolArray


@kernel()
def _plan(pool, state, index):
    """Plan with the slots kept; return whether there is a plan, whose costs and slots are then written."""
    problem = state.problem[index]
    handles, size, now = pool.handles[problem], pool.size[problem], pool.now[problem]
    rules = (pool.scheduler, pool.cross, now, pool.latency[problem], pool.bandwidth[problem])
    instance = Instance(handles, size[0], size[1], size[2], *rules)
    work, columns, last = make_plan(instance, pool.memory, state.kept[index])
    if last == INFINITE:
        return False
    cost = 0.0
    for slot in range(work.slots):
        state.used[index, slot], state.until[index, slot] = work.used[slot], work.until[slot]
        taken = state.kept[index, slot] and (work.taken[slot] == 1 or not pool.release)
        state.paid[index, slot] = payment(work, columns, slot) if taken else 0.0
        cost += state.paid[index, slot]
    state.costs[index, 0], state.costs[index, 1] = cost, last - now
    return True


@kernel()
def _clipped(value):
    return min(_BOUND, max(-_BOUND, value))


@kernel()
def _write_others(pool, state, columns, index):
    """Write the features of the slots beside the one to be decided."""
    problem, slot, row = state.problem[index], state.slot[index], state.rows[index]
    slots, widest = pool.size[problem, 1], pool.widest[problem]
    start, end = columns.start[slot], columns.offered[slot]
    beside, wide, later, left = 0.0, 0.0, math.inf, 0
    for other in range(slots):
        left += not state.decided[index, other]
        if other == slot or not state.kept[index, other]:
            continue
        if columns.start[other] < end and start < columns.offered[other]:
            beside += columns.processors[other]
            if columns.processors[other] >= widest:
                wide = 1.0
        if (
            columns.divisible[other] == 1
            and columns.start[other] >= start
            and columns.processors[other] >= columns.processors[slot]
        ):
            later = min(later, columns.start[other] - start)
    row[11] = _clipped(widest / pool.free[problem])
    row[12] = _clipped(beside / pool.free[problem])
    row[13] = wide
    row[14] = _clipped(later / pool.makespan_bound[problem])
    row[15] = left / slots


@kernel()
def _observe(pool, state, index):
    """Find the next slot to be decided, the first one that the plan pays for, and write its features."""
    problem = state.problem[index]
    slots, columns = pool.size[problem, 1], columns_at(SlotColumns, (), pool.handles[problem], _GRAPH)
    slot = 0
    while slot < slots and (state.decided[index, slot] or state.paid[index, slot] == 0.0):
        slot += 1
    state.slot[index], state.over[index] = slot, slot == slots
    row = state.rows[index]
    row[:] = 0.0
    if slot == slots:
        return
    now, least, shortest = pool.now[problem], pool.cost_bound[problem], pool.makespan_bound[problem]
    cost, makespan = state.costs[index]
    start, until, paid = columns.start[slot], state.until[index, slot], state.paid[index, slot]
    row[0] = _clipped((start - now) / shortest)
    row[1] = _clipped((columns.offered[slot] - start) / shortest)
    row[2] = _clipped(columns.processors[slot] / pool.free[problem])
    row[3] = columns.divisible[slot]
    row[4] = 1.0 if columns.end[slot] == math.inf else 0.0
    row[5] = _clipped(paid / least)
    row[6] = _clipped(state.used[index, slot] / paid) if paid > 0 else 0.0
    row[7] = _clipped((until - now) / makespan) if until > now else 0.0
    row[8] = 1.0 if until == now + makespan else 0.0
    row[9] = _clipped(cost / least - 1.0)
    row[10] = _clipped(makespan / shortest - 1.0)
    _write_others(pool, state, columns, index)


@kernel()
def _step(pool, state, actions, begins, drawn):
    """Begin episodes where `begins` is true; elsewhere keep (1) or drop (0) the slot to be decided."""
    for index in range(len(actions)):
        state.rewards[index] = 0.0
        if begins[index]:
            problem = drawn[index]
            state.problem[index] = problem
            state.kept[index] = np.arange(state.kept.shape[1]) < pool.size[problem, 1]
            state.decided[index] = False
            _plan(pool, state, index)
        elif not state.over[index]:
            slot, problem = state.slot[index], state.problem[index]
            state.decided[index, slot] = True
            if actions[index] == 0:
                cost, makespan = state.costs[index, 0], state.costs[index, 1]
                state.kept[index, slot] = False
                if _plan(pool, state, index):
                    cheaper = (cost - state.costs[index, 0]) / pool.cost_bound[problem]
                    sooner = (makespan - state.costs[index, 1]) / pool.makespan_bound[problem]
                    state.rewards[index] = pool.alpha * cheaper + (1.0 - pool.alpha) * sooner
                else:
                    state.kept[index, slot] = True
        _observe(pool, state, index)


def _facts(problem: PlanProblem) -> tuple[float, ...]:
    workflow, slots = problem.workflow, problem.slots
    makespan = makespan_bound(workflow, slots, now=problem.now)
    free = slots.most_at_once(together=True)
    # A bound of 0 (nothing takes time, nothing has a price) would divide.
    bounds = (max(cost_bound(workflow, slots), 1.0), max(makespan, 1.0))
    widths = (float(workflow.widest), float(free.max()))
    return (problem.now, *bounds, *widths, float(problem.latency), float(problem.bandwidth))


#: The submissions of `make` without options: a bundled log.
_DEFAULT: dict[str, Any] = {"trace": "quickstart"}


@lru_cache(maxsize=4)
def _problems(instances: int, seed: int, options: str) -> list[PlanProblem]:
    parameters = ProvisioningParameters.model_validate_json(options)
    log = None if parameters.trace is None else parameters.reference.read()
    return parameters.draw_problems(log, instances, seed)


class ProvisioningEnv(CompiledEnv):
    """A workflow and slots, of which the agent keeps or drops one after the other.

    An episode begins with the plan of all slots. In each step the agent sees the first slot that the plan
    pays for and that it has not decided on, and takes an action: 1 keeps the slot, 0 drops it, and the
    workflow is planned again on the slots left. A slot without which there is no plan stays. The episode is
    over (`terminated`) when no slot is left to decide on.

    Observation: 16 numbers, named in `gridtune.systems.provisioning.environment.FEATURES`. Reward:
    what a drop lowers α · cost / bound + (1 − α) · makespan / bound by, with the lower bounds of the
    problem. So the return of an episode is what the plan at its end is better by than that of all slots.
    (The paper normalises both costs over the front of a search, which an agent has not got.)

    Parameters
    ----------
    problems
        What episodes are drawn from; by default `instances` problems of the options.
    instances, instances_seed
        How many problems are drawn at first, and with which seed.
    alpha
        α of the reward.
    release
        Whether slots that no task uses are released.
    options
        The parameters of the `provisioning` system that say what is submitted to what, by its names:
        `trace`, `workflow`, `earliest`, … By default a bundled log and `cross_slot="always"`.

    Examples
    --------
    `reset(options={"instance": 3})` begins with the problem of that number, and `reset()` with a random one.
    """

    def __init__(
        self,
        problems: Sequence[PlanProblem] | None = None,
        *,
        instances: int = 64,
        instances_seed: int = 0,
        alpha: float = 0.5,
        release: bool = True,
        **options: Any,
    ) -> None:
        draws: dict[str, Any] = {"instances": instances, "instances_seed": instances_seed}
        self._choices = ProvisioningVectorEnv(1, problems, **draws, alpha=alpha, release=release, **options)
        super().__init__(self._choices)

    def plan(self) -> Plan:
        """Return the present plan, without the slots that are released."""
        vector = self._choices
        problem = vector._problems[int(vector._state.problem[0])]
        kept = vector._state.kept[0, : len(problem)]
        return problem.plan(problem.evaluate_released(kept).used[0] if vector._release else kept)


class ProvisioningVectorEnv(CompiledVectorEnv):
    """Many choices stepped in one compiled call; trajectories equal those of single environments.

    Parameters
    ----------
    num_envs
        Number of environments.
    problems, instances, instances_seed, alpha, release, options
        See `ProvisioningEnv`. Problems have equal scheduler and rules, and each a plan that takes all slots.
    copy
        Return copies. False returns the environment's own memory, which the next step overwrites.
    """

    episode = "instance"

    def __init__(
        self,
        num_envs: int = 1,
        problems: Sequence[PlanProblem] | None = None,
        *,
        instances: int = 64,
        instances_seed: int = 0,
        alpha: float = 0.5,
        release: bool = True,
        copy: bool = True,
        **options: Any,
    ) -> None:
        if problems is None:
            given = options if "offers" in options or "trace" in options else {**_DEFAULT, **options}
            parameters = environment_parameters(get_system("provisioning"), {"cross_slot": "always", **given})
            problems = _problems(instances, instances_seed, parameters.model_dump_json())
        elif options:
            raise SimulationError(f"{', '.join(options)} beside problems", field=next(iter(options)))
        if not problems:
            raise SimulationError("there is no problem to choose slots for", field="instances")
        if not 0 <= alpha <= 1:
            raise SimulationError(
                f"the trade-off factor lies between 0 and 1, but got {alpha}", field="alpha"
            )
        if len({(problem.scheduler, problem.cross_slot) for problem in problems}) > 1:
            raise SimulationError("problems differ in scheduler or cross_slot", field="scheduler")
        self._problems, self._alpha, self._release = list(problems), float(alpha), release
        most = max(len(problem) for problem in problems)
        kept, decided = np.zeros((2, num_envs, most), np.bool_)
        paid, used, until = np.zeros((3, num_envs, most))
        problem, slot = np.zeros((2, num_envs), np.int64)
        rows, rewards = np.zeros((num_envs, len(FEATURES)), np.float32), np.zeros(num_envs)
        columns = (problem, slot, kept, decided, paid, used, until, np.zeros((num_envs, 2)), rows, rewards)
        self._state = _Choices(*columns, np.zeros(num_envs, np.bool_))
        self._pool: _DrawnProblems | None = None
        observations = gym.spaces.Box(-_BOUND, _BOUND, (len(FEATURES),), np.float32)
        super().__init__(num_envs, (observations, gym.spaces.Discrete(2)), copy=copy)

    @property
    def costs(self) -> FloatArray:
        """Shape (num_envs, 2): cost and makespan of the present plans."""
        return self._state.costs.copy()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}  # a copy's arrays are elsewhere

    def _drawn_problems(self) -> _DrawnProblems:
        """Return the problems as the kernels take them; with memory for their plans."""
        if self._pool is None:
            instances = [problem.instance() for problem in self._problems]
            handles = np.array([instance.handles for instance in instances])
            sizes = np.array([problem.size for problem in self._problems], np.int64)
            self._memory, place = new_workspace(sizes.max(axis=0).tolist())
            facts: list[Any] = [*np.array([_facts(problem) for problem in self._problems]).T.copy()]
            facts += [instances[0].scheduler, instances[0].cross, self._release, self._alpha]
            self._pool = _DrawnProblems(handles, sizes[:, :3].copy(), place, *facts)
        return self._pool

    def _draw(self, where: BoolArray) -> None:
        self._draw_numbers(where, len(self._problems))

    def _restart(self) -> None:
        self._advance(np.ones(self.num_envs, np.int64), self._everywhere)

    def _advance(self, actions: npt.ArrayLike, begins: BoolArray | None) -> dict[str, Any]:
        begins = self._never if begins is None else begins
        chosen = np.ascontiguousarray(actions, np.int64)
        _step(self._drawn_problems(), self._state, chosen, begins, self._numbers)
        return {}

    def _results(self) -> tuple[FloatArray, BoolArray]:
        return self._state.rewards, self._state.over

    def _observe(self) -> Float32Array:
        rows = self._state.rows
        return rows.copy() if self._copy else rows
