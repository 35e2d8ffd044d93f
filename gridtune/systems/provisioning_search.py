"""How the provisioning system chooses slots: the search that its parameters name, and what it came to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gridtune.systems.provisioning_parameters import ProvisioningParameters

if TYPE_CHECKING:
    from gridtune.simulation.planning.problem import Evaluation, PlanProblem

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
    from gridtune.agents.planning.algorithms import new_search  # noqa: PLC0415
    from gridtune.agents.planning.archive import Archive  # noqa: PLC0415

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
    search = new_search(p.search, recorder, rng, **_told(p, len(problem)))
    archive = search.run(p.population * p.iterations)
    return Found(archive.costs, archive.plans, search.evaluations, recorder.seen)


def _told(parameters: ProvisioningParameters, slots: int) -> dict[str, Any]:
    """Return what the search is told, by its own names."""
    p = parameters
    told: dict[str, Any] = {"population": p.population, "release": p.release}
    if p.search == "memetic":
        return told | {"offspring": p.population}
    if p.search == "moga":
        told |= {"crossover_points": p.crossover_points, "crossover_rate": p.crossover_rate}
        told |= {"mutation_rate": min(1.0, p.mutation / slots)}
    return told | {"seeding": p.seeded}


def measure_front(problem: PlanProblem, found: Found) -> dict[str, float]:
    """Return size and hypervolume of the front, which does not depend on how it was found."""
    from gridtune.metrics.pareto import Scale, hypervolume  # noqa: PLC0415

    workflow = problem.workflow
    everything = problem.evaluate(np.ones((1, len(problem)), np.bool_))[0]
    ideal = (workflow.work, workflow.critical_path)
    # No slot of a site may be indivisible: then taking all of them costs no more than the least.
    farthest = (float(everything[0]), 3.0 * float(everything[1]))
    volume = math.nan
    if farthest[0] > ideal[0] and math.isfinite(farthest[1]):
        volume = hypervolume(found.costs, Scale(ideal, farthest), reference=1.0)
    return {
        "front": float(len(found.costs)),
        "hypervolume": volume,
        "evaluations": float(found.evaluations),
        "feasible_plans": float(len(found.seen)),
    }
