"""`PlanSearch`: a search for plans as a trainable of Ray Tune, an iteration being one of the search."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from ray.tune import Trainable

from gridtune.errors import SimulationError
from gridtune.systems.provisioning.search.algorithms import new_search, search_arguments, search_defaults
from gridtune.systems.provisioning.search.quality import front_hypervolume, plan_scale
from gridtune.systems.provisioning.search.search import Search, check
from gridtune.systems.provisioning.search.selection import select_plan

__all__ = ["PlanSearch"]

_STATE = "search.pickle"


#: Of a configuration that says neither `evaluations` nor `iterations`.
_EVALUATIONS = 2000


class PlanSearch(Trainable):
    """Searches step by step, reports the plan that would be chosen, and can be saved after every step.

    Its configuration: `problem`, a `PlanProblem`; `seed`; and, by the names of the `provisioning` system,
    `search` (memetic), `alpha` (0.5), which only chooses from the front, `population`, `iterations`,
    `crossover_points`, `crossover_rate`, `mutation`, `seeded`, `release`, as far as the search knows them.
    Parameters that the system leaves as they are go by the search's own names, such as `drop_rate`. What is
    not said is as the search has it: the memetic one releases unless told otherwise, the system does not. It
    is done after `iterations` × population plans, or after so many `evaluations` (2,000).

    It reports `evaluations`; `plans` in the archive and their `hypervolume`, the metric of that system;
    `allocation_cost` (processor-seconds × price) and `makespan` (seconds) of the plan that `alpha` chooses;
    and the least of each, `least_allocation_cost` and `least_makespan`; infinite while there is no plan.
    """

    def setup(self, config: dict[str, Any]) -> None:
        """Begin a search.

        Raises
        ------
        SimulationError
            Naming what is missing, unknown to the search, or cannot be.
        """
        given = dict(config)
        for name in ("problem", "seed"):
            if name not in given:
                raise SimulationError("a search for plans needs one", field=name)
        problem, rng = given.pop("problem"), np.random.default_rng(given.pop("seed"))
        self._alpha, algorithm = given.pop("alpha", 0.5), given.pop("search", "memetic")
        check("alpha", self._alpha, 0 <= self._alpha <= 1)
        self._budget = _budget(algorithm, given)
        told = search_arguments(algorithm, len(problem), given)
        self._search: Search = new_search(algorithm, problem, rng, **told)
        self._scale = plan_scale(problem)

    def step(self) -> dict[str, Any]:
        """Evaluate the next plans."""
        more = self._search.step(self._budget - self._search.evaluations)
        costs = self._search.archive.costs
        chosen = costs[select_plan(costs, self._alpha)] if len(costs) else np.full(2, np.inf)
        least = costs.min(axis=0) if len(costs) else chosen
        return {
            "evaluations": self._search.evaluations,
            "plans": len(costs),
            "hypervolume": front_hypervolume(costs, self._scale),
            "allocation_cost": float(chosen[0]),
            "makespan": float(chosen[1]),
            "least_allocation_cost": float(least[0]),
            "least_makespan": float(least[1]),
            "done": more == 0 or self._search.evaluations >= self._budget,
        }

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write down the state of the search."""
        (Path(checkpoint_dir) / _STATE).write_bytes(pickle.dumps(self._search.state()))

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from where a search was."""
        self._search.restore(pickle.loads((Path(checkpoint) / _STATE).read_bytes()))

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Begin anew, in the same process."""
        self.setup(new_config)
        return True


def _budget(algorithm: str, given: dict[str, Any]) -> int:
    """Take `evaluations` or `iterations` out of what was given; return how many plans may be evaluated."""
    if "iterations" not in given:
        evaluations: int = given.pop("evaluations", _EVALUATIONS)
        check("evaluations", evaluations, evaluations >= 1)
        return evaluations
    if "evaluations" in given:
        message = "given beside iterations, which are a number of evaluations by their population"
        raise SimulationError(message, field="evaluations", hint="leave one of them out")
    iterations: int = given.pop("iterations")
    check("iterations", iterations, iterations >= 1)
    population: int = given.get("population", search_defaults(algorithm)["population"])
    return iterations * population
