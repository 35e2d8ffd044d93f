"""The `provisioning` system: a workflow submitted to a site, on slots reserved for it or task by task."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from cachetools import LRUCache

from gridtune.core.sources import file_checksums
from gridtune.core.system import (
    Outcome,
    Streams,
    System,
    SystemParameters,
    WorkloadLoader,
)
from gridtune.errors import SimulationError
from gridtune.statistics.pareto import hypervolume
from gridtune.systems.provisioning.metrics import HOUR, PROVISIONING_METRICS, compare
from gridtune.systems.provisioning.parameters import ProvisioningParameters
from gridtune.systems.provisioning.planning.bounds import cost_bound, makespan_bound
from gridtune.systems.provisioning.planning.problem import Plan
from gridtune.systems.provisioning.search.fronts import Archive, select_plan
from gridtune.systems.provisioning.simulator.site import Execution, ReservationSite
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.workflows import Workflow, generate_workflow
from gridtune.workload.workload import Workload

#: Search results that each process caches: a replicate's cells are run one configuration after the other.
_CACHED_RESULTS = 128


class ProvisioningSystem(System):
    """Resource provisioning against best effort.

    A workflow is submitted to a site at a random instant of its log. The slots on offer are those that are
    free then. A search chooses some, a scheduler places the tasks on them, and the site reserves what the
    plan needs before later jobs are submitted. The queue runs the same workflow from the same instant.
    """

    name: ClassVar[str] = "provisioning"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = ProvisioningParameters
    environments: ClassVar[Mapping[str, str]] = {
        "Provisioning-v0": "gridtune.systems.provisioning.environment:ProvisioningEnv"
    }
    metrics = PROVISIONING_METRICS
    papers = (Path(__file__).with_name("paper.yaml"),)

    def __init__(self) -> None:
        self._sites: LRUCache[Hashable, ReservationSite] = LRUCache(8)
        self._workflows: LRUCache[Hashable, Workflow] = LRUCache(8)
        self._results: LRUCache[Hashable, Archive] = LRUCache(_CACHED_RESULTS)

    def file_checksums(self, parameters: ProvisioningParameters) -> Mapping[str, str]:
        """Return the checksum of the workflow's file, if there is one."""
        if parameters.workflow_is_generated:
            return {}
        return file_checksums({"workflow": resolve_trace(parameters.workflow)})

    def preflight(self, parameters: ProvisioningParameters, load: WorkloadLoader) -> None:
        """Refuse a log or a workflow that cannot be used, and tasks wider than the site."""
        site = None if parameters.trace is None else self._site(parameters, load)
        self._workflow(parameters, site)

    def prepare(self, parameters: Iterable[ProvisioningParameters]) -> None:
        """Compile the site, the planners and the searches, on a few jobs and tasks."""
        workflow = generate_workflow(tasks=3, depth=2, processors=1, max_processors=2)
        seconds = np.arange(8)
        columns = {"submit_time": seconds, "run_time": seconds % 3 + 2}
        columns["requested_processors"] = seconds % 2 + 1
        jobs = Workload(columns)
        for p in {(p.offers, p.search, p.scheduler, p.approach): p for p in parameters}.values():
            rng = np.random.default_rng(0)
            few = {"population": 4, "iterations": 2, "evaluations": None}
            search = "all" if p.search == "exact" else p.search
            small = p.model_copy(update={**few, "search": search, "slot_sites": (4, 4)})
            site = ReservationSite(jobs, 3) if p.offers == "site" else None
            now, slots = small.draw_slots(site, rng, rng)
            makespan_bound(workflow, slots, now=now)
            if site is not None:
                site.at(now).best_effort(workflow)
            problem = small.plan_problem(workflow, slots, now)
            if p.approach == "provisioned" and problem is not None:
                problem.plan()
                small.run_search(problem, rng)

    def run(
        self, parameters: ProvisioningParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Submit the workflow in both ways and measure both."""
        traces = tuple(self.traces(parameters))
        site = self._site(parameters, load) if traces else None
        workflow = self._workflow(parameters, site)
        now, slots = parameters.draw_slots(site, streams("submission"), streams("slots"))
        price = parameters.slot_price[0]
        queue = None if site is None else site.at(now).best_effort(workflow, price=price)
        notes: dict[str, Any] = {"submitted": now, "workflow": workflow.name, "tasks": len(workflow)}
        if site is not None:
            notes |= {"jobs": len(site), "processors": site.processors}
        metrics = _context(parameters, site, slots, workflow, now)
        if parameters.approach == "best_effort":
            if queue is None:
                raise SimulationError("best effort needs a queue", field="approach")
            metrics |= _compared(queue.makespan, queue.allocation_cost, queue)
            return Outcome(metrics, notes, {"tasks": _task_table(workflow, queue)} if tables else {})
        problem = parameters.plan_problem(workflow, slots, now)
        if problem is None:
            none = dict.fromkeys(("front", "evaluations", "feasible_plans", "feasible"), 0.0)
            undefined = _compared(math.nan, math.nan, queue)
            return Outcome({**metrics, **undefined, **none, "hypervolume": math.nan}, notes)
        choice = problem
        if site is not None and parameters.search == "pilot":
            choice = parameters.pilot_problem(workflow, site.at(now))
        rng = streams("search")
        # Alpha only chooses from the front: cells that differ in nothing else share one search.
        settings = parameters.model_dump_json(exclude={"alpha"})
        files = (*(load(trace).checksum for trace in traces), *self.file_checksums(parameters).values())
        key = (settings, repr(rng.bit_generator.state), files)
        if key not in self._results:
            self._results[key] = parameters.run_search(choice, rng)
        front, scale = self._results[key], problem.scale()
        metrics |= {
            "front": float(len(front)),
            "hypervolume": math.nan if scale is None else hypervolume(front.costs, scale, reference=1.0),
            "evaluations": float(front.evaluations),
            "feasible_plans": float(len(front.feasible_costs)),
        }
        notes["front"] = front.costs.tolist()
        if len(front) == 0:
            return Outcome({**metrics, **_compared(math.nan, math.nan, queue), "feasible": 0.0}, notes)
        plan = choice.plan(front.plans[select_plan(front.costs, parameters.alpha)])
        makespan, cost = plan.makespan, plan.allocation_cost
        if site is not None:
            execution = site.at(now).provision(plan)
            makespan, cost = execution.makespan, execution.allocation_cost
        metrics |= {**_compared(makespan, cost, queue), "slots_taken": float(plan.taken.sum())}
        return Outcome(metrics, notes, _tables(workflow, plan, front, queue) if tables else {})

    def _workflow(self, parameters: ProvisioningParameters, site: ReservationSite | None) -> Workflow:
        p = parameters
        if p.workflow == "random":
            return p.build_workflow(site)
        key = (p.workflow, p.workflow_clean, self.file_checksums(p).get("workflow"))
        if key not in self._workflows:
            self._workflows[key] = p.build_workflow(site)
        return self._workflows[key]

    def _site(self, parameters: ProvisioningParameters, load: WorkloadLoader) -> ReservationSite:
        (reference,) = self.traces(parameters)
        raw, p = load(reference), parameters
        log = (raw.checksum, p.processors, p.clean, p.first)
        copies = (p.copy_probability, p.copy_shift, p.copy_seed, p.inflation)
        if (log, copies) not in self._sites:
            self._sites[log, copies] = p.build_site(raw)
        return self._sites[log, copies]


def _context(
    parameters: ProvisioningParameters,
    site: ReservationSite | None,
    slots: Slots,
    workflow: Workflow,
    now: int,
) -> dict[str, float]:
    """Return the metrics of a submission before any plan; bounds are undefined where there can be no plan."""
    load = utilisation = math.nan
    if site is not None:
        load = site.offered_load
        begin, end = int(parameters.earliest * site.span), int(parameters.latest * site.span)
        utilisation = site.utilisation(begin, end)
    makespan = makespan_bound(workflow, slots, now=now)
    return {
        "slots": float(len(slots)),
        "tasks": float(len(workflow)),
        "jobs": 0.0 if site is None else float(len(site)),
        "offered_load": load,
        "utilisation": utilisation,
        "workflow_makespan_bound": makespan if math.isfinite(makespan) else math.nan,
        "allocation_cost_bound": cost_bound(workflow, slots) / HOUR,
    }


def _compared(makespan: float, cost: float, queue: Execution | None) -> dict[str, float]:
    best_effort = (math.nan, math.nan) if queue is None else (queue.makespan, queue.allocation_cost)
    return {"feasible": 1.0, **compare(makespan, cost, *best_effort)}


def _task_table(workflow: Workflow, queue: Execution, plan: Plan | None = None) -> pa.Table:
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


def _tables(workflow: Workflow, plan: Plan, archive: Archive, queue: Execution | None) -> dict[str, pa.Table]:
    front = {"allocation_cost": archive.costs[:, 0], "makespan": archive.costs[:, 1]}
    feasible = {"allocation_cost": archive.feasible_costs[:, 0], "makespan": archive.feasible_costs[:, 1]}
    tables = {
        "front": pa.table({**front, "slots": archive.plans.sum(axis=1)}),
        "solutions": pa.table(feasible),
        "slots": pa.table({**plan.slots.columns(), "taken": plan.taken, "used": plan.used}),
    }
    if queue is not None:
        tables["tasks"] = _task_table(workflow, queue, plan)
    return tables
