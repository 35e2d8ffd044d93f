"""The searches by name, and the one call that runs any of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.provisioning.search.archive import Archive
from gridtune.systems.provisioning.search.evaluator import Evaluator
from gridtune.systems.provisioning.search.memetic import Memetic
from gridtune.systems.provisioning.search.moga import Moga
from gridtune.systems.provisioning.search.nsga import Nsga
from gridtune.systems.provisioning.search.search import Search

__all__ = ["ALGORITHMS", "find_front", "new_search", "search_arguments", "search_defaults"]

#: What each name stands for. `moga` is as it was published: nothing seeded, nothing released.
ALGORITHMS: Mapping[str, tuple[Callable[..., Search], Mapping[str, Any]]] = MappingProxyType(
    {
        "moga": (Moga, {}),
        "memetic": (Memetic, {}),
        "nsga2": (Nsga, {"version": 2}),
        "nsga3": (Nsga, {"version": 3}),
    }
)

#: The `provisioning` system's names of what searches call otherwise.
_RENAMED: Mapping[str, str] = MappingProxyType({"mutation": "mutation_rate", "seeded": "seeding"})


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
    kind, fixed = _known(algorithm)
    return kind(problem, rng, **fixed, **parameters)


def search_defaults(algorithm: str) -> dict[str, Any]:
    """Return the parameters that a search of that name takes, with their defaults."""
    kind, fixed = _known(algorithm)
    taken = inspect.signature(kind).parameters.values()
    return {
        each.name: each.default
        for each in taken
        if each.kind is inspect.Parameter.KEYWORD_ONLY and each.name not in fixed
    }


def search_arguments(algorithm: str, slots: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a search's own parameters for settings by the names of the `provisioning` system.

    Parameters
    ----------
    algorithm
        One of `ALGORITHMS`.
    slots
        How many there are to choose from.
    settings
        `mutation`, the bits that flip on average, becomes the `mutation_rate` of a bit; `seeded` becomes
        `seeding`; the memetic search has as many `offspring` as its `population`, unless told otherwise.
        Anything else goes by the search's own name.

    Raises
    ------
    SimulationError
        Naming a setting that the search does not know, or that is given by both names.
    """
    told, known = dict(settings), search_defaults(algorithm)
    renamed = {ours: theirs for ours, theirs in _RENAMED.items() if theirs in known}
    names = sorted({*known, *renamed})
    for name in settings:
        if name not in names:
            hint = f"it takes {', '.join(names)}"
            raise SimulationError(f"search={algorithm} knows no {name}", field=name, hint=hint)
        if renamed.get(name, name) != name and renamed[name] in settings:
            raise SimulationError(f"given as {renamed[name]}, too", field=name, hint="leave one of them out")
    if "seeded" in told:
        told["seeding"] = told.pop("seeded")
    if "mutation" in told:
        told["mutation_rate"] = min(1.0, told.pop("mutation") / slots)
    if "offspring" in known and "population" in told:
        told.setdefault("offspring", told["population"])
    return told


def _known(algorithm: str) -> tuple[Callable[..., Search], Mapping[str, Any]]:
    if algorithm not in ALGORITHMS:
        hint = f"one of {', '.join(ALGORITHMS)}"
        raise SimulationError(f"no algorithm is named {algorithm!r}", field="algorithm", hint=hint)
    return ALGORITHMS[algorithm]


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
