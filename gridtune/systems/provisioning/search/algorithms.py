"""The searches by name, and the one call that runs any of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.provisioning.search.archive import Archive
from gridtune.systems.provisioning.search.base import Evaluator, Search
from gridtune.systems.provisioning.search.memetic import Memetic
from gridtune.systems.provisioning.search.moga import Moga
from gridtune.systems.provisioning.search.nsga import Nsga
from gridtune.systems.provisioning.search.random_search import RandomSearch

__all__ = ["ALGORITHMS", "find_front", "new_search", "search_arguments", "search_defaults"]

#: The class of each search, and its fixed arguments. `moga` is as published: not seeded, nothing released.
ALGORITHMS: Mapping[str, tuple[Callable[..., Search], Mapping[str, Any]]] = MappingProxyType(
    {
        "moga": (Moga, {}),
        "memetic": (Memetic, {}),
        "nsga2": (Nsga, {"version": 2}),
        "nsga3": (Nsga, {"version": 3}),
        "random": (RandomSearch, {}),
    }
)

#: Parameters of the `provisioning` system to the searches' own names for them.
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
        The source of all random numbers.
    parameters
        Of the search; see its class.

    Raises
    ------
    SimulationError
        If there is no such algorithm, or a parameter is out of range.
    """
    search, fixed = _find(algorithm)
    return search(problem, rng, **fixed, **parameters)


def search_defaults(algorithm: str) -> dict[str, Any]:
    """Return the parameters that a search of that name takes, with their defaults."""
    search, fixed = _find(algorithm)
    return {
        parameter.name: parameter.default
        for parameter in inspect.signature(search).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.name not in fixed
    }


def search_arguments(algorithm: str, slots: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a search's own parameters for settings by the names of the `provisioning` system.

    Parameters
    ----------
    algorithm
        One of `ALGORITHMS`.
    slots
        The number of slots to choose from.
    settings
        `mutation`, the mean number of bits that flip, becomes the `mutation_rate` of a bit; `seeded` becomes
        `seeding`; the memetic search has as many `offspring` as its `population` unless `offspring` is set.
        Every other setting has the search's own name.

    Raises
    ------
    SimulationError
        Naming a setting that the search does not take, or that is given by both names.
    """
    arguments, defaults = dict(settings), search_defaults(algorithm)
    renamed = {ours: theirs for ours, theirs in _RENAMED.items() if theirs in defaults}
    names = sorted({*defaults, *renamed})
    for name in settings:
        if name not in names:
            hint = f"it takes {', '.join(names)}"
            raise SimulationError(f"search={algorithm} has no setting {name}", field=name, hint=hint)
        if renamed.get(name, name) != name and renamed[name] in settings:
            raise SimulationError(f"given as {renamed[name]}, too", field=name, hint="leave one of them out")
    if "seeded" in arguments:
        arguments["seeding"] = arguments.pop("seeded")
    if "mutation" in arguments:
        arguments["mutation_rate"] = min(1.0, arguments.pop("mutation") / slots)
    if "offspring" in defaults and "population" in arguments:
        arguments.setdefault("offspring", arguments["population"])
    return arguments


def _find(algorithm: str) -> tuple[Callable[..., Search], Mapping[str, Any]]:
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
    """Search until that many plans have been evaluated; return those that no other one dominates.

    Examples
    --------
    ::

        problem = PlanProblem(workflow, slots, "heft")
        front = find_front("memetic", problem, np.random.default_rng(1), evaluations=2000)
        plan = problem.plan(front.plans[select_plan(front.costs, alpha=0.5)])
    """
    return new_search(algorithm, problem, rng, **parameters).run(evaluations)
