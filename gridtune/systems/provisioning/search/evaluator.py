"""`Evaluator`: what a search needs of a planning problem, wherever its plans are evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gridtune.systems.provisioning.planning.problem import Evaluation
    from gridtune.systems.provisioning.simulator.slots import Slots
    from gridtune.workload.workflows import Workflow

__all__ = ["Evaluator"]


class Evaluator(Protocol):
    """A `PlanProblem`, or something that answers for one."""

    workflow: Workflow
    slots: Slots

    def __len__(self) -> int:
        """Return the number of slots."""

    def evaluate(self, population: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return costs, shape (plans, 2): allocation cost and makespan."""

    def evaluate_released(self, population: npt.ArrayLike) -> Evaluation:
        """Return the costs of plans that give back what no task uses, and the slots they keep."""
