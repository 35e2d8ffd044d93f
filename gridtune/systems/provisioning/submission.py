"""Submissions from parameters: the site, the instant, the workflow, the slots and the search among them."""

from __future__ import annotations

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.provisioning.parameters import SEARCHES, ProvisioningParameters
from gridtune.systems.provisioning.planning.problem import PlanProblem, most_at_once
from gridtune.systems.provisioning.search.fronts import Archive, enumerate_front, heuristic_plans
from gridtune.systems.provisioning.search.genetic import Memetic, Moga, RandomSearch, Search
from gridtune.systems.provisioning.simulator.site import ReservationSite
from gridtune.systems.provisioning.simulator.slots import Slots, poisson_slots
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import clean
from gridtune.workload.workflows import Workflow, cybershake_workflow, generate_workflow, read_workflow
from gridtune.workload.workload import Workload

__all__ = ["build_site", "build_workflow", "draw_problems", "draw_slots", "plan_problem", "run_search"]


def build_site(raw: Workload, parameters: ProvisioningParameters) -> ReservationSite:
    """Return the site that replays a log, as far as the parameters select it."""
    p = parameters
    workload, _ = clean(raw, p.rules, processors=p.processors)
    if p.first is not None:
        workload = workload.first(p.first)
    size = p.processors or workload.machine_processors
    if size is None:
        raise SimulationError("the log does not give the site's size", field="processors")
    if len(workload) == 0:
        raise SimulationError(f"no job of {raw.name} is left by the selection")
    if p.copy_probability:
        rng = np.random.default_rng(p.copy_seed)
        workload = workload.add_shifted_copy(p.copy_probability, p.copy_shift, rng)
    return ReservationSite(workload, size, inflation=p.inflation)


def build_workflow(parameters: ProvisioningParameters, site: ReservationSite | None) -> Workflow:
    """Return the workflow, generated or read; its tasks can be as wide as the site, or the largest site."""
    p = parameters
    widest = max(p.slot_sites) if site is None else site.processors
    if p.workflow == "cybershake":
        return cybershake_workflow()
    if p.workflow != "random":
        return read_workflow(resolve_trace(p.workflow), clean=p.workflow_clean).in_whole_seconds()
    if p.task_processors > widest:
        message = f"cannot be {p.task_processors:g} on a site of {widest} processors"
        raise SimulationError(message, field="task_processors")
    return generate_workflow(
        seed=p.workflow_seed,
        tasks=p.tasks,
        depth=p.depth,
        run_time=p.run_time,
        processors=p.task_processors,
        max_processors=widest,
        fan_in=p.fan_in,
        communication=p.communication,
        bandwidth=p.bandwidth,
    )


def draw_slots(
    parameters: ProvisioningParameters,
    site: ReservationSite | None,
    instants: np.random.Generator,
    rng: np.random.Generator,
) -> tuple[int, Slots]:
    """Return the second at which a workflow is submitted, and the slots on offer then, or random ones."""
    p = parameters
    if site is not None:
        now = int((p.earliest + (p.latest - p.earliest) * instants.random()) * site.span)
        return now, site.at(now).slots(price=p.slot_price[0], fixed=p.slot_fixed_price[0])
    slots = poisson_slots(
        rng, processors=p.slot_sites, length=p.slot_length, gap=p.slot_gap, until=p.slot_until
    )
    return 0, slots.priced(p.slot_price, p.slot_fixed_price)


def plan_problem(
    parameters: ProvisioningParameters, workflow: Workflow, slots: Slots, now: int
) -> PlanProblem | None:
    """Return the choice among the slots on offer; None if random ones are always too narrow for a task."""
    p = parameters
    if p.offers == "poisson" and workflow.widest <= max(p.slot_sites):
        widths = most_at_once(slots, extend=p.extend, together=p.cross_slot != "never")
        if workflow.widest > widths.max(initial=0):
            return None
    return PlanProblem(
        workflow,
        slots,
        p.scheduler,
        latency=p.latency,
        bandwidth=p.bandwidth,
        cross_slot=p.cross_slot,
        extend=p.extend,
        now=now,
    )


#: Random slots may be too narrow for a workflow: so many are drawn for each problem at most.
_DRAWS = 100
#: Workflows that no drawn slots held, before the first that some did hold, after which drawing is given up.
_WORKFLOWS = 3


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
    read = None if p.workflow == "random" else build_workflow(p, site)
    problems: list[PlanProblem] = []
    for number in range(count):
        seeded = p.model_copy(update={"workflow_seed": p.workflow_seed + number})
        workflow = read or build_workflow(seeded, site)
        for _ in range(_DRAWS):
            now, slots = draw_slots(p, site, rng, rng)
            problem = plan_problem(p, workflow, slots, now)
            if (
                problem is not None
                and np.isfinite(problem.evaluate(np.ones((1, len(problem)), np.bool_))).all()
            ):
                problems.append(problem)
                break
        if not problems and number + 1 >= min(count, _WORKFLOWS):
            raise SimulationError(
                f"no slots that were drawn hold the workflow: {number + 1} × {_DRAWS} draws",
                field="offers",
                hint="for random slots the paper has run_time=100 task_processors=1 communication=1",
            )
    return problems


#: The most plans of simple rules: as many as the memetic search begins with.
_RULES = 40


def run_search(parameters: ProvisioningParameters, problem: PlanProblem, rng: np.random.Generator) -> Archive:
    """Return the front of a cell's search; that of a few plans where simple rules choose the slots."""
    p = parameters
    if p.search == "exact":
        return enumerate_front(problem, record=True)
    archive = Archive(len(problem), record=True)
    if p.search in SEARCHES:
        search = _new_search(p, problem, rng)
        search.archive = archive
        return search.run(p.evaluations or p.population * p.iterations)
    if p.search == "pilot":  # each slot is a job, and one of them is submitted
        plans = np.eye(len(problem), dtype=np.bool_)
    elif p.search == "rules":
        plans = heuristic_plans(problem, _RULES)
    elif p.search == "all":
        plans = np.ones((1, len(problem)), np.bool_)
    else:
        plans = problem.slots.divisible[None, :]
    if p.release:
        costs, plans = problem.evaluate_released(plans)
    else:
        costs = problem.evaluate(plans)
    archive.add(costs, plans)
    return archive


def _new_search(p: ProvisioningParameters, problem: PlanProblem, rng: np.random.Generator) -> Search:
    if p.search == "random":
        return RandomSearch(problem, rng, population=p.population, release=p.release)
    if p.search == "memetic":
        size = {"population": p.population, "offspring": p.population}
        return Memetic(problem, rng, **size, release=p.release)
    if p.search == "moga":
        return Moga(
            problem,
            rng,
            population=p.population,
            crossover_points=p.crossover_points,
            crossover_rate=p.crossover_rate,
            mutation_rate=min(1.0, p.mutation / len(problem)),
            seeding=p.seeded,
            release=p.release,
        )
    from gridtune.systems.provisioning.search.genetic import Nsga2, Nsga3  # noqa: PLC0415 (pymoo)

    kind = Nsga2 if p.search == "nsga2" else Nsga3
    return kind(problem, rng, population=p.population, seeding=p.seeded, release=p.release)
