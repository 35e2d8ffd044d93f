"""Fronts of plans: the archive of a search, the exact front, a front's quality, and the choice from it.

Also plans without a search: random ones, those of simple rules, and pilot jobs. A pilot job is one
rectangular job that holds processors for a whole workflow, whose tasks run inside it. A user can submit one
to any queue, without slots or reservations: as wide as wished, and as long as the workflow takes on so many
processors. The queue starts it as early as it can.

Source: A. Luckow et al., "P*: A model of pilot-abstractions", IEEE e-Science 2012 (pilot jobs).
"""

from __future__ import annotations

import math

import moocore
import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.types import BoolArray, FloatArray, IntArray

#: 2²⁰ plans take seconds; each further slot doubles the time.
_MOST_SLOTS = 20
#: Plans evaluated in one call.
_BATCH = 1 << 14


def non_dominated(costs: FloatArray) -> IntArray:
    """Return the positions of points that no other point dominates, by ascending first cost.

    Both costs are minimised. Points with an infinite cost are left out, and of equal points all but the
    first.

    Parameters
    ----------
    costs
        Shape (points, 2).
    """
    finite = np.flatnonzero(np.isfinite(costs).all(axis=1))
    front = finite[moocore.is_nondominated(costs[finite])]
    return front[np.argsort(costs[front, 0])]


class Archive:
    """Non-dominated plans by ascending allocation cost, and so by descending makespan; one for each point.

    Parameters
    ----------
    slots
        The number of slots.

    Attributes
    ----------
    costs
        Shape (n, 2), float64: allocation cost and makespan.
    plans
        Shape (n, slots), bool. Of plans with equal costs the first one added.
    evaluations
        The number of plans evaluated.
    """

    def __init__(self, slots: int) -> None:
        self.costs: FloatArray = np.empty((0, 2))
        self.plans: BoolArray = np.empty((0, slots), np.bool_)
        self.evaluations = 0
        self._feasible: dict[bytes, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self.costs)

    @property
    def feasible_costs(self) -> FloatArray:
        """Shape (m, 2): costs of the distinct feasible plans, in the order of their evaluation."""
        return np.array(list(self._feasible.values())).reshape(-1, 2)

    def add(self, costs: FloatArray, plans: BoolArray) -> int:
        """Add the plans that no other one dominates; return how many of them are in the archive now."""
        self.evaluations += len(costs)
        for plan, (cost, makespan) in zip(np.packbits(plans, axis=1), costs.tolist(), strict=True):
            if math.isfinite(makespan):
                self._feasible[plan.tobytes()] = (cost, makespan)
        merged = np.concatenate([self.costs, costs])
        front = non_dominated(merged)
        new = int((front >= len(self)).sum())
        if new:
            self.plans = np.concatenate([self.plans, plans])[front]
            self.costs = merged[front]
        return new


def enumerate_front(problem: PlanProblem) -> Archive:
    """Return every plan that no other one dominates.

    Parameters
    ----------
    problem
        With at most 20 slots.

    Raises
    ------
    SimulationError
        If there are more slots.
    """
    slots = len(problem)
    if slots > _MOST_SLOTS:
        message = f"{slots} slots make 2^{slots} plans, too many to evaluate all"
        raise SimulationError(message, field="slots", hint=f"at most {_MOST_SLOTS} slots, or search")
    archive, bits = Archive(slots), 1 << np.arange(slots, dtype=np.int64)
    for first in range(0, 1 << slots, _BATCH):
        numbers = np.arange(first, min(first + _BATCH, 1 << slots))
        plans = (numbers[:, None] & bits) > 0
        archive.add(problem.evaluate(plans), plans)
    return archive


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


def select_plan(costs: FloatArray, alpha: float) -> int:
    """Return the position of the plan with the least α · AC_nr + (1 − α) · SC_nr.

    Both costs are normalised to [0, 1] over the front; where all are equal they count as 0. Ties go to the
    least makespan, then to the least cost.

    Parameters
    ----------
    costs
        Shape (plans, 2): allocation cost and makespan of the non-dominated plans.
    alpha
        0: only the makespan counts; 1: only the cost.

    Raises
    ------
    SimulationError
        If there is no plan to choose from, or alpha is not in [0, 1].

    References
    ----------
    Singh, Kesselman, Deelman, HPDC 2007, equations 7 and 8.
    """
    if not 0 <= alpha <= 1:
        raise SimulationError(f"the trade-off factor lies between 0 and 1, but got {alpha}", field="alpha")
    if len(costs) == 0:
        hint = "no set of slots that was tried holds the workflow: offer more slots, or a later horizon"
        raise SimulationError("there is no feasible plan to choose from", hint=hint)
    low, span = costs.min(axis=0), np.ptp(costs, axis=0)
    normalised = np.divide(costs - low, span, out=np.zeros_like(costs), where=span > 0)
    value = alpha * normalised[:, 0] + (1 - alpha) * normalised[:, 1]
    return int(np.lexsort((costs[:, 0], costs[:, 1], value))[0])
