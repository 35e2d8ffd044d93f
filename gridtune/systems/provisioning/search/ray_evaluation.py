"""`RayEvaluator`: large populations of plans evaluated by actors on all machines of a Ray cluster."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import ray

from gridtune.systems.provisioning.planning.problem import Evaluation, PlanProblem
from gridtune.types import BoolArray, FloatArray

__all__ = ["LARGE", "RayEvaluator"]


#: Populations from this size on go to the actors. Sending a part to one takes about a millisecond, evaluating
#: a plan of a hundred tasks some hundredths of one: a smaller population is done sooner in this process.
LARGE = 1000


class _Worker:
    """An actor that holds the problem and, once loaded, its kernels."""

    def __init__(self, problem: PlanProblem) -> None:
        self.problem = problem

    def evaluate(self, plans: npt.NDArray[np.uint8], slots: int, release: bool) -> tuple[FloatArray, Any]:
        population = np.unpackbits(plans, axis=1, count=slots).astype(np.bool_)
        if not release:
            return self.problem.evaluate(population), None
        costs, used = self.problem.evaluate_released(population)
        return costs, np.packbits(used, axis=1)


class RayEvaluator:
    """Stands in for a problem, and splits populations of `large` plans or more among actors.

    The results do not depend on the number of actors. Ray must be running. Close the evaluator, or use it as
    a context manager, to stop the actors.

    Parameters
    ----------
    problem
        The planning problem.
    actors
        The number of actors, each with one CPU.
    large
        Smaller populations are evaluated in this process.
    """

    def __init__(self, problem: PlanProblem, actors: int, *, large: int = LARGE) -> None:
        self.problem, self.large = problem, large
        self.workflow, self.slots = problem.workflow, problem.slots
        shared = ray.put(problem)
        self._actors = [ray.remote(num_cpus=1)(_Worker).remote(shared) for _ in range(actors)]

    def __len__(self) -> int:
        return len(self.problem)

    def __enter__(self) -> RayEvaluator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the actors."""
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []

    def evaluate(self, population: npt.ArrayLike) -> FloatArray:
        """Return what `PlanProblem.evaluate` returns."""
        plans = np.asarray(population, dtype=np.bool_)
        if len(plans) < self.large or not self._actors:
            return self.problem.evaluate(plans)
        return np.concatenate([costs for costs, _ in self._split(plans, release=False)])

    def evaluate_released(self, population: npt.ArrayLike) -> Evaluation:
        """Return what `PlanProblem.evaluate_released` returns."""
        plans = np.asarray(population, dtype=np.bool_)
        if len(plans) < self.large or not self._actors:
            return self.problem.evaluate_released(plans)
        parts = self._split(plans, release=True)
        used = [np.unpackbits(bits, axis=1, count=len(self)).astype(np.bool_) for _, bits in parts]
        return Evaluation(np.concatenate([costs for costs, _ in parts]), np.concatenate(used))

    def _split(self, plans: BoolArray, *, release: bool) -> list[tuple[FloatArray, Any]]:
        parts = np.array_split(np.packbits(plans, axis=1), len(self._actors))
        futures = [
            actor.evaluate.remote(part, len(self), release)
            for actor, part in zip(self._actors, parts, strict=True)
            if len(part)
        ]
        return list(ray.get(futures))
