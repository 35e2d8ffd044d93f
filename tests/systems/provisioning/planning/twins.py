"""Random small problems, and the plans of the plain-Python planner for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from gridtune.systems.provisioning.planning.problem import CROSS_SLOT, SCHEDULERS, Plan, PlanProblem
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.workload.workflows import Workflow
from tests.systems.provisioning.planning.planner_twin import ReferencePlanner, ReferenceSlot, ReferenceTask

#: Whole seconds make ties; the others, sums that depend on the order in which they are taken.
TIMES = st.one_of(st.integers(0, 12).map(float), st.sampled_from([0.1, 0.3, 1.7, 2.9]))


@st.composite
def workflows(draw: st.DrawFn, sites: int, widest: int) -> Workflow:
    n = draw(st.integers(1, 8))
    # Of all tasks alike, the next one often goes where the last one went.
    kinds = draw(st.sampled_from([1, 2, n]))
    times = draw(st.lists(TIMES, min_size=kinds * sites, max_size=kinds * sites))
    widths = draw(st.lists(st.integers(1, widest), min_size=kinds, max_size=kinds))
    run = np.resize(np.reshape(times, (kinds, sites)), (n, sites))
    processors = np.resize(widths, n)
    pairs = [(one, other) for other in range(n) for one in range(other)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=10)) if pairs else []
    volume = draw(st.lists(st.sampled_from([0.0, 1.0, 3.0, 7.0]), min_size=len(edges), max_size=len(edges)))
    # Positions are shuffled: a parent may stand behind its child.
    where = draw(st.permutations(range(n)))
    parent, child = [where[a] for a, _ in edges], [where[b] for _, b in edges]
    names = tuple(f"t{i}" for i in range(n))
    run = run if sites > 1 else run[:, 0]
    return Workflow(names, run, processors, parent, child, np.array(volume))


@st.composite
def slot_sets(draw: st.DrawFn, sites: int) -> Slots:
    n = draw(st.integers(1, 7))

    def column(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=n, max_size=n))

    return Slots.of(
        column(st.integers(0, 15)),
        column(st.integers(1, 25)),
        column(st.integers(1, 4)),
        site=[draw(st.integers(0, sites - 1)) for _ in range(n - 1)] + [sites - 1],
        price=column(st.sampled_from([0.5, 1.0, 1.3])),
        fixed=column(st.sampled_from([0.0, 0.7])),
        divisible=column(st.booleans()),
        extensible=column(st.booleans()),
    )


@st.composite
def problems(draw: st.DrawFn) -> tuple[PlanProblem, npt.NDArray[np.bool_]]:
    """Draw a problem, and plans to evaluate."""
    sites = draw(st.integers(1, 3))
    slots = draw(slot_sets(sites))
    cross_slot = draw(st.sampled_from(sorted(CROSS_SLOT)))
    widest = _widest_task(slots, cross_slot)
    problem = PlanProblem(
        draw(workflows(sites, widest)),
        slots,
        draw(st.sampled_from(sorted(SCHEDULERS))),
        latency=draw(TIMES),
        bandwidth=draw(st.sampled_from([0.3, 1.0, np.inf])),
        cross_slot=cross_slot,
        now=draw(st.sampled_from([0.0, 4.0, 5.5])),
    )
    bits = draw(st.lists(st.lists(st.booleans(), min_size=len(slots), max_size=len(slots)), max_size=3))
    return problem, np.array([[True] * len(slots), *bits])


def crowded_problem(seed: int) -> PlanProblem:
    """Return a problem of wide tasks and narrow slots, most of which have to be combined."""
    rng = np.random.default_rng(seed)
    n, count, sites = 14, 7, int(rng.integers(1, 3))
    slots = Slots.of(
        rng.integers(0, 10, count),
        rng.integers(8, 60, count),
        rng.integers(1, 5, count),
        site=np.arange(count) % sites,
        divisible=rng.random(count) < 0.5,
        extensible=np.arange(count) < 4,
    )
    level = np.sort(rng.integers(0, 3, n))
    parent, child = np.nonzero((level[:, None] + 1 == level) & (rng.random((n, n)) < 0.3))
    workflow = Workflow(
        tuple(f"t{i}" for i in range(n)),
        rng.integers(1, 9, n).astype(float),
        rng.integers(1, 1 + max(int(slots.processors[:4][slots.site[:4] == 0].sum()), 1), n),
        parent,
        child,
    )
    scheduler, cross_slot = rng.choice(sorted(SCHEDULERS)), rng.choice(["narrow", "always", "always"])
    return PlanProblem(workflow, slots, str(scheduler), cross_slot=str(cross_slot))


def _widest_task(slots: Slots, cross_slot: str) -> int:
    widest = int(slots.processors.max())
    if cross_slot == "never":
        return widest
    first = slots.start == slots.start[0]
    together = int(slots.processors[first & (slots.site == slots.site[0])].sum())
    return max(widest, together)


def plan(workflow: Workflow, slots: Slots, scheduler: str = "heft", **options: Any) -> Plan:
    """Place a workflow on all of the slots."""
    return PlanProblem(workflow, slots, scheduler, **options).plan()


def plain_plan(problem: PlanProblem, taken: npt.NDArray[np.bool_]) -> ReferencePlanner | None:
    """Return the reference's plan; None if it is infeasible."""
    workflow, slots = problem.workflow, problem.slots
    sites, n = problem.sites, len(workflow)
    run = np.broadcast_to(workflow.run_time.reshape(n, -1), (n, sites)).tolist()
    tasks = [ReferenceTask(run[i], int(workflow.processors[i])) for i in range(n)]
    for parent, child, volume in zip(workflow.parent, workflow.child, workflow.volume, strict=True):
        tasks[child].parents[int(parent)] = float(volume)
    reference_slots = {}
    for i in np.flatnonzero(taken).tolist():
        end = float(slots.end[i])
        reference_slots[i] = ReferenceSlot(
            int(slots.site[i]),
            float(slots.start[i]),
            end,
            float("inf") if slots.extensible[i] else end,
            int(slots.processors[i]),
            float(slots.price[i]),
            float(slots.fixed[i]),
            bool(slots.divisible[i]),
        )
    planner = ReferencePlanner(
        tasks,
        reference_slots,
        transfer=lambda volume, a, b: 0.0 if a == b else problem.latency + volume / problem.bandwidth,
        mean_transfer=lambda volume: (problem.latency + volume / problem.bandwidth) * (sites > 1),
        cross_slot=problem.cross_slot,
        now=problem.now,
    )
    return planner if planner.run(problem.scheduler) else None
