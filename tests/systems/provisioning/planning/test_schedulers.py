"""Schedules that were published, and schedules drawn by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.workload.workflows import Workflow
from gridtune.workload.workflows.workflow import cybershake_workflow
from tests.systems.provisioning.planning.twins import plan

#: Topcuoglu, Hariri, Wu 2002, figure 2 and table 2: seconds on each processor, and what edges send.
TEN_TASKS = [
    *([14, 16, 9], [13, 19, 18], [11, 13, 19], [13, 8, 17], [12, 13, 10]),
    *([13, 16, 9], [7, 15, 11], [5, 11, 14], [18, 12, 20], [21, 7, 16]),
]
TEN_EDGES = [
    *((1, 2, 18), (1, 3, 12), (1, 4, 9), (1, 5, 11), (1, 6, 14), (2, 8, 19), (2, 9, 16), (3, 7, 23)),
    *((4, 8, 27), (4, 9, 23), (5, 9, 13), (6, 8, 15), (7, 10, 17), (8, 10, 11), (9, 10, 13)),
]


def workflow_of(run: list, edges: list, processors: list[int] | None = None) -> Workflow:
    names = tuple(f"n{i + 1}" for i in range(len(run)))
    parent, child, volume = (
        (np.array(column) for column in zip(*edges, strict=True)) if edges else ([], [], [])
    )
    width = np.ones(len(run), int) if processors is None else np.array(processors)
    less = np.asarray(parent, int) - 1, np.asarray(child, int) - 1
    return Workflow(names, np.array(run, float), width, *less, np.asarray(volume, float))


def single_processors(count: int) -> Slots:
    """Return a slot of one processor for each of so many sites: the machines of the HEFT literature."""
    return Slots.of([0] * count, 10**6, 1, site=range(count))


def test_heft_ends_the_ten_tasks_when_its_authors_say() -> None:
    workflow = workflow_of(TEN_TASKS, TEN_EDGES)
    planned = plan(workflow, single_processors(3), bandwidth=1.0)
    assert planned.makespan == 80
    # Figure 3a there: where each task runs (P3 P1 P3 P2 P3 P2 P3 P1 P2 P2), and when.
    assert (planned.site + 1).tolist() == [3, 1, 3, 2, 3, 2, 3, 1, 2, 2]
    assert planned.start.tolist() == [0, 27, 9, 18, 28, 26, 38, 57, 56, 73]
    assert planned.finish.tolist() == [9, 40, 28, 26, 38, 42, 49, 62, 68, 80]


def test_four_tasks_by_hand() -> None:
    """A diamond on two machines. Ranks: a 16, c 10.5, b 8.5, d 2.5, so c goes before b.

    a ends at 3 on the first machine; c follows it there, until 7; b could follow until 12, but on the second,
    4 s of sending later, it ends at 10; d waits there for c's 3 s of sending, until 10, and ends at 13.
    """
    run = [[3, 4], [5, 3], [4, 6], [2, 3]]
    workflow = workflow_of(run, [(1, 2, 4), (1, 3, 1), (2, 4, 2), (3, 4, 3)])
    planned = plan(workflow, single_processors(2), bandwidth=1.0)
    assert planned.site.tolist() == [0, 1, 0, 1]
    assert planned.start.tolist() == [0, 7, 3, 10]
    assert planned.makespan == 13


def test_latency_counts_once_for_each_transfer_between_sites() -> None:
    workflow = workflow_of([[2, 9], [9, 2]], [(1, 2, 10)])
    planned = plan(workflow, single_processors(2), latency=1.5, bandwidth=4)
    assert planned.start.tolist() == [0, 2 + 1.5 + 10 / 4]


@pytest.mark.parametrize(
    ("scheduler", "start"), [("min-min", [0, 1, 3, 6]), ("max-min", [10, 8, 5, 0]), ("heft", [10, 8, 5, 0])]
)
def test_who_goes_first_on_one_processor(scheduler: str, start: list[int]) -> None:
    """Independent tasks of 1, 2, 3 and 5 s: shortest first, or longest first."""
    assert plan(workflow_of([1, 2, 3, 5], []), single_processors(1), scheduler).start.tolist() == start


def test_greedy_minds_only_what_lengthens_the_whole() -> None:
    """The second task ends before the first in either slot, so it goes to the one that ends first."""
    workflow = workflow_of([10, 1], [])
    slots = Slots.of([0, 5], [100, 20], 1)
    greedy, heft = plan(workflow, slots, "greedy"), plan(workflow, slots, "heft")
    assert (heft.start.tolist(), heft.piece_slot.tolist()) == ([0, 5], [0, 1])
    assert (greedy.start.tolist(), greedy.piece_slot.tolist()) == ([0, 5], [0, 1])
    wide = Slots.of([0, 5], [100, 20], [2, 1])
    assert plan(workflow, wide, "heft").start.tolist() == [0, 0]
    assert plan(workflow, wide, "greedy").start.tolist() == [0, 5]


def test_a_gap_is_filled() -> None:
    """n1 and n2 leave 3 s free between them on the only processor, and n3 fits into it."""
    workflow = workflow_of([[4, 99], [99, 6], [5, 99], [2, 99]], [(1, 2, 0), (2, 3, 0)])
    slots = Slots.of([0, 0], 100, 1, site=[0, 1])
    planned = plan(workflow, slots)
    assert planned.start.tolist() == [0, 4, 10, 4]


def test_slots_that_are_too_narrow_are_combined() -> None:
    """5 processors are free at once from 30 on, where 3 of one slot and 2 of another overlap."""
    workflow = workflow_of([10], [], [5])
    slots = Slots.of([0, 30, 60], [100, 50, 100], [3, 2, 5])
    together = plan(workflow, slots)
    assert together.start.tolist() == [30]
    # The slot that ends first is drawn on first.
    assert together.piece_slot.tolist() == [1, 0]
    assert together.piece_processors.tolist() == [2, 3]
    for cross_slot in ("narrow", "never"):  # one slot is wide enough, if later
        assert plan(workflow, slots, cross_slot=cross_slot).start.tolist() == [60]
    assert plan(workflow, Slots.of([0, 30], [100, 50], [3, 2]), cross_slot="narrow").start.tolist() == [30]


def test_slots_of_different_sites_are_not_combined() -> None:
    workflow = workflow_of([10], [], [4])
    slots = Slots.of([0, 0, 5], [100, 100, 100], [3, 3, 1], site=[0, 1, 0])
    assert plan(workflow, slots).start.tolist() == [5]


def test_only_extensible_slots_go_on() -> None:
    workflow = workflow_of([15, 15], [(1, 2, 0)])
    fixed = PlanProblem(workflow, Slots.of([0], 20, 1))
    assert np.isposinf(fixed.evaluate([[True]])).all()
    assert not fixed.plan().feasible
    longer = PlanProblem(workflow, Slots.of([0], 20, 1, extensible=True))
    assert longer.plan().makespan == 30


def test_what_is_paid() -> None:
    """Two tasks of 4 s on 2 processors, one after the other, in slots of 3 processors at 2 a second + 7."""
    workflow = workflow_of([4, 4], [(1, 2, 0)], [2, 2])

    def cost(**kind: bool | int) -> float:
        slots = Slots.of([0, 50], [kind.pop("duration", 10), 5], [3, 1], price=2.0, fixed=7.0, **kind)
        return PlanProblem(workflow, slots).evaluate([True, False])[0, 0]

    assert cost() == 3 * 10 * 2 + 7  # all of it
    assert cost(divisible=True) == (4 + 4) * 2 * 2 + 7  # what the tasks hold
    assert cost(extensible=True, duration=6) == 3 * 8 * 2 + 7  # up to the later end
    assert cost(extensible=True) == 3 * 10 * 2 + 7  # all that was offered
    assert cost(divisible=True, extensible=True, duration=6) == 16 * 2 + 7


def test_a_slot_that_nobody_uses_is_paid_unless_it_is_divisible_or_given_back() -> None:
    workflow = workflow_of([4], [])
    for divisible, paid in ((False, 10 + 20), (True, 10)):
        slots = Slots.of([0, 50], [10, 20], 1, divisible=[False, divisible])
        problem = PlanProblem(workflow, slots)
        assert problem.evaluate([True, True])[0].tolist() == [paid, 4]
        costs, used = problem.evaluate_released([[True, True]])
        assert costs[0].tolist() == [10, 4]
        assert used.tolist() == [[True, False]]


def test_nothing_starts_before_now() -> None:
    planned = plan(workflow_of([4], []), Slots.of([0], 100, 1), now=30)
    assert (planned.start.tolist(), planned.makespan) == ([30], 4)


def test_cybershake_by_hand() -> None:
    """On 430 processors: both checks one after the other, then 4,017 syntheses in ten rounds.

    Level 1 waits 1 s, and 2,100 s for the longer task; two checks of 288 do not fit side by side; ten rounds
    of 519 s for 4,017 tasks on 430 processors, and the peak values of the last round 1 s more.
    """
    workflow = cybershake_workflow()
    planned = plan(workflow, Slots.of([0], 86_400, 430, divisible=True, extensible=True))
    assert planned.makespan == 1 + 2100 + 2 * 86_400 + 10 * 519 + 1
    assert planned.allocation_cost == workflow.work
