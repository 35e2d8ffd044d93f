"""Small planning problems, and the searches by name."""

from __future__ import annotations

import numpy as np

from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.workload.workflows.workflow import generate_workflow


def small_problem(seed: int, slots: int = 10) -> PlanProblem:
    """Return a problem with cheap and expensive, early and late slots, the last of which holds everything."""
    rng = np.random.default_rng(seed)
    start = np.sort(rng.integers(0, 300, slots))
    last = np.arange(slots) == slots - 1
    on_offer = Slots.of(
        np.where(last, 200, start),
        np.where(last, 10_000, rng.integers(100, 400, slots)),
        np.where(last, 8, rng.integers(1, 7, slots)),
        price=rng.choice([0.5, 1.0, 2.0], slots),
        divisible=last | (rng.random(slots) < 0.2),
        extensible=last,
    )
    workflow = generate_workflow(
        seed=seed, tasks=12, depth=3, run_time=50, processors=2, max_processors=4, communication=0
    )
    return PlanProblem(workflow, on_offer)
