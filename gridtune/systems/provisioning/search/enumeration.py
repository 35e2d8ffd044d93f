"""The exact front of a small problem, by evaluating every plan."""

from __future__ import annotations

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.provisioning.search.archive import Archive
from gridtune.systems.provisioning.search.base import Evaluator

__all__ = ["MOST_SLOTS", "enumerate_front"]

#: 2²⁰ plans take seconds; each further slot doubles the time.
MOST_SLOTS = 20
#: Plans evaluated in one call.
_BATCH = 1 << 14


def enumerate_front(problem: Evaluator) -> Archive:
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
    if slots > MOST_SLOTS:
        message = f"{slots} slots make 2^{slots} plans, too many to evaluate all"
        raise SimulationError(message, field="slots", hint=f"at most {MOST_SLOTS} slots, or search")
    archive, bits = Archive(slots), 1 << np.arange(slots, dtype=np.int64)
    for first in range(0, 1 << slots, _BATCH):
        numbers = np.arange(first, min(first + _BATCH, 1 << slots))
        plans = (numbers[:, None] & bits) > 0
        archive.add(problem.evaluate(plans), plans)
    return archive
