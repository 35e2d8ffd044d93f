"""How the provisioning system chooses slots: the search that its parameters name, and what it came to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gridtune.systems.provisioning.parameters import ProvisioningParameters

if TYPE_CHECKING:
    from gridtune.systems.provisioning.planning.problem import Evaluation, PlanProblem

__all__ = ["Found", "Recorder", "measure_front", "search_front"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Found:
    """What a search came to.

    Attributes
    ----------
    costs, plans
        Shape (k, 2) and (k, slots): of the plans that no other one it looked at dominates.
    evaluations
        How many it looked at.
    seen
        Shape (m, 2): costs of the distinct feasible ones.
    """

    costs: Floats
    plans: Bools
    evaluations: int
    seen: Floats


class Recorder:
    """A planning problem that remembers the costs of every plan it was asked for."""

    def __init__(self, problem: PlanProblem) -> None:
        self.problem, self.workflow, self.slots = problem, problem.workflow, problem.slots
        self._seen: dict[bytes, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self.problem)

    def evaluate(self, population: npt.ArrayLike) -> Floats:
        """Return costs, shape (plans, 2)."""
        costs = self.problem.evaluate(population)
        self._note(np.asarray(population, np.bool_), costs)
        return costs

    def evaluate_released(self, population: npt.ArrayLike) -> Evaluation:
        """Return costs and the slots that are kept."""
        found = self.problem.evaluate_released(population)
        self._note(found.used, found.costs)
        return found

    def _note(self, plans: Bools, costs: Floats) -> None:
        for plan, (cost, makespan) in zip(np.packbits(plans, axis=1), costs.tolist(), strict=True):
            if math.isfinite(makespan):
                self._seen[plan.tobytes()] = (cost, makespan)

    @property
    def seen(self) -> Floats:
        """Shape (m, 2): costs of the distinct feasible plans, in the order in which they were met."""
        return np.array(list(self._seen.values())).reshape(-1, 2)


def search_front(parameters: ProvisioningParameters, problem: PlanProblem, rng: np.random.Generator) -> Found:
    """Return the front that the search finds; a single plan where slots are taken by a simple rule."""
    from gridtune.systems.provisioning.search.algorithms import new_search, search_arguments  # noqa: PLC0415
    from gridtune.systems.provisioning.search.archive import Archive  # noqa: PLC0415

    p, recorder = parameters, Recorder(problem)
    if p.search in ("all", "open"):
        rule = np.ones(len(problem), np.bool_) if p.search == "all" else problem.slots.divisible
        plans, archive = rule[None, :], Archive(len(problem))
        if p.release:
            costs, plans = recorder.evaluate_released(plans)
        else:
            costs = recorder.evaluate(plans)
        archive.add(costs, plans)
        return Found(archive.costs, archive.plans, 1, recorder.seen)
    told = search_arguments(p.search, len(problem), _told(p))
    search = new_search(p.search, recorder, rng, **told)
    archive = search.run(p.population * p.iterations)
    return Found(archive.costs, archive.plans, search.evaluations, recorder.seen)


def _told(parameters: ProvisioningParameters) -> dict[str, Any]:
    """Return those of the parameters that its search knows."""
    names = ["population", "release"]
    if parameters.search == "moga":
        names += ["crossover_points", "crossover_rate", "mutation"]
    if parameters.search != "memetic":
        names.append("seeded")
    return {name: getattr(parameters, name) for name in names}


def measure_front(problem: PlanProblem, found: Found) -> dict[str, float]:
    """Return size and hypervolume of the front, which does not depend on how it was found."""
    from gridtune.systems.provisioning.search.quality import front_hypervolume, plan_scale  # noqa: PLC0415

    return {
        "front": float(len(found.costs)),
        "hypervolume": front_hypervolume(found.costs, plan_scale(problem)),
        "evaluations": float(found.evaluations),
        "feasible_plans": float(len(found.seen)),
    }
