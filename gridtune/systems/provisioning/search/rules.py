"""Plans without a search: random ones, those of simple rules, and pilot jobs.

A pilot job is one rectangular job that holds processors for a whole workflow, whose tasks run inside it. A
user can submit one to any queue, without slots or reservations: as wide as wished, and as long as the
workflow takes on so many processors. The queue starts it as early as it can.

Source: A. Luckow et al., "P*: A model of pilot-abstractions", IEEE e-Science 2012 (pilot jobs).
"""

from __future__ import annotations

import math

import numpy as np

from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.simulator.site import SiteState
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.types import BoolArray
from gridtune.workload.fields import LARGEST_TIME
from gridtune.workload.workflows import Workflow

__all__ = ["first_plans", "heuristic_plans", "pilot_problem", "random_plans"]


def random_plans(plans: int, slots: int, rng: np.random.Generator) -> BoolArray:
    """Return plans whose bits are 1 with probability 1/2."""
    return rng.integers(0, 2, (plans, slots), dtype=np.uint8).astype(np.bool_)


def first_plans(problem: PlanProblem, population: int, seeding: bool, rng: np.random.Generator) -> BoolArray:
    """Return a first generation: random plans, with `seeding` up to a quarter of simple rules before them."""
    if not seeding:
        return random_plans(population, len(problem), rng)
    seeds = heuristic_plans(problem, population // 4)
    return np.concatenate([seeds, random_plans(population - len(seeds), len(problem), rng)])


def heuristic_plans(problem: PlanProblem, most: int) -> BoolArray:
    """Return distinct plans of simple rules: by time, by site, by divisibility; the most promising first.

    In this order: all slots; the divisible ones; all slots of one site; and, from many slots to few, those
    that begin by some instant, and those together with the divisible ones.

    Parameters
    ----------
    problem
        Whose slots.
    most
        The most plans to return.

    Returns
    -------
    ndarray
        Shape (plans, slots), bool.
    """
    slots = problem.slots
    divisible = slots.divisible
    rows = [np.ones(len(slots), np.bool_)]
    if divisible.any():
        rows.append(divisible.copy())
    rows += [slots.site == site for site in np.unique(slots.site)]
    instants = np.unique(slots.start)[::-1]
    steps = np.unique(np.linspace(0, len(instants) - 1, max(2, most // 2)).round().astype(int))
    for instant in instants[steps]:
        early = slots.start <= instant
        rows += [early, early | divisible]
    plans = np.array(rows)
    _, first = np.unique(plans, axis=0, return_index=True)
    return plans[np.sort(first)][:most]


def pilot_problem(
    workflow: Workflow,
    state: SiteState,
    scheduler: str,
    most: int,
    *,
    price: float = 1.0,
    fixed: float = 0.0,
) -> PlanProblem:
    """Return the choice of a pilot job: each slot on offer is a whole job, and a plan takes one of them.

    A job of some width requests the makespan that the scheduler reaches on so many processors, and its slot
    is where the queue would start it now. It is paid for as a whole. Widths go from the widest task's to the
    site's, each larger by about the same factor.

    Parameters
    ----------
    workflow
        What runs inside.
    state
        The site; it is not changed.
    scheduler
        Of `gridtune.systems.provisioning.planning.problem.SCHEDULERS`.
    most
        The most widths to try.
    price, fixed
        Of the job's processor-second, and of the job.
    """
    workflow.check_fits([state.processors])
    widths = np.unique(np.geomspace(workflow.widest, state.processors, most).round().astype(np.int64))
    alone = (PlanProblem(workflow, Slots.of(0, LARGEST_TIME, width), scheduler) for width in widths)
    lengths = [max(1, math.ceil(problem.evaluate(np.ones((1, 1)))[0, 1])) for problem in alone]
    starts = [state.earliest_start(*job) for job in zip(widths.tolist(), lengths, strict=True)]
    jobs = Slots.of(starts, lengths, widths, price=price, fixed=fixed)
    return PlanProblem(workflow, jobs, scheduler, now=state.now)
