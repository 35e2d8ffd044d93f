"""Many choices of slots side by side, each stepped by one decision in one compiled call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridtune.core.compiled import array_at, bare, handles_of, kernel
from gridtune.errors import SimulationError
from gridtune.systems.provisioning.planning.bounds import cost_bound, makespan_bound
from gridtune.systems.provisioning.planning.placement import (
    INFINITE,
    Graph,
    SlotColumns,
    open_slots,
    workspace_at,
    workspace_size,
)
from gridtune.systems.provisioning.planning.problem import PlanProblem, most_at_once
from gridtune.systems.provisioning.planning.schedulers import allocation_cost, schedule
from gridtune.types import BoolArray, Float32Array, FloatArray, IntArray

__all__ = ["BOUND", "FEATURES", "ChoiceBatch", "Observed", "write_features"]

#: Features are clipped to ± this.
BOUND = 10.0
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


@kernel()
def write_features(row, columns, slots, slot, kept, decided, plan, bounds, widest, most):
    """Fill in the features of a slot.

    Parameters
    ----------
    row
        Shape (16,), float32, filled in.
    columns
        A `SlotColumns`, bare.
    slots, slot
        The number of slots, and the slot.
    kept, decided
        Shape (slots,), bool: slots not dropped so far; slots of which it is known whether they are.
    plan
        Of the present plan: what it pays for the slot and what tasks use of it (processor-seconds), the end
        of the last task in it (seconds), cost, makespan, and now.
    bounds
        Of cost and makespan.
    widest, most
        Processors of the widest task, and the most that are ever free.
    """
    paid, used, until, cost, makespan, now = plan
    least, shortest = bounds
    start, end = columns.start[slot], columns.offered[slot]
    beside, wide, later, left = 0.0, 0.0, math.inf, 0
    for other in range(slots):
        left += not decided[other]
        if other == slot or not kept[other]:
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
    row[0] = _clipped((start - now) / shortest)
    row[1] = _clipped((end - start) / shortest)
    row[2] = _clipped(columns.processors[slot] / most)
    row[3] = columns.divisible[slot]
    row[4] = 1.0 if columns.end[slot] == math.inf else 0.0
    row[5] = _clipped(paid / least)
    row[6] = _clipped(used / paid) if paid > 0 else 0.0
    row[7] = _clipped((until - now) / makespan) if until > now else 0.0
    row[8] = 1.0 if until == now + makespan else 0.0
    row[9] = _clipped(cost / least - 1.0)
    row[10] = _clipped(makespan / shortest - 1.0)
    row[11] = _clipped(widest / most)
    row[12] = _clipped(beside / most)
    row[13] = wide
    row[14] = _clipped(later / shortest)
    row[15] = left / slots


@kernel()
def _clipped(value):
    return min(BOUND, max(-BOUND, value))


class Pool(NamedTuple):
    """The problems that episodes are drawn from, n of them.

    Attributes
    ----------
    handles
        Shape (n, arrays · 2): the arrays of each problem's `Graph` and `SlotColumns`.
    size
        Shape (n, 5): each problem's `Size`.
    facts
        Shape (n, 5): now; bounds of cost and makespan; the widest task; the most processors ever free.
    """

    handles: IntArray
    size: IntArray
    facts: FloatArray


class Choices(NamedTuple):
    """The state of the environments.

    Attributes
    ----------
    problem, slot
        Shape (count,): the problem of each, and the slot to be decided.
    kept, decided
        Shape (count, slots): slots not dropped; slots kept or dropped for good.
    paid, used, until
        Shape (count, slots): of the present plan, what it pays for each slot, the processor-seconds that
        tasks use of it, and the end of the last task in it.
    costs
        Shape (count, 2): cost and makespan of the present plan.
    """

    problem: IntArray
    slot: IntArray
    kept: BoolArray
    decided: BoolArray
    paid: FloatArray
    used: FloatArray
    until: FloatArray
    costs: FloatArray


class Observed(NamedTuple):
    """The result of a step: rows of features, shape (count, 16); rewards and ends of episodes, (count,)."""

    rows: Float32Array
    rewards: FloatArray
    over: BoolArray


@kernel()
def _graph(handles):
    return Graph(
        bare(array_at(handles, 0, np.int64)),
        bare(array_at(handles, 1, np.float64)),
        bare(array_at(handles, 2, np.int64)),
        bare(array_at(handles, 3, np.int64)),
        bare(array_at(handles, 4, np.float64)),
        bare(array_at(handles, 5, np.int64)),
        bare(array_at(handles, 6, np.int64)),
        bare(array_at(handles, 7, np.int64)),
        bare(array_at(handles, 8, np.float64)),
        bare(array_at(handles, 9, np.float64)),
    )


@kernel()
def _columns(handles):
    return SlotColumns(
        bare(array_at(handles, 10, np.int64)),
        bare(array_at(handles, 11, np.int64)),
        bare(array_at(handles, 12, np.float64)),
        bare(array_at(handles, 13, np.float64)),
        bare(array_at(handles, 14, np.float64)),
        bare(array_at(handles, 15, np.float64)),
        bare(array_at(handles, 16, np.float64)),
        bare(array_at(handles, 17, np.int64)),
        bare(array_at(handles, 18, np.int64)),
    )


@kernel()
def _plan(pool, state, rules, release, whole, real, taken, index):
    """Plan with the slots kept; return whether there is a plan, whose costs and slots are then written."""
    problem = state.problem[index]
    size, columns = pool.size[problem], _columns(pool.handles[problem])
    work = workspace_at((size[0], size[1], size[2], size[3], size[4]), whole, real)
    open_slots(work, columns, state.kept[index])
    now = pool.facts[problem, 0]
    last = schedule(work, _graph(pool.handles[problem]), columns, rules[0], rules[1], now)
    if last == INFINITE:
        return False
    for slot in range(work.slots):
        taken[slot] = state.kept[index, slot] and (work.taken[slot] == 1 or not release)
    state.costs[index, 0] = allocation_cost(work, columns, taken)
    state.costs[index, 1] = last - now
    for slot in range(work.slots):
        state.used[index, slot], state.until[index, slot] = work.used[slot], work.until[slot]
        paid = 0.0
        if taken[slot]:
            if columns.divisible[slot] == 1:
                paid = work.used[slot] * columns.price[slot] + columns.fixed[slot] * work.taken[slot]
            else:
                seconds = max(work.until[slot], columns.offered[slot]) - columns.start[slot]
                paid = columns.processors[slot] * seconds * columns.price[slot] + columns.fixed[slot]
        state.paid[index, slot] = paid
    return True


@kernel()
def _go_on(pool, state, seen, index):
    """Find the next slot to be decided, the first one that the plan pays for, and write what is seen."""
    problem = state.problem[index]
    slots, columns = pool.size[problem, 1], _columns(pool.handles[problem])
    slot = 0
    while slot < slots and (state.decided[index, slot] or state.paid[index, slot] == 0.0):
        slot += 1
    state.slot[index], seen.over[index] = slot, slot == slots
    seen.rows[index] = 0.0
    if slot == slots:
        return
    facts = pool.facts[problem]
    used, until = state.used[index, slot], state.until[index, slot]
    plan = (state.paid[index, slot], used, until, state.costs[index, 0], state.costs[index, 1], facts[0])
    kept, decided = state.kept[index], state.decided[index]
    bounds = (facts[1], facts[2])
    write_features(seen.rows[index], columns, slots, slot, kept, decided, plan, bounds, facts[3], facts[4])


@kernel()
def _step(pool, state, rules, release, alpha, whole, real, taken, actions, begins, drawn, seen):
    """Begin episodes where `begins` is true; elsewhere keep (1) or drop (0) the slot to be decided."""
    for index in range(len(actions)):
        seen.rewards[index] = 0.0
        if begins[index]:
            problem = drawn[index]
            state.problem[index] = problem
            state.kept[index] = np.arange(state.kept.shape[1]) < pool.size[problem, 1]
            state.decided[index] = False
            _plan(pool, state, rules, release, whole, real, taken, index)
        elif not seen.over[index]:
            slot = state.slot[index]
            state.decided[index, slot] = True
            if actions[index] == 0:
                cost, makespan = state.costs[index, 0], state.costs[index, 1]
                state.kept[index, slot] = False
                if _plan(pool, state, rules, release, whole, real, taken, index):
                    facts = pool.facts[state.problem[index]]
                    cheaper = (cost - state.costs[index, 0]) / facts[1]
                    sooner = (makespan - state.costs[index, 1]) / facts[2]
                    seen.rewards[index] = alpha * cheaper + (1.0 - alpha) * sooner
                else:
                    state.kept[index, slot] = True
        _go_on(pool, state, seen, index)


class ChoiceBatch:
    """Environments that each go through the slots of a problem.

    An episode begins with all slots. The agent is asked about the first slot, by start, that the present plan
    pays for and that it was not asked about before: keep it or drop it? Where it is dropped, the workflow is
    planned again; a slot without which there is no plan stays. The episode is over once the plan pays for no
    other slot. The reward of a drop is what it lowers α · cost / bound + (1 − α) · makespan / bound by.

    Parameters
    ----------
    problems
        What episodes are drawn from, with equal scheduler and rules; each has a plan that takes all slots.
    count
        The number of environments.
    alpha
        The trade-off: 0 the makespan alone, 1 the cost alone.
    release
        Whether a plan pays only for the slots that its tasks use.

    Raises
    ------
    SimulationError
        If there is no problem, α is not in [0, 1], or the problems differ in their rules.
    """

    def __init__(
        self, problems: Sequence[PlanProblem], count: int = 1, *, alpha: float = 0.5, release: bool = True
    ) -> None:
        if not problems:
            raise SimulationError("there is no problem to choose slots for", field="instances")
        if not 0 <= alpha <= 1:
            raise SimulationError(
                f"the trade-off factor lies between 0 and 1, but got {alpha}", field="alpha"
            )
        if len({problem.rules for problem in problems}) > 1:
            raise SimulationError("problems differ in scheduler or cross_slot", field="scheduler")
        self.problems, self.alpha, self.release = list(problems), alpha, release
        most = max(len(problem) for problem in problems)
        kept, decided = np.zeros((2, count, most), np.bool_)
        paid, used, until = np.zeros((3, count, most))
        problem, slot = np.zeros((2, count), np.int64)
        self.state = Choices(problem, slot, kept, decided, paid, used, until, np.zeros((count, 2)))
        rows = np.zeros((count, len(FEATURES)), np.float32)
        self.observed = Observed(rows, np.zeros(count), np.zeros(count, np.bool_))
        self._facts = np.array([_facts(problem) for problem in problems])
        whole, real = np.max([workspace_size(problem.size) for problem in problems], axis=0)
        self._memory = np.empty(whole, np.int64), np.empty(real)
        self._taken = np.zeros(most, np.bool_)
        self._find_arrays()

    def _find_arrays(self) -> None:
        handles = [handles_of((*problem.graph, *problem.columns)) for problem in self.problems]
        size = np.array([problem.size for problem in self.problems], np.int64)
        self._pool = Pool(np.array(handles), size, self._facts)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._find_arrays()  # a copy's arrays are elsewhere

    def step(self, actions: IntArray, begins: BoolArray, drawn: IntArray) -> None:
        """Take one decision in each environment, or begin an episode.

        Parameters
        ----------
        actions
            Shape (count,): 1 keeps the slot, 0 drops it.
        begins
            Shape (count,), bool: where an episode begins instead.
        drawn
            Shape (count,): the problems of these episodes.
        """
        rules, release, alpha = self.problems[0].rules, self.release, float(self.alpha)
        settings = (rules, release, alpha, *self._memory, self._taken)
        _step(self._pool, self.state, *settings, actions, begins, drawn, self.observed)


def _facts(problem: PlanProblem) -> tuple[float, ...]:
    workflow, slots = problem.workflow, problem.slots
    makespan = makespan_bound(workflow, slots, extend=problem.extend, now=problem.now)
    free = most_at_once(slots, extend=problem.extend, together=True)
    # A bound of 0 (nothing takes time, nothing has a price) would divide.
    bounds = (max(cost_bound(workflow, slots), 1.0), max(makespan, 1.0))
    return (problem.now, *bounds, float(workflow.widest), float(max(free.values())))
