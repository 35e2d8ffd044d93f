"""`PlanSearch`: a search for plans as a trainable of Ray Tune, one iteration for each of the search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from ray.tune import Trainable

from gridtune.core.array_files import read_arrays, write_arrays
from gridtune.errors import SimulationError
from gridtune.systems.provisioning.metrics import HOUR
from gridtune.systems.provisioning.search.algorithms import new_search, search_arguments, search_defaults
from gridtune.systems.provisioning.search.base import Search, check
from gridtune.systems.provisioning.search.fronts import front_hypervolume, plan_scale, select_plan

__all__ = ["PlanSearch"]

_STATE = "search.npz"
#: With neither `evaluations` nor `iterations`.
_EVALUATIONS = 2000


class PlanSearch(Trainable):
    """Searches step by step, reports the plan that would be chosen, and can be saved after every step.

    Its configuration: `problem`, a `PlanProblem`; `seed`; and, by the names of the `provisioning` system,
    `search` (memetic), `alpha` (0.5), which only chooses from the front, and those of `population`,
    `iterations`, `crossover_points`, `crossover_rate`, `mutation`, `seeded` and `release` that the search
    takes. Parameters that the system does not have go by the search's own names, such as `drop_rate`.
    Defaults are the search's: the memetic one releases slots by default, the system does not. The search ends
    after `iterations` × population plans, or after `evaluations` (2,000).

    It reports, by the names and in the units of the system's metrics, `evaluations`, `front`, `hypervolume`,
    and `allocation_cost` and `workflow_makespan` of the plan that `alpha` chooses; and the least of each on
    the front, `allocation_cost_min` and `workflow_makespan_min`; infinite while there is no plan.
    """

    def setup(self, config: dict[str, Any]) -> None:
        """Begin a search.

        Raises
        ------
        SimulationError
            Naming the setting that is missing, not taken by the search, or out of range.
        """
        settings = dict(config)
        for name in ("problem", "seed"):
            if name not in settings:
                raise SimulationError("a search for plans needs one", field=name)
        problem, rng = settings.pop("problem"), np.random.default_rng(settings.pop("seed"))
        self._alpha, algorithm = settings.pop("alpha", 0.5), settings.pop("search", "memetic")
        check("alpha", self._alpha, 0 <= self._alpha <= 1)
        self._budget = _budget(algorithm, settings)
        arguments = search_arguments(algorithm, len(problem), settings)
        self._search: Search = new_search(algorithm, problem, rng, **arguments)
        self._scale = plan_scale(problem)

    def step(self) -> dict[str, Any]:
        """Evaluate the next plans."""
        evaluated = self._search.step(self._budget - self._search.evaluations)
        costs = self._search.archive.costs
        plan = costs[select_plan(costs, self._alpha)] if len(costs) else np.full(2, np.inf)
        least = costs.min(axis=0) if len(costs) else plan
        return {
            "evaluations": self._search.evaluations,
            "front": len(costs),
            "hypervolume": front_hypervolume(costs, self._scale),
            "allocation_cost": float(plan[0]) / HOUR,
            "workflow_makespan": float(plan[1]),
            "allocation_cost_min": float(least[0]) / HOUR,
            "workflow_makespan_min": float(least[1]),
            "done": evaluated == 0 or self._search.evaluations >= self._budget,
        }

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the state of the search."""
        write_arrays(Path(checkpoint_dir) / _STATE, *self._search.state())

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Resume from a saved state."""
        file = Path(checkpoint) / _STATE
        self._search.restore(*read_arrays(file, "state of a search for plans", error=SimulationError))

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Begin another search in the same process."""
        self.setup(new_config)
        return True


def _budget(algorithm: str, settings: dict[str, Any]) -> int:
    """Take `evaluations` or `iterations` out of the settings; return how many plans may be evaluated."""
    if "iterations" not in settings:
        evaluations: int = settings.pop("evaluations", _EVALUATIONS)
        check("evaluations", evaluations, evaluations >= 1)
        return evaluations
    if "evaluations" in settings:
        message = "given beside iterations, which are a number of evaluations by their population"
        raise SimulationError(message, field="evaluations", hint="leave one of them out")
    iterations: int = settings.pop("iterations")
    check("iterations", iterations, iterations >= 1)
    population: int = settings.get("population", search_defaults(algorithm)["population"])
    return iterations * population
