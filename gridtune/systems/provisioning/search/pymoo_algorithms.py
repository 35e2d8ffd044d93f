"""pymoo's algorithms for a choice of slots; a module of its own, because importing pymoo takes long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.algorithms.moo.nsga3 import NSGA3
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.operators.crossover.pntx import TwoPointCrossover
from pymoo.operators.mutation.bitflip import BitflipMutation
from pymoo.util.ref_dirs import get_reference_directions

from gridtune.types import BoolArray

__all__ = ["algorithm_state", "new_algorithm", "restore_algorithm"]

#: What NSGA-II and NSGA-III note of each plan when they choose the survivors.
_NOTES = ("rank", "crowding", "niche", "dist_to_niche")
#: What NSGA-III knows of the costs it has seen.
_NORMS = ("ideal_point", "worst_point", "nadir_point", "extreme_points")


def new_algorithm(version: int, population: int, first: BoolArray) -> Any:
    """Return NSGA-II or NSGA-III, set up for its first generation, of shape (population, slots)."""
    slots = first.shape[1]
    operators = {
        "pop_size": population,
        "sampling": first,
        "crossover": TwoPointCrossover(),
        "mutation": BitflipMutation(prob=1.0, prob_var=1.0 / slots),
        "eliminate_duplicates": True,
    }
    if version == 2:
        algorithm = NSGA2(**operators)
    else:
        directions = get_reference_directions("das-dennis", 2, n_partitions=population - 1)
        algorithm = NSGA3(ref_dirs=directions, **operators)
    problem = Problem(n_var=slots, n_obj=2, n_ieq_constr=1, xl=0, xu=1, vtype=bool)
    algorithm.setup(problem, termination=("n_gen", np.inf), seed=0, verbose=False)
    return algorithm


def algorithm_state(algorithm: Any) -> dict[str, npt.NDArray[Any]]:
    """Return arrays that an algorithm of the same kind goes on from, between two generations."""
    state = {"generation": np.array(algorithm.n_iter)}
    if not algorithm.is_initialized:
        return {**state, "plans": np.asarray(algorithm.initialization.sampling)}
    population = algorithm.pop
    state |= {"plans": population.get("X"), "costs": population.get("F"), "violations": population.get("G")}
    state |= {name: population.get(name) for name in _NOTES if name in population[0].data}
    norm = getattr(algorithm.survival, "norm", None)
    norms = {name: getattr(norm, name) for name in _NORMS} if norm is not None else {}
    return {**state, **{name: array for name, array in norms.items() if array is not None}}


def restore_algorithm(algorithm: Any, state: Mapping[str, npt.NDArray[Any]]) -> None:
    """Go on from the state of another algorithm of the same kind."""
    algorithm.n_iter = int(state["generation"])
    if "costs" not in state:
        algorithm.initialization.sampling = state["plans"]
        return
    population = Population.new(X=state["plans"], F=state["costs"], G=state["violations"])
    population.set("evaluated", [{"F", "G", "H"} for _ in population])
    for name in _NOTES:
        if name in state:
            population.set(name, state[name])
    algorithm.pop, algorithm.is_initialized = population, True
    for name in _NORMS:
        if name in state:
            setattr(algorithm.survival.norm, name, state[name])
