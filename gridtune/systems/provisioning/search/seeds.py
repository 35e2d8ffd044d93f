"""Plans to begin a search with, by simple rules: by time, by site, by divisibility."""

from __future__ import annotations

import numpy as np

from gridtune.systems.provisioning.search.base import Evaluator
from gridtune.types import BoolArray

__all__ = ["heuristic_plans"]


def heuristic_plans(problem: Evaluator, most: int) -> BoolArray:
    """Return distinct plans to begin with, the most promising first.

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
