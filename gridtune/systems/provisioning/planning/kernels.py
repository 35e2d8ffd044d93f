"""The compiled entry points: one plan in full, and populations of plans in one or more threads."""

from __future__ import annotations

from numba import prange

from gridtune.core.compiled import kernel
from gridtune.systems.provisioning.planning.schedulers import allocation_cost, schedule
from gridtune.systems.provisioning.planning.state import (
    INFINITE,
    PIECES,
    bare_graph,
    bare_slots,
    open_slots,
    workspace_at,
)

__all__ = ["evaluate_plans", "evaluate_plans_threaded", "write_plan"]


@kernel()
def write_plan(graph, slots, size, whole, real, rules, now, plan, outcome):
    """Make one plan; return its pieces, its allocation cost, and the end of the last task.

    Cost and end are infinite if the plan is infeasible.

    Parameters
    ----------
    graph, slots
        The workflow and the slots.
    size
        A `Size`.
    whole, real
        Shapes (1, …), int64 and float64: memory of `workspace_size`.
    rules
        The scheduler, and when slots may be combined.
    now
        No task starts before that second.
    plan
        Shape (slots,), bool: the slots that may be used.
    outcome
        Filled in.
    """
    work, columns = workspace_at(size, whole[0], real[0]), bare_slots(slots)
    open_slots(work, columns, plan)
    last = schedule(work, bare_graph(graph), columns, rules[0], rules[1], now)
    if last == INFINITE:
        return 0, INFINITE, INFINITE
    for task in range(work.tasks):
        outcome.site[task], outcome.start[task] = work.at[task], work.start[task]
        outcome.finish[task], outcome.first[task] = work.finish[task], work.piece_first[task]
    pieces = work.counters[PIECES]
    for piece in range(pieces):
        outcome.slot[piece] = work.piece_slot[piece]
        outcome.processors[piece] = work.piece_processors[piece]
    return pieces, allocation_cost(work, columns, plan), last


@kernel()
def _evaluate(graph, slots, size, whole, real, rules, now, population, begin, end, release, costs, used):
    work, columns, tasks = workspace_at(size, whole, real), bare_slots(slots), bare_graph(graph)
    for index in range(begin, end):
        plan = population[index]
        open_slots(work, columns, plan)
        last = schedule(work, tasks, columns, rules[0], rules[1], now)
        costs[index, 0], costs[index, 1] = INFINITE, INFINITE
        for slot in range(work.slots):
            used[index, slot] = last < INFINITE and work.taken[slot] == 1
        if last < INFINITE:
            costs[index, 0] = allocation_cost(work, columns, used[index] if release else plan)
            costs[index, 1] = last - now


@kernel(nogil=True)
def evaluate_plans(graph, slots, size, whole, real, rules, now, population, release, costs, used):
    """Evaluate plans in one thread.

    Parameters
    ----------
    graph, slots, size, whole, real, rules, now
        As in `write_plan`.
    population
        Shape (plans, slots), bool.
    release
        Whether a plan releases the slots that none of its tasks uses, and pays for the others only.
    costs
        Shape (plans, 2), float64, filled in: allocation cost and makespan; infinite if infeasible.
    used
        Shape (plans, slots), bool, filled in: slots that tasks use.
    """
    plans = len(population)
    row, line = whole[0], real[0]
    _evaluate(graph, slots, size, row, line, rules, now, population, 0, plans, release, costs, used)


@kernel(parallel=True)
def evaluate_plans_threaded(graph, slots, size, whole, real, rules, now, population, release, costs, used):
    """Evaluate plans in as many parts as `whole` and `real` have rows; the results are the same."""
    plans, parts = len(population), len(whole)
    for part in prange(parts):
        begin, end = part * plans // parts, (part + 1) * plans // parts
        row, line = whole[part], real[part]
        _evaluate(graph, slots, size, row, line, rules, now, population, begin, end, release, costs, used)
