"""The quality of a front of plans, on a scale that depends on the problem alone, not on the search."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gridtune.statistics.pareto import Scale, hypervolume
from gridtune.systems.provisioning.search.base import Evaluator

__all__ = ["front_hypervolume", "plan_scale"]


def plan_scale(problem: Evaluator) -> Scale | None:
    """Return the scale of a problem's costs: 0 is a lower bound, 1 is more than a plan should cost.

    From the workflow's work (processor-seconds) and critical path (seconds) to the allocation cost and three
    times the makespan of taking all slots. None where that is no range: all slots are divisible, so that
    taking all of them costs no more than the bound; or no plan is feasible.
    """
    workflow = problem.workflow
    cost, makespan = problem.evaluate(np.ones((1, len(problem)), np.bool_))[0]
    ideal, farthest = (workflow.work, workflow.critical_path), (float(cost), 3.0 * float(makespan))
    if farthest[0] > ideal[0] and math.isfinite(farthest[1]):
        return Scale(ideal, farthest)
    return None


def front_hypervolume(costs: npt.ArrayLike, scale: Scale | None) -> float:
    """Return the share of the scale's rectangle that the front dominates: 0 … 1; NaN without a scale.

    Parameters
    ----------
    costs
        Shape (plans, 2): allocation cost and makespan.
    scale
        Of `plan_scale`.
    """
    return math.nan if scale is None else hypervolume(costs, scale, reference=1.0)
