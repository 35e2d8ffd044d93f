"""What episodes are drawn from: workflows submitted at random instants of a log, or to random slots."""

from __future__ import annotations

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.provisioning.parameters import ProvisioningParameters
from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.submission import (
    build_site,
    build_workflow,
    draw_instant,
    is_too_narrow,
    offered_slots,
    plan_problem,
    widest_site,
)
from gridtune.workload.workload import Workload

__all__ = ["draw_problems"]

#: Random slots may be too narrow for a workflow: so many are drawn for each problem at most.
_DRAWS = 100


def draw_problems(
    parameters: ProvisioningParameters, log: Workload | None, count: int, seed: int
) -> list[PlanProblem]:
    """Return planning problems at random instants of a log, or on random slots.

    Parameters
    ----------
    parameters
        Of the `provisioning` system. With `workflow=random` each problem has a workflow of its own, from
        `workflow_seed` on.
    log
        What `trace` names; None with random slots.
    count, seed
        How many, and the seed of instants and slots.
    """
    p, rng = parameters, np.random.default_rng(seed)
    site = None if log is None else build_site(log, p)
    read = None if p.workflow == "random" else build_workflow(p, widest_site(p, site))
    problems: list[PlanProblem] = []
    for number in range(count):
        seeded = p.model_copy(update={"workflow_seed": p.workflow_seed + number})
        workflow = read or build_workflow(seeded, widest_site(p, site))
        for _ in range(_DRAWS):
            now = draw_instant(p, site, rng)
            slots = offered_slots(p, site, now, rng)
            if not is_too_narrow(p, workflow, slots):
                problem = plan_problem(p, workflow, slots, now)
                if np.isfinite(problem.evaluate(np.ones((1, len(problem)), np.bool_))).all():
                    problems.append(problem)
                    break
    if not problems:
        raise SimulationError("no slots that were drawn hold the workflow", field="offers")
    return problems
