"""`PlanSearch`: a search for plans as a trainable of Ray Tune, an iteration being one of the search."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from ray.tune import Trainable

from gridtune.agents.planning.algorithms import new_search
from gridtune.agents.planning.search import Search
from gridtune.agents.planning.selection import select_plan

__all__ = ["PlanSearch"]

_STATE = "search.pickle"


class PlanSearch(Trainable):
    """Searches step by step, reports the plan that would be chosen, and can be saved after every step.

    Its configuration: `problem`, a `PlanProblem`; `seed`; `algorithm` (memetic); `alpha` (0.5), which only
    chooses from the front; `evaluations` (2,000), after which it is done; anything else goes to the search:
    `population`, `crossover_points`, `mutation_rate` and so on.

    It reports `evaluations`, `plans` in the archive, `allocation_cost` and `makespan` of the plan chosen, and
    the least of each, `least_allocation_cost` and `least_makespan`; infinite while there is no plan.
    """

    def setup(self, config: dict[str, Any]) -> None:
        """Begin a search."""
        given = dict(config)
        self._alpha, self._budget = given.pop("alpha", 0.5), given.pop("evaluations", 2000)
        rng = np.random.default_rng(given.pop("seed"))
        self._search: Search = new_search(
            given.pop("algorithm", "memetic"), given.pop("problem"), rng, **given
        )

    def step(self) -> dict[str, Any]:
        """Evaluate the next plans."""
        more = self._search.step(self._budget - self._search.evaluations)
        costs = self._search.archive.costs
        chosen = costs[select_plan(costs, self._alpha)] if len(costs) else np.full(2, np.inf)
        least = costs.min(axis=0) if len(costs) else chosen
        return {
            "evaluations": self._search.evaluations,
            "plans": len(costs),
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
