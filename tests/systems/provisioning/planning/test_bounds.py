"""Lower bounds: by hand, against the best of all schedules, and below every plan."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given

from gridtune.systems.provisioning.planning.bounds import cost_bound, makespan_bound
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.workload.workflows import Workflow
from tests.conftest import examples
from tests.systems.provisioning.planning.twins import problems


def tasks(run, width, edges=()):
    """Return a workflow of tasks with run times, processors and (parent, child) edges."""
    names = tuple(f"t{i}" for i in range(len(run)))
    parent, child = [a for a, _ in edges], [b for _, b in edges]
    return Workflow(names, np.array(run, float), width, parent, child)


def least_makespan(workflow: Workflow, slots: Slots, most: int = 16) -> float:
    """Return the least makespan of all schedules in whole seconds on one site; infinite without one."""
    free = np.zeros(most, int)
    for start, end, width in zip(slots.start, slots.end, slots.processors, strict=True):
        free[start:end] += width
    order, run = workflow.order, workflow.run_time.astype(int)
    parents = [workflow.parents.task[a:b] for a, b in itertools.pairwise(workflow.parents.offsets)]
    best = math.inf

    def place(position: int, finish: dict[int, int]) -> None:
        nonlocal best
        if position == len(order):
            best = min(best, max(finish.values()))
            return
        task = order[position]
        begin = max((finish[parent] for parent in parents[task]), default=0)
        for start in range(begin, most - run[task] + 1):
            held = slice(start, start + run[task])
            if start + run[task] >= best:
                break
            if (free[held] >= workflow.processors[task]).all():
                free[held] -= workflow.processors[task]
                place(position + 1, {**finish, task: start + run[task]})
                free[held] += workflow.processors[task]

    place(0, {})
    return best


def test_a_chain_waits_for_the_first_room():
    """Three processors are free from 5 on; the first task needs them, and the second one follows."""
    slots = Slots.of([0, 5], [20, 15], [1, 2])
    assert makespan_bound(tasks([2, 4], [3, 1], [(0, 1)]), slots) == 11


def test_area_on_what_is_free():
    """Eight processor-seconds: one each second until 2, two from then on."""
    slots = Slots.of([0, 2], [10, 8], [1, 1])
    assert makespan_bound(tasks([1] * 8, [1] * 8), slots) == 5


def test_wide_tasks_run_one_after_the_other():
    """Two tasks of three processors on five: the area says 6, but they cannot overlap."""
    slots = Slots.of(0, 100, 5)
    assert makespan_bound(tasks([5, 5], [3, 3]), slots) == 10
    # A task before all of them and one after each add to it.
    chain = tasks([2, 5, 5, 1, 1], [1, 3, 3, 1, 1], [(0, 1), (0, 2), (1, 3), (2, 4)])
    assert makespan_bound(chain, slots) == 13


def test_nothing_starts_before_now_and_nothing_ends_after_the_last_slot():
    slots = Slots.of(0, 10, 2)
    assert makespan_bound(tasks([4], [1]), slots, now=3) == 4
    assert makespan_bound(tasks([4], [1]), slots, now=7) == math.inf
    assert makespan_bound(tasks([6, 6, 6, 6], [1] * 4), slots) == math.inf
    extensible = Slots.of(0, 10, 2, extensible=True)
    assert makespan_bound(tasks([6, 6, 6, 6, 6], [1] * 5), extensible) == 15


def test_the_cheapest_processors_bound_the_cost():
    slots = Slots.of([0, 0], [100, 100], [4, 4], site=[0, 1], price=[1.0, 0.5])
    assert cost_bound(tasks([10, 4], [2, 1]), slots) == 12
    by_site = Workflow(("a",), np.array([[10.0, 30.0]]), [1])
    assert cost_bound(by_site, slots) == 10


def small_case(seed: int) -> tuple[Workflow, Slots]:
    """Return up to four tasks and up to four slots."""
    rng = np.random.default_rng(seed)
    count, n = rng.integers(1, 5), rng.integers(1, 5)
    start = rng.integers(0, 6, count)
    slots = Slots.of(start, 16 - start - rng.integers(0, 6, count) % (16 - start), rng.integers(1, 4, count))
    edges = [(a, b) for b in range(n) for a in range(b) if rng.random() < 0.3]
    return tasks(rng.integers(1, 4, n), rng.integers(1, 5, n), edges), slots


def test_no_schedule_is_shorter_and_most_bounds_are_reached():
    """Against all schedules in whole seconds; a bound of 0 would hold too, but would never be reached."""
    ratios = []
    for seed in range(60):
        workflow, slots = small_case(seed)
        least, bound = least_makespan(workflow, slots), makespan_bound(workflow, slots)
        assert bound <= least, seed
        ratios += [least / bound] if math.isfinite(least) else []
    assert len(ratios) > 15
    assert np.mean(np.array(ratios) == 1) > 0.7
    assert max(ratios) < 1.6


@given(problems())
@examples(100)
def test_no_plan_is_below_the_bounds(case):
    """Of any scheduler, on several sites, with transfers, and with slots that can be extended."""
    problem, plans = case
    bound = makespan_bound(problem.workflow, problem.slots, now=problem.now)
    costs = problem.evaluate(plans)
    assert bound <= costs[:, 1].min() + 1e-9
    assert cost_bound(problem.workflow, problem.slots) <= costs[:, 0].min() + 1e-9
