"""Pilot jobs: one rectangular job holds processors for a whole workflow, whose tasks run inside it.

What a user can do at any queue without slots or reservations: submit one job as wide as wished and as long as
the workflow takes on so many processors. The queue starts it as early as it can.

Source: A. Luckow et al., "P*: A model of pilot-abstractions", IEEE e-Science 2012 (the abstraction).
"""

from __future__ import annotations

import math

import numpy as np

from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.simulator.site import SiteState
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.types import IntArray
from gridtune.workload.fields import LARGEST_TIME
from gridtune.workload.workflows import Workflow

__all__ = ["pilot_problem", "pilot_widths"]


def pilot_widths(widest: int, processors: int, most: int) -> IntArray:
    """Return widths from the widest task's to the site's, each larger by about the same factor."""
    return np.unique(np.geomspace(widest, processors, most).round().astype(np.int64))


def pilot_problem(workflow: Workflow, state: SiteState, scheduler: str, most: int) -> PlanProblem:
    """Return the choice of a pilot job: each slot on offer is a whole job, and a plan takes one of them.

    A job of some width requests the makespan that the scheduler reaches on so many processors, and its slot
    is where the queue would start it now. It is paid for as a whole.

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
    """
    workflow.check_fits([state.processors])
    widths = pilot_widths(workflow.widest, state.processors, most)
    alone = (PlanProblem(workflow, Slots.of(0, LARGEST_TIME, width), scheduler) for width in widths)
    lengths = [max(1, math.ceil(problem.evaluate(np.ones((1, 1)))[0, 1])) for problem in alone]
    starts = [state.earliest_start(*job) for job in zip(widths.tolist(), lengths, strict=True)]
    return PlanProblem(workflow, Slots.of(starts, lengths, widths), scheduler, now=state.now)
