"""The searches by name, and the search that a cell's parameters name."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.provisioning.parameters import SEARCHES, ProvisioningParameters
from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.search.base import RandomSearch, Search
from gridtune.systems.provisioning.search.fronts import Archive, enumerate_front
from gridtune.systems.provisioning.search.genetic import Memetic, Moga
from gridtune.systems.provisioning.search.rules import heuristic_plans
from gridtune.tracking.checkpoints import find_policy
from gridtune.types import BoolArray

__all__ = ["find_front", "new_search", "run_search", "search_defaults"]

#: The most plans of simple rules: as many as the memetic search begins with.
_RULES = 40


def _search_class(algorithm: str) -> type[Search]:
    """Return the class of the search of that name; pymoo, which takes long to import, only where needed."""
    ours: dict[str, type[Search]] = {"moga": Moga, "memetic": Memetic, "random": RandomSearch}
    if algorithm in ours:
        return ours[algorithm]
    if algorithm not in SEARCHES:
        hint = f"one of {', '.join(SEARCHES)}"
        raise SimulationError(f"no algorithm is named {algorithm!r}", field="algorithm", hint=hint)
    from gridtune.systems.provisioning.search.nsga import Nsga2, Nsga3  # noqa: PLC0415 (pymoo)

    return Nsga2 if algorithm == "nsga2" else Nsga3


def new_search(algorithm: str, problem: PlanProblem, rng: np.random.Generator, **parameters: Any) -> Search:
    """Return a search of that name, ready for its first step.

    Parameters
    ----------
    algorithm
        One of `gridtune.systems.provisioning.parameters.SEARCHES`.
    problem
        What to search.
    rng
        The source of all random numbers.
    parameters
        Of the search; see its class.

    Raises
    ------
    SimulationError
        If there is no such algorithm, or a parameter is out of range.
    """
    return _search_class(algorithm)(problem, rng, **parameters)


def find_front(
    algorithm: str,
    problem: PlanProblem,
    rng: np.random.Generator,
    *,
    evaluations: int = 2000,
    **parameters: Any,
) -> Archive:
    """Search until that many plans have been evaluated; return those that no other one dominates.

    Examples
    --------
    ::

        problem = PlanProblem(workflow, slots, "heft")
        front = find_front("memetic", problem, np.random.default_rng(1), evaluations=2000)
        plan = problem.plan(front.plans[select_plan(front.costs, alpha=0.5)])
    """
    return new_search(algorithm, problem, rng, **parameters).run(evaluations)


def search_defaults(algorithm: str) -> dict[str, Any]:
    """Return the parameters that a search of that name takes, with their defaults."""
    return {
        parameter.name: parameter.default
        for parameter in inspect.signature(_search_class(algorithm)).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def run_search(parameters: ProvisioningParameters, problem: PlanProblem, rng: np.random.Generator) -> Archive:
    """Return the front of a cell's search; that of a few plans where simple rules choose the slots."""
    p = parameters
    if p.search == "exact":
        return enumerate_front(problem, record=True)
    archive = Archive(len(problem), record=True)
    if p.search in SEARCHES:
        search = new_search(p.search, problem, rng, **_arguments(p, len(problem)))
        search.archive = archive
        return search.run(p.evaluations or p.population * p.iterations)
    made = None
    if p.search == "ppo":
        plans, made = _agent_plans(str(p.checkpoint), problem, p.release)
    elif p.search == "pilot":  # each slot is a job, and one of them is submitted
        plans = np.eye(len(problem), dtype=np.bool_)
    elif p.search == "rules":
        plans = heuristic_plans(problem, _RULES)
    else:
        plans = (
            np.ones((1, len(problem)), np.bool_) if p.search == "all" else problem.slots.divisible[None, :]
        )
    if p.release:
        costs, plans = problem.evaluate_released(plans)
    else:
        costs = problem.evaluate(plans)
    archive.add(costs, plans)
    archive.evaluations = made or archive.evaluations
    return archive


def _arguments(parameters: ProvisioningParameters, slots: int) -> dict[str, Any]:
    """Return what the search of a cell takes, by its own names."""
    p = parameters
    arguments = {
        "population": p.population,
        "offspring": p.population,
        "crossover_points": p.crossover_points,
        "crossover_rate": p.crossover_rate,
        "mutation_rate": min(1.0, p.mutation / slots),
        "seeding": p.seeded,
        "release": p.release,
    }
    if p.search == "memetic":
        del arguments["crossover_rate"]  # the system's is that of moga
    taken = search_defaults(p.search)
    return {name: value for name, value in arguments.items() if name in taken}


def _agent_plans(checkpoint: str, problem: PlanProblem, release: bool) -> tuple[BoolArray, int]:
    """Return the plan of a trained agent, shape (1, slots), and the number of plans made on the way."""
    from gridtune.systems.provisioning.learners.ppo import play  # noqa: PLC0415 (torch)
    from gridtune.training.networks import load_policy  # noqa: PLC0415 (torch)

    batch, plans = play(load_policy(find_policy(checkpoint)), [problem], release=release)
    return batch.state.kept.copy(), int(plans[0])
