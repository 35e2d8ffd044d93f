"""Plans that are worth a first look: by time, by site, by what is paid only as far as it is used."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gridtune.systems.provisioning.search.evaluator import Evaluator

__all__ = ["heuristic_plans"]

Bools = npt.NDArray[np.bool_]


def heuristic_plans(problem: Evaluator, most: int) -> Bools:
    """Return distinct plans to begin with, the most promising first.

    In this order: all slots; those that are paid only as far as they are used; all slots of one site; and, by
    falling number of slots, those that begin before some instant, and those together with what can be
    divided.

    Parameters
    ----------
    problem
        Whose slots.
    most
        How many at most.

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
