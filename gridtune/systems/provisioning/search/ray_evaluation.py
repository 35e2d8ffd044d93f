"""`RayEvaluator`: a large population's plans, evaluated by actors on all machines of a Ray cluster."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gridtune.systems.provisioning.planning.problem import Evaluation, PlanProblem

if TYPE_CHECKING:
    from gridtune.systems.provisioning.simulator.slots import Slots
    from gridtune.workload.workflows import Workflow

__all__ = ["LARGE", "RayEvaluator"]

Floats = npt.NDArray[np.float64]

#: From so many plans on actors are asked. Handing a part to one takes about a millisecond, an evaluation of a
#: hundred tasks some hundredths of one: a smaller population is done before its answers are back.
LARGE = 1000


class _Worker:
    """Holds the problem; its kernels are compiled, or come from the cache, once."""

    def __init__(self, problem: PlanProblem) -> None:
        self.problem = problem

    def evaluate(self, plans: npt.NDArray[np.uint8], slots: int, release: bool) -> tuple[Floats, Any]:
        population = np.unpackbits(plans, axis=1, count=slots).astype(np.bool_)
        if not release:
            return self.problem.evaluate(population), None
        costs, used = self.problem.evaluate_released(population)
        return costs, np.packbits(used, axis=1)


class RayEvaluator:
    """Answers for a problem, and deals populations of `large` plans or more out to actors.

    What comes out does not depend on how many there are. Ray must have been started; close it, or use it as a
    context manager, to let the actors go.

    Parameters
    ----------
    problem
        What to evaluate plans of.
    actors
        How many, each with one CPU.
    large
        Populations smaller than that are evaluated here.
    """

    def __init__(self, problem: PlanProblem, actors: int, *, large: int = LARGE) -> None:
        import ray  # noqa: PLC0415 - only where populations are dealt out

        self.problem, self.large = problem, large
        self.workflow: Workflow = problem.workflow
        self.slots: Slots = problem.slots
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
        """Let the actors go."""
        import ray  # noqa: PLC0415

        for actor in self._actors:
            ray.kill(actor)
        self._actors = []

    def evaluate(self, population: npt.ArrayLike) -> Floats:
        """Return costs as `PlanProblem.evaluate` does."""
        plans = np.asarray(population, dtype=np.bool_)
        if len(plans) < self.large or not self._actors:
            return self.problem.evaluate(plans)
        return np.concatenate([costs for costs, _ in self._deal(plans, release=False)])

    def evaluate_released(self, population: npt.ArrayLike) -> Evaluation:
        """Return costs and the slots kept as `PlanProblem.evaluate_released` does."""
        plans = np.asarray(population, dtype=np.bool_)
        if len(plans) < self.large or not self._actors:
            return self.problem.evaluate_released(plans)
        parts = self._deal(plans, release=True)
        used = [np.unpackbits(bits, axis=1, count=len(self)).astype(np.bool_) for _, bits in parts]
        return Evaluation(np.concatenate([costs for costs, _ in parts]), np.concatenate(used))

    def _deal(self, plans: npt.NDArray[np.bool_], *, release: bool) -> list[tuple[Floats, Any]]:
        import ray  # noqa: PLC0415

        parts = np.array_split(np.packbits(plans, axis=1), len(self._actors))
        asked = [
            actor.evaluate.remote(part, len(self), release)
            for actor, part in zip(self._actors, parts, strict=True)
            if len(part)
        ]
        return list(ray.get(asked))
