"""The `provisioning` system: a workflow submitted to a site, on slots held for it or task by task."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from cachetools import LRUCache

from gridtune.core.system import FinishedSweep, Outcome, Streams, System, SystemParameters, WorkloadLoader
from gridtune.errors import SimulationError
from gridtune.systems.provisioning.metrics import PROVISIONING_METRICS, compare
from gridtune.systems.provisioning.parameters import ProvisioningParameters
from gridtune.systems.provisioning.planning.network import Network
from gridtune.systems.provisioning.planning.plan import Plan
from gridtune.systems.provisioning.planning.problem import PlanProblem, most_at_once
from gridtune.systems.provisioning.search.selection import select_plan
from gridtune.systems.provisioning.searching import Found, measure_front, search_front
from gridtune.systems.provisioning.simulator.poisson import poisson_slots
from gridtune.systems.provisioning.simulator.site import Execution, Site, SiteState
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import clean
from gridtune.workload.workflows import Workflow, cybershake_workflow, generate_workflow, read_workflow
from gridtune.workload.workload import Workload

__all__ = ["ProvisioningSystem"]

#: Fronts that each process keeps: a replicate's cells come one configuration after the other.
_FRONTS = 128

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class ProvisioningSystem(System):
    """Resource provisioning against best effort.

    A workflow comes to a site at a random instant of its log. Its slots are those that the site has free
    then; a search chooses some, a scheduler lays the workflow onto them, and what the plan needs is held
    before any later job comes. Beside it, from the same instant, the same workflow is run by the queue.
    """

    name: ClassVar[str] = "provisioning"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = ProvisioningParameters

    def __init__(self) -> None:
        self._sites: LRUCache[Hashable, Site] = LRUCache(8)
        self._workflows: LRUCache[Hashable, Workflow] = LRUCache(8)
        self._fronts: LRUCache[Hashable, Found] = LRUCache(_FRONTS)

    metrics = PROVISIONING_METRICS

    def traces(self, parameters: ProvisioningParameters) -> Iterable[str]:
        """Return the site's log, if there is one; where rules were asked for, the reader is told of them."""
        return () if parameters.trace is None else (str(parameters.reference),)

    def code(self, parameters: ProvisioningParameters) -> Mapping[str, str]:
        """Return the checksum of the workflow's file, where it is read from one."""
        if parameters.workflow_is_made:
            return {}
        file = resolve_trace(parameters.workflow)
        try:
            return {"workflow": hashlib.sha256(file.read_bytes()).hexdigest()}
        except OSError as error:
            raise SimulationError(f"cannot be read: {error.strerror}", path=file) from error

    def prepare(self, parameters: Iterable[ProvisioningParameters]) -> None:
        """Compile the site, the planners and the searches, on a handful of jobs and tasks."""
        small = generate_workflow(tasks=3, depth=2, processors=1, max_processors=2)
        known = {(each.offers, each.search, each.scheduler, each.approach): each for each in parameters}
        for each in known.values():
            rng = np.random.default_rng(0)
            update: dict[str, Any] = {"population": 4, "iterations": 2, "slot_sites": (4, 4)}
            few = each.model_copy(update=update)
            offers, state = _offers(few, _small_site() if few.offers == "site" else None, 5, rng)
            if state is not None:
                state.best_effort(small)
            if few.approach == "provisioned":
                problem = _problem(few, small, offers, 5 if state else 0)
                problem.plan()
                search_front(few, problem, rng)

    def run(
        self, parameters: ProvisioningParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Submit the workflow, both ways, and measure what comes of it."""
        traces = tuple(self.traces(parameters))
        site = self._site(parameters, load) if traces else None
        workflow = self._workflow(parameters, max(parameters.slot_sites) if site is None else site.processors)
        now = _instant(parameters, site, streams)
        offers, _ = _offers(parameters, site, now, streams("slots"))
        queue = None if site is None else site.at(now).best_effort(workflow)
        notes: dict[str, Any] = {"submitted": now, "workflow": workflow.name, "tasks": len(workflow)}
        if site is not None:
            notes |= {"jobs": len(site), "processors": site.processors}
        metrics = _context(parameters, site, offers, workflow)
        if parameters.approach == "best_effort":
            if queue is None:
                raise SimulationError("best effort needs a queue", field="approach")
            metrics |= _measured(queue.makespan, queue.allocation_cost, queue)
            return Outcome(metrics, notes, {"tasks": _task_table(workflow, queue)} if tables else {})
        if _out_of_reach(parameters, workflow, offers):
            none = dict.fromkeys(("front", "evaluations", "feasible_plans", "feasible"), 0.0)
            undefined = _measured(math.nan, math.nan, queue)
            return Outcome({**metrics, **undefined, **none, "hypervolume": math.nan}, notes)
        problem = _problem(parameters, workflow, offers, now)
        rng = streams("search")
        # The front does not depend on what is chosen from it: cells that differ in that alone share one.
        stated = parameters.model_dump_json(exclude={"alpha"})
        begun = (stated, repr(rng.bit_generator.state), tuple(load(each).checksum for each in traces))
        if begun not in self._fronts:
            self._fronts[begun] = search_front(parameters, problem, rng)
        found = self._fronts[begun]
        metrics |= measure_front(problem, found)
        notes["front"] = found.costs.tolist()
        if len(found.costs) == 0:
            return Outcome({**metrics, **_measured(math.nan, math.nan, queue), "feasible": 0.0}, notes)
        plan = _chosen(parameters, problem, found)
        makespan, cost = plan.makespan, plan.allocation_cost
        if site is not None:
            done = site.at(now).provision(plan)
            makespan, cost = done.makespan, done.allocation_cost
        metrics |= {**_measured(makespan, cost, queue), "slots_taken": float(plan.chosen.sum())}
        made = _tables(workflow, plan, found, queue) if tables else {}
        return Outcome(metrics, notes, made)

    def _workflow(self, parameters: ProvisioningParameters, widest: int) -> Workflow:
        p = parameters
        if p.workflow == "cybershake":
            if "cybershake" not in self._workflows:
                self._workflows["cybershake"] = cybershake_workflow()
            return self._workflows["cybershake"]
        if p.workflow != "random":
            key = (self.code(p)["workflow"], p.workflow_clean)
            if key not in self._workflows:
                self._workflows[key] = _read_workflow(p)
            return self._workflows[key]
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

    def _site(self, parameters: ProvisioningParameters, load: WorkloadLoader) -> Site:
        (reference,) = self.traces(parameters)
        raw, p = load(reference), parameters
        log = (raw.checksum, p.processors, p.clean, p.first)
        copies = (p.copy_probability, p.copy_shift, p.copy_seed, p.inflation)
        if (log, copies) not in self._sites:
            self._sites[log, copies] = _build_site(raw, p)
        return self._sites[log, copies]

    def report(self, sweep: FinishedSweep) -> list[Path]:
        """Write the publication's tables and figures, with the published numbers beside ours."""
        from gridtune.systems.provisioning.report import write  # noqa: PLC0415 (matplotlib)

        return write(sweep)


def _read_workflow(parameters: ProvisioningParameters) -> Workflow:
    path = resolve_trace(parameters.workflow)
    return read_workflow(path, clean=parameters.workflow_clean).in_whole_seconds()


def _build_site(raw: Workload, parameters: ProvisioningParameters) -> Site:

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
    return Site(workload, size, inflation=p.inflation)


def _small_site() -> Site:

    seconds = np.arange(8)
    columns = {"submit_time": seconds, "run_time": seconds % 3 + 2, "requested_processors": seconds % 2 + 1}
    return Site(Workload(columns), 3)


def _instant(parameters: ProvisioningParameters, site: Site | None, streams: Streams) -> int:
    """Return when the workflow comes: the same for every configuration of a replicate."""
    if site is None:
        return 0
    part = parameters.earliest + (parameters.latest - parameters.earliest) * streams("submission").random()
    return int(part * site.span)


def _offers(
    parameters: ProvisioningParameters, site: Site | None, now: int, rng: np.random.Generator
) -> tuple[Slots, SiteState | None]:
    if site is not None:
        state = site.at(now)
        return state.slots(), state

    p = parameters
    made = poisson_slots(
        rng, processors=p.slot_sites, length=p.slot_length, gap=p.slot_gap, until=p.slot_until
    )
    return made, None


def _out_of_reach(parameters: ProvisioningParameters, workflow: Workflow, offers: Slots) -> bool:
    """Whether a task that a site could hold is wider than all that was offered of any, by chance."""
    p = parameters
    if p.offers == "site" or workflow.widest > max(p.slot_sites):
        return False
    held = most_at_once(offers, extend=p.extend, together=p.cross_slot != "never")
    return workflow.widest > max(held.values(), default=0)


def _problem(parameters: ProvisioningParameters, workflow: Workflow, offers: Slots, now: int) -> PlanProblem:

    p = parameters
    sites = len(p.slot_sites) if p.offers == "poisson" else 1
    network = Network.uniform(sites, latency=p.latency, bandwidth=p.bandwidth)
    how: dict[str, Any] = {"network": network, "cross_slot": p.cross_slot, "extend": p.extend, "now": now}
    return PlanProblem(workflow, offers, p.scheduler, **how)


def _chosen(parameters: ProvisioningParameters, problem: PlanProblem, found: Found) -> Plan:

    return problem.plan(found.plans[select_plan(found.costs, parameters.alpha)])


def _context(
    parameters: ProvisioningParameters, site: Site | None, offers: Slots, workflow: Workflow
) -> dict[str, float]:
    """Return what the workflow met with."""
    load = use = math.nan
    if site is not None:
        load = site.offered_load
        use = site.utilisation(int(parameters.earliest * site.span), int(parameters.latest * site.span))
    return {
        "slots": float(len(offers)),
        "tasks": float(len(workflow)),
        "jobs": 0.0 if site is None else float(len(site)),
        "offered_load": load,
        "utilisation": use,
    }


def _measured(makespan: float, cost: float, queue: Execution | None) -> dict[str, float]:

    theirs = (math.nan, math.nan) if queue is None else (queue.makespan, queue.allocation_cost)
    return {"feasible": 1.0, **compare(makespan, cost, *theirs)}


def _task_table(workflow: Workflow, queue: Execution, plan: Plan | None = None) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415

    columns: dict[str, Any] = {
        "task": list(workflow.names),
        "level": workflow.level,
        "processors": workflow.processors,
        "queue_submit": queue.submit,
        "queue_start": queue.start,
        "queue_finish": queue.finish,
    }
    if plan is not None:
        columns |= {"plan_start": plan.start, "plan_finish": plan.finish}
    return pa.table(columns)


def _tables(workflow: Workflow, plan: Plan, found: Found, queue: Execution | None) -> dict[str, pa.Table]:
    import pyarrow as pa  # noqa: PLC0415

    front = {"allocation_cost": found.costs[:, 0], "makespan": found.costs[:, 1]}
    tables = {
        "front": pa.table({**front, "slots": found.plans.sum(axis=1)}),
        "solutions": pa.table({"allocation_cost": found.seen[:, 0], "makespan": found.seen[:, 1]}),
        "slots": pa.table({**plan.slots.columns(), "taken": plan.chosen, "used": plan.used}),
    }
    if queue is not None:
        tables["tasks"] = _task_table(workflow, queue, plan)
    return tables
