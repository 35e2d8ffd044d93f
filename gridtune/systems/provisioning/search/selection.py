"""The choice of a plan from a front: the trade-off between cost and makespan."""

from __future__ import annotations

import numpy as np

from gridtune.errors import SimulationError
from gridtune.types import FloatArray

__all__ = ["select_plan"]


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
