"""The `provisioning` system: a workflow submitted to a site, on slots reserved for it or task by task."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from cachetools import LRUCache

from gridtune.core.starter import StarterSpace
from gridtune.core.system import FinishedSweep, Outcome, Streams, System, SystemParameters, WorkloadLoader
from gridtune.errors import SimulationError
from gridtune.systems.provisioning.metrics import HOUR, PROVISIONING_METRICS, RENAMED_METRICS, compare
from gridtune.systems.provisioning.parameters import ProvisioningParameters
from gridtune.systems.provisioning.planning.bounds import cost_bound, makespan_bound
from gridtune.systems.provisioning.planning.network import Network
from gridtune.systems.provisioning.planning.plan import Plan
from gridtune.systems.provisioning.planning.problem import PlanProblem, most_at_once
from gridtune.systems.provisioning.published import PUBLISHED
from gridtune.systems.provisioning.search.cell_search import SearchResult, front_metrics, run_search
from gridtune.systems.provisioning.search.pilot import pilot_problem
from gridtune.systems.provisioning.search.selection import select_plan
from gridtune.systems.provisioning.simulator.poisson import poisson_slots
from gridtune.systems.provisioning.simulator.site import Execution, Site, SiteState
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import clean
from gridtune.workload.workflows import Workflow, cybershake_workflow, generate_workflow, read_workflow
from gridtune.workload.workload import Workload

__all__ = ["ProvisioningSystem"]

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
    metrics = PROVISIONING_METRICS
    renamed_metrics = RENAMED_METRICS
    published = PUBLISHED

    def __init__(self) -> None:
        self._sites: LRUCache[Hashable, Site] = LRUCache(8)
        self._workflows: LRUCache[Hashable, Workflow] = LRUCache(8)
        self._results: LRUCache[Hashable, SearchResult] = LRUCache(_CACHED_RESULTS)

    def traces(self, parameters: ProvisioningParameters) -> Iterable[str]:
        """Return the site's log, if there is one."""
        return () if parameters.trace is None else (str(parameters.reference),)

    def code(self, parameters: ProvisioningParameters) -> Mapping[str, str]:
        """Return the checksum of the workflow's file, if it is read from one."""
        if parameters.workflow_is_generated:
            return {}
        file = resolve_trace(parameters.workflow)
        try:
            return {"workflow": hashlib.sha256(file.read_bytes()).hexdigest()}
        except OSError as error:
            raise SimulationError(f"cannot be read: {error.strerror}", path=file) from error

    def preflight(self, parameters: ProvisioningParameters, load: WorkloadLoader) -> None:
        """Refuse a log or a workflow that cannot be used, and tasks wider than the site."""
        traced = parameters.trace is not None
        widest = self._site(parameters, load).processors if traced else max(parameters.slot_sites)
        self._workflow(parameters, widest)

    def starter(self, workload: Workload, processors: int | None) -> StarterSpace:
        """Propose provisioning against best effort, for workflows of narrow and of wide tasks."""
        widest = max(1, (processors or 1) // 4)
        return StarterSpace(
            question=f"Does provisioning get workflows done sooner on {workload.name}?",
            dimensions={
                "approach": ["best_effort", "provisioned"],
                "task_processors": sorted({min(size, widest) for size in (2, 10, 20)}),
            },
            baseline={"approach": "best_effort"},
            objective="workflow_makespan",
            fixed={
                **({} if processors == workload.machine_processors else {"processors": processors}),
                "search": "memetic",
                "population": 20,
                "iterations": 10,
            },
            replicates={"seeds": 20},
        )

    def prepare(self, parameters: Iterable[ProvisioningParameters]) -> None:
        """Compile the site, the planners and the searches, on a few jobs and tasks."""
        workflow = generate_workflow(tasks=3, depth=2, processors=1, max_processors=2)
        for p in {(p.offers, p.search, p.scheduler, p.approach): p for p in parameters}.values():
            rng = np.random.default_rng(0)
            small = p.model_copy(update={"population": 4, "iterations": 2, "slot_sites": (4, 4)})
            slots, state = _slots(small, _small_site() if p.offers == "site" else None, 5, rng)
            if state is not None:
                state.best_effort(workflow)
            if p.approach == "provisioned":
                problem = _problem(small, workflow, slots, 5 if state else 0)
                problem.plan()
                run_search(small, problem, rng)

    def run(
        self, parameters: ProvisioningParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Submit the workflow in both ways and measure both."""
        traces = tuple(self.traces(parameters))
        site = self._site(parameters, load) if traces else None
        workflow = self._workflow(parameters, max(parameters.slot_sites) if site is None else site.processors)
        now = _instant(parameters, site, streams)
        slots, _ = _slots(parameters, site, now, streams("slots"))
        queue = None if site is None else site.at(now).best_effort(workflow)
        notes: dict[str, Any] = {"submitted": now, "workflow": workflow.name, "tasks": len(workflow)}
        if site is not None:
            notes |= {"jobs": len(site), "processors": site.processors}
        metrics = _context(parameters, site, slots, workflow) | _bounds(parameters, workflow, slots, now)
        if parameters.approach == "best_effort":
            if queue is None:
                raise SimulationError("best effort needs a queue", field="approach")
            metrics |= _compared(queue.makespan, queue.allocation_cost, queue)
            return Outcome(metrics, notes, {"tasks": _task_table(workflow, queue)} if tables else {})
        if _too_narrow(parameters, workflow, slots):
            none = dict.fromkeys(("front", "evaluations", "feasible_plans", "feasible"), 0.0)
            undefined = _compared(math.nan, math.nan, queue)
            return Outcome({**metrics, **undefined, **none, "hypervolume": math.nan}, notes)
        problem = _problem(parameters, workflow, slots, now)
        choice = problem
        if site is not None and parameters.search == "pilot":
            choice = pilot_problem(workflow, site.at(now), parameters.scheduler, parameters.pilot_widths)
        rng = streams("search")
        # Alpha only chooses from the front: cells that differ in nothing else share one search.
        settings = parameters.model_dump_json(exclude={"alpha"})
        key = (settings, repr(rng.bit_generator.state), tuple(load(trace).checksum for trace in traces))
        if key not in self._results:
            self._results[key] = run_search(parameters, choice, rng)
        result = self._results[key]
        metrics |= front_metrics(problem, result)
        notes["front"] = result.costs.tolist()
        if len(result.costs) == 0:
            return Outcome({**metrics, **_compared(math.nan, math.nan, queue), "feasible": 0.0}, notes)
        plan = choice.plan(result.plans[select_plan(result.costs, parameters.alpha)])
        makespan, cost = plan.makespan, plan.allocation_cost
        if site is not None:
            execution = site.at(now).provision(plan)
            makespan, cost = execution.makespan, execution.allocation_cost
        metrics |= {**_compared(makespan, cost, queue), "slots_taken": float(plan.taken.sum())}
        return Outcome(metrics, notes, _tables(workflow, plan, result, queue) if tables else {})

    def _workflow(self, parameters: ProvisioningParameters, widest: int) -> Workflow:
        p = parameters
        if p.workflow == "cybershake":
            if "cybershake" not in self._workflows:
                self._workflows["cybershake"] = cybershake_workflow()
            return self._workflows["cybershake"]
        if p.workflow != "random":
            key = (self.code(p)["workflow"], p.workflow_clean)
            if key not in self._workflows:
                path = resolve_trace(p.workflow)
                self._workflows[key] = read_workflow(path, clean=p.workflow_clean).in_whole_seconds()
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
    """Return when the workflow is submitted: the same for every configuration of a replicate."""
    if site is None:
        return 0
    part = parameters.earliest + (parameters.latest - parameters.earliest) * streams("submission").random()
    return int(part * site.span)


def _slots(
    parameters: ProvisioningParameters, site: Site | None, now: int, rng: np.random.Generator
) -> tuple[Slots, SiteState | None]:
    if site is not None:
        state = site.at(now)
        return state.slots(), state
    p = parameters
    slots = poisson_slots(
        rng, processors=p.slot_sites, length=p.slot_length, gap=p.slot_gap, until=p.slot_until
    )
    return slots, None


def _too_narrow(parameters: ProvisioningParameters, workflow: Workflow, slots: Slots) -> bool:
    """Whether a task that a site could hold is wider than all the random slots of any site."""
    p = parameters
    if p.offers == "site" or workflow.widest > max(p.slot_sites):
        return False
    widths = most_at_once(slots, extend=p.extend, together=p.cross_slot != "never")
    return workflow.widest > max(widths.values(), default=0)


def _problem(parameters: ProvisioningParameters, workflow: Workflow, slots: Slots, now: int) -> PlanProblem:
    p = parameters
    sites = len(p.slot_sites) if p.offers == "poisson" else 1
    network = Network.uniform(sites, latency=p.latency, bandwidth=p.bandwidth)
    return PlanProblem(
        workflow, slots, p.scheduler, network=network, cross_slot=p.cross_slot, extend=p.extend, now=now
    )


def _context(
    parameters: ProvisioningParameters, site: Site | None, slots: Slots, workflow: Workflow
) -> dict[str, float]:
    """Return the metrics of what the workflow was submitted to."""
    load = utilisation = math.nan
    if site is not None:
        load = site.offered_load
        begin, end = int(parameters.earliest * site.span), int(parameters.latest * site.span)
        utilisation = site.utilisation(begin, end)
    return {
        "slots": float(len(slots)),
        "tasks": float(len(workflow)),
        "jobs": 0.0 if site is None else float(len(site)),
        "offered_load": load,
        "utilisation": utilisation,
    }


def _bounds(
    parameters: ProvisioningParameters, workflow: Workflow, slots: Slots, now: int
) -> dict[str, float]:
    """Return what no plan on these slots undercuts; undefined where there can be no plan."""
    makespan = makespan_bound(workflow, slots, extend=parameters.extend, now=now)
    return {
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


def _tables(
    workflow: Workflow, plan: Plan, result: SearchResult, queue: Execution | None
) -> dict[str, pa.Table]:
    front = {"allocation_cost": result.costs[:, 0], "makespan": result.costs[:, 1]}
    feasible = {"allocation_cost": result.feasible_costs[:, 0], "makespan": result.feasible_costs[:, 1]}
    tables = {
        "front": pa.table({**front, "slots": result.plans.sum(axis=1)}),
        "solutions": pa.table(feasible),
        "slots": pa.table({**plan.slots.columns(), "taken": plan.taken, "used": plan.used}),
    }
    if queue is not None:
        tables["tasks"] = _task_table(workflow, queue, plan)
    return tables
