"""The searches by name, and the one call that runs any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from gridtune.agents.planning.archive import Archive
from gridtune.agents.planning.evaluator import Evaluator
from gridtune.agents.planning.memetic import Memetic
from gridtune.agents.planning.moga import Moga
from gridtune.agents.planning.nsga import Nsga
from gridtune.agents.planning.search import Search
from gridtune.errors import SimulationError

__all__ = ["ALGORITHMS", "find_front", "new_search"]

#: What each name stands for. `moga` is as it was published: nothing seeded, nothing released.
ALGORITHMS: Mapping[str, tuple[Callable[..., Search], Mapping[str, Any]]] = MappingProxyType(
    {
        "moga": (Moga, {}),
        "memetic": (Memetic, {}),
        "nsga2": (Nsga, {"version": 2}),
        "nsga3": (Nsga, {"version": 3}),
    }
)


def new_search(algorithm: str, problem: Evaluator, rng: np.random.Generator, **parameters: Any) -> Search:
    """Return a search of that name, ready for its first step.

    Parameters
    ----------
    algorithm
        One of `ALGORITHMS`.
    problem
        What to search.
    rng
        Where all random numbers come from.
    parameters
        Of the search; see its class.

    Raises
    ------
    SimulationError
        If there is no such algorithm, or a parameter cannot be.
    """
    if algorithm not in ALGORITHMS:
        hint = f"one of {', '.join(ALGORITHMS)}"
        raise SimulationError(f"no algorithm is named {algorithm!r}", field="algorithm", hint=hint)
    kind, fixed = ALGORITHMS[algorithm]
    return kind(problem, rng, **fixed, **parameters)


def find_front(
    algorithm: str,
    problem: Evaluator,
    rng: np.random.Generator,
    *,
    evaluations: int = 2000,
    **parameters: Any,
) -> Archive:
    """Search until so many plans have been evaluated; return those that no other one dominates.

    Examples
    --------
    ::

        problem = PlanProblem(workflow, slots, "heft")
        front = find_front("memetic", problem, np.random.default_rng(1), evaluations=2000)
        chosen = front.plans[select_plan(front.costs, alpha=0.5)]
        schedule = problem.plan(chosen)
    """
    return new_search(algorithm, problem, rng, **parameters).run(evaluations)
