"""The search that a cell's parameters name, and the metrics of the front it finds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.systems.provisioning.parameters import SEARCHES, ProvisioningParameters
from gridtune.systems.provisioning.planning.problem import Evaluation, PlanProblem
from gridtune.systems.provisioning.search.algorithms import new_search, search_arguments
from gridtune.systems.provisioning.search.archive import Archive
from gridtune.systems.provisioning.search.enumeration import enumerate_front
from gridtune.systems.provisioning.search.quality import front_hypervolume, plan_scale
from gridtune.systems.provisioning.search.seeds import heuristic_plans
from gridtune.tracking.checkpoints import find_policy
from gridtune.types import BoolArray, FloatArray

__all__ = ["SearchResult", "front_metrics", "run_search"]


#: The most plans of simple rules: as many as the memetic search begins with.
_RULES = 40


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The result of a search.

    Attributes
    ----------
    costs, plans
        Shape (k, 2) and (k, slots): the plans that no other evaluated plan dominates.
    evaluations
        How many plans were evaluated.
    feasible_costs
        Shape (m, 2): costs of the distinct feasible plans, in the order in which they were first evaluated.
    """

    costs: FloatArray
    plans: BoolArray
    evaluations: int
    feasible_costs: FloatArray


class _Recorder:
    """A planning problem that records the costs of every feasible plan it evaluates."""

    def __init__(self, problem: PlanProblem) -> None:
        self.problem, self.workflow, self.slots = problem, problem.workflow, problem.slots
        self._costs: dict[bytes, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self.problem)

    def evaluate(self, population: npt.ArrayLike) -> FloatArray:
        costs = self.problem.evaluate(population)
        self._record(np.asarray(population, np.bool_), costs)
        return costs

    def evaluate_released(self, population: npt.ArrayLike) -> Evaluation:
        evaluation = self.problem.evaluate_released(population)
        self._record(evaluation.used, evaluation.costs)
        return evaluation

    def _record(self, plans: BoolArray, costs: FloatArray) -> None:
        for plan, (cost, makespan) in zip(np.packbits(plans, axis=1), costs.tolist(), strict=True):
            if math.isfinite(makespan):
                self._costs[plan.tobytes()] = (cost, makespan)

    @property
    def feasible_costs(self) -> FloatArray:
        return np.array(list(self._costs.values())).reshape(-1, 2)


def run_search(
    parameters: ProvisioningParameters, problem: PlanProblem, rng: np.random.Generator
) -> SearchResult:
    """Return the front that the search finds; that of a few plans where simple rules choose the slots."""
    p, recorder = parameters, _Recorder(problem)
    if p.search == "exact":
        archive = enumerate_front(recorder)
        return SearchResult(archive.costs, archive.plans, 1 << len(problem), recorder.feasible_costs)
    if p.search not in SEARCHES:
        archive = Archive(len(problem))
        if p.search == "ppo":
            plans, evaluations = _agent_plans(str(p.checkpoint), problem, p.release)
        else:
            plans = _rule_plans(p.search, problem)
            evaluations = len(plans)
        if p.release:
            costs, plans = recorder.evaluate_released(plans)
        else:
            costs = recorder.evaluate(plans)
        archive.add(costs, plans)
        return SearchResult(archive.costs, archive.plans, evaluations, recorder.feasible_costs)
    arguments = search_arguments(p.search, len(problem), _settings(p))
    search = new_search(p.search, recorder, rng, **arguments)
    archive = search.run(p.evaluations or p.population * p.iterations)
    return SearchResult(archive.costs, archive.plans, search.evaluations, recorder.feasible_costs)


def _rule_plans(rule: str, problem: PlanProblem) -> BoolArray:
    """Return the plans of a simple rule, shape (plans, slots)."""
    if rule == "pilot":  # each slot is a job, and one of them is submitted
        return np.eye(len(problem), dtype=np.bool_)
    if rule == "rules":
        return heuristic_plans(problem, _RULES)
    return np.ones((1, len(problem)), np.bool_) if rule == "all" else problem.slots.divisible[None, :]


def _agent_plans(checkpoint: str, problem: PlanProblem, release: bool) -> tuple[BoolArray, int]:
    """Return the plan of a trained agent, shape (1, slots), and how many it has made on the way."""
    from gridtune.systems.provisioning.learners.playing import play  # noqa: PLC0415 (torch)
    from gridtune.training.networks import load_policy  # noqa: PLC0415 (torch)

    batch, plans = play(load_policy(find_policy(checkpoint)), [problem], release=release)
    return batch.state.kept.copy(), int(plans[0])


def _settings(parameters: ProvisioningParameters) -> dict[str, Any]:
    """Return those of the parameters that the search takes."""
    names = ["population", "release"]
    if parameters.search == "moga":
        names += ["crossover_points", "crossover_rate", "mutation"]
    if parameters.search not in ("memetic", "random"):
        names.append("seeded")
    return {name: getattr(parameters, name) for name in names}


def front_metrics(problem: PlanProblem, result: SearchResult) -> dict[str, float]:
    """Return the size and hypervolume of the front, and the numbers of plans evaluated and feasible."""
    return {
        "front": float(len(result.costs)),
        "hypervolume": front_hypervolume(result.costs, plan_scale(problem)),
        "evaluations": float(result.evaluations),
        "feasible_plans": float(len(result.feasible_costs)),
    }
