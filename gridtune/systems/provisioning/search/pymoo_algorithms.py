"""pymoo's algorithms for a choice of slots; a module of its own, because importing pymoo takes long."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.algorithms.moo.nsga3 import NSGA3
from pymoo.core.problem import Problem
from pymoo.operators.crossover.pntx import TwoPointCrossover
from pymoo.operators.mutation.bitflip import BitflipMutation
from pymoo.util.ref_dirs import get_reference_directions

__all__ = ["new_algorithm"]


def new_algorithm(version: int, population: int, first: npt.NDArray[np.bool_]) -> Any:
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
