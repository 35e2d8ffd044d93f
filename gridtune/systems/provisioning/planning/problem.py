"""`PlanProblem`: the choice of slots for a workflow, as a search over bit strings; and a `Plan` of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import handles_of, kernel
from gridtune.errors import SimulationError
from gridtune.statistics.pareto import Scale
from gridtune.systems.provisioning.planning.placement import (
    CROSS_SLOT,
    INFINITE,
    Graph,
    Instance,
    SlotColumns,
    new_workspace,
)
from gridtune.systems.provisioning.planning.schedulers import SCHEDULERS, make_plan, payment, upward_ranks
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.types import BoolArray, FloatArray, IntArray
from gridtune.workload.workflows import Workflow


@kernel()
def _evaluate_plans(problem, memory, population, release, costs, used):
    """Evaluate plans.

    Parameters
    ----------
    problem, memory
        As in `make_plan`.
    population
        Shape (plans, slots), bool.
    release
        Whether a plan releases the slots that none of its tasks uses, and pays for the others only.
    costs
        Shape (plans, 2), float64, filled in: allocation cost and makespan; infinite if infeasible.
    used
        Shape (plans, slots), bool, filled in: slots that tasks use.
    """
    for index in range(len(population)):
        work, slots, last = make_plan(problem, memory, population[index])
        feasible, cost = last < INFINITE, 0.0
        for slot in range(work.slots):
            used[index, slot] = feasible and work.taken[slot] == 1
            if feasible and (used[index, slot] if release else population[index, slot]):
                cost += payment(work, slots, slot)
        costs[index, 0] = cost if feasible else INFINITE
        costs[index, 1] = last - problem.now if feasible else INFINITE


@kernel()
def _write_plan(problem, memory, plan):
    """Make one plan; arguments as in `make_plan`.

    Returns
    -------
    cost, last
        The allocation cost, and the end of the last task; infinite if the plan is infeasible.
    site, start, finish
        Shape (n,), by task; empty if the plan is infeasible.
    first
        Shape (n + 1,): the first piece of each task, in the order of planning.
    slot, processors
        Shape (p,), by piece.
    """
    work, slots, last = make_plan(problem, memory, plan)
    feasible, cost = last < INFINITE, INFINITE
    tasks, pieces = (work.tasks, work.pieces[0]) if feasible else (0, 0)
    site, first = np.empty(tasks, np.int64), np.zeros(tasks + 1, np.int64)
    start, finish = np.empty(tasks), np.empty(tasks)
    slot, processors = np.empty(pieces, np.int64), np.empty(pieces, np.int64)
    for task in range(tasks):
        site[task], start[task], finish[task] = work.at[task], work.start[task], work.finish[task]
        first[task] = work.piece_first[task]
    for piece in range(pieces):
        slot[piece], processors[piece] = work.piece_slot[piece], work.piece_processors[piece]
    if feasible:
        cost = 0.0
        for index in range(work.slots):
            if plan[index]:
                cost += payment(work, slots, index)
    return cost, last, site, start, finish, first, slot, processors


class _Reservations(NamedTuple):
    """Reservations of a plan at a site, in columns of shape (r,): processors of a slot in [start, end)."""

    slot: IntArray
    start: FloatArray
    end: FloatArray
    processors: IntArray


@dataclass(frozen=True, eq=False)
class Plan:
    """A workflow placed on slots.

    Attributes
    ----------
    slots
        The slots on offer.
    taken
        Shape (slots,), bool: the slots of the plan.
    site, start, finish
        Shape (n,), int64 and float64 seconds: where and when each task runs; empty if the plan is
        infeasible.
    pieces
        Shape (n + 1,), int64: task i holds the pieces `pieces[i] : pieces[i + 1]`.
    piece_slot, piece_processors
        Shape (p,), int64: the slot and the number of processors of a piece, held while the task runs.
    allocation_cost
        Σ price × processors × seconds paid + fixed price; infinite if the plan is infeasible.
    makespan
        Seconds from `now` to the end of the last task (the scheduling cost); infinite if infeasible.
    now
        The second at which the plan is made; no task starts earlier.
    """

    slots: Slots
    taken: BoolArray
    site: IntArray
    start: FloatArray
    finish: FloatArray
    pieces: IntArray
    piece_slot: IntArray
    piece_processors: IntArray
    allocation_cost: float
    makespan: float
    now: float

    @property
    def feasible(self) -> bool:
        """True if every task has a place."""
        return math.isfinite(self.makespan)

    @property
    def piece_task(self) -> IntArray:
        """Shape (p,), int64: the task of each piece."""
        return np.repeat(np.arange(len(self.start)), np.diff(self.pieces))

    @property
    def used(self) -> BoolArray:
        """Shape (slots,), bool: slots that some task uses."""
        used = np.zeros(len(self.slots), bool)
        used[self.piece_slot] = True
        return used

    def reservations(self) -> _Reservations:
        """Return what must be reserved and paid for: the used parts of divisible slots, all of the others.

        A slot that cannot be divided is held from its start to its end, or to the end of the last task on it
        if that is later. Tasks of no length hold nothing.
        """
        owner, divisible = self.piece_task, self.slots.divisible[self.piece_slot]
        lasting = self.finish[owner] > self.start[owner]
        parts = divisible & lasting
        whole = np.flatnonzero(self.taken & ~self.slots.divisible)
        until = self.slots.end.astype(np.float64)
        np.maximum.at(until, self.piece_slot, self.finish[owner])
        return _Reservations(
            np.concatenate([whole, self.piece_slot[parts]]),
            np.concatenate([self.slots.start[whole].astype(np.float64), self.start[owner[parts]]]),
            np.concatenate([until[whole], self.finish[owner[parts]]]),
            np.concatenate([self.slots.processors[whole], self.piece_processors[parts]]),
        )


class _Evaluation(NamedTuple):
    """The costs of plans and the slots they use.

    Attributes
    ----------
    costs
        Shape (plans, 2), float64: allocation cost and makespan; both infinite for an infeasible plan.
    used
        Shape (plans, slots), bool: the slots that tasks use.
    """

    costs: FloatArray
    used: BoolArray


class PlanProblem:
    """A workflow, the slots on offer, and the scheduler that places the tasks on slots.

    A plan is a row of bits, one for each slot: 1 if it is taken. Its two costs, both minimised, are the
    allocation cost (what is paid) and the scheduling cost (the makespan). A plan on which the workflow cannot
    be scheduled has infinite costs.

    Parameters
    ----------
    workflow, slots
        What to run, and what is on offer. Sites count from 0 in slots, run times and network.
    scheduler
        `heft`: by upward rank, where each task ends first; `greedy`: parents first, where the makespan grows
        least; `min-min`, `max-min`: level by level, the task that can end first, or last, before the others.
        Ties go to the slot that ends first, then to the first. All fill gaps (insertion).
    latency, bandwidth
        Of a transfer between two sites: seconds, and bytes per second; by default it takes no time. Inside a
        site it takes none.
    cross_slot
        Whether a task may use several slots of a site: `never`; `narrow`, if no single slot can hold it;
        `always`, whenever it ends earlier.
    now
        Seconds: no task starts earlier, and the makespan counts from it.

    Raises
    ------
    SimulationError
        If there are no slots, or a task cannot run in all of them together; it names the task.

    References
    ----------
    G. Singh, C. Kesselman, E. Deelman, "A provisioning model and its comparison with best-effort for
    performance-cost optimization in grids", HPDC 2007, sections 2, 3 and 5.
    """

    def __init__(
        self,
        workflow: Workflow,
        slots: Slots,
        scheduler: str = "heft",
        *,
        latency: float = 0.0,
        bandwidth: float = np.inf,
        cross_slot: str = "always",
        now: float = 0.0,
    ) -> None:
        self.workflow, self.slots, self.scheduler = workflow, slots, scheduler
        self.latency, self.bandwidth = latency, bandwidth
        self.cross_slot, self.now = cross_slot, float(now)
        for kind, name, names in (
            ("scheduler", scheduler, SCHEDULERS),
            ("cross_slot", cross_slot, CROSS_SLOT),
        ):
            if name not in names:
                hint = f"one of {', '.join(names)}"
                raise SimulationError(f"no {kind} is named {name!r}", field=kind, hint=hint)
        if not (math.isfinite(now) and now >= 0):
            raise SimulationError(f"a plan begins at a time from 0 on, not at {now}", field="now")
        if len(slots) == 0:
            raise SimulationError("there are no slots to plan on", field="slots")
        if not (0 <= latency < math.inf and bandwidth > 0):
            raise SimulationError(f"a latency of {latency} s, a bandwidth of {bandwidth} bytes/s")
        self.sites = self._count_sites()
        self._check_widths()
        #: The arrays of a `Graph` and of `SlotColumns`.
        self._columns = (*self._graph(), *_slot_columns(slots))
        #: The problem as the kernels take it, memory of a plan, and its handles.
        self._compiled: tuple[Instance, IntArray, IntArray] | None = None

    def __len__(self) -> int:
        """Return the number of slots: the bits of a plan."""
        return len(self.slots)

    def __repr__(self) -> str:
        return f"PlanProblem({self.workflow!r} on {self.slots!r}, {self.scheduler})"

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_compiled": None}

    def _check_widths(self) -> None:
        """Refuse a task that no site could hold even if all its slots were taken."""
        widths = self.slots.most_at_once(together=self.cross_slot != "never")
        if self.workflow.widest > widths.max():
            task, site = int(np.argmax(self.workflow.processors)), int(widths.argmax())
            wide = f"task {self.workflow.names[task]!r} needs {self.workflow.widest} processors"
            message = f"{wide}, and all slots of site {site} offer {widths[site]} at once"
            raise SimulationError(message, field="processors", hint="a task runs within one site")

    def _graph(self) -> Graph:
        """Return the workflow as the kernels take it."""
        workflow, n, sites = self.workflow, len(self.workflow), self.sites
        run = np.broadcast_to(workflow.run_time.reshape(n, -1), (n, sites))
        children, parents, order = workflow.children, workflow.parents, workflow.order
        if self.scheduler == "heft":
            mean_run = sum((run[:, site] for site in range(sites)), np.zeros(n)) / sites
            means = (self.latency, 1.0 / self.bandwidth) if sites > 1 else (0.0, 0.0)
            rank = upward_ranks(*map(np.array, (order, *children)), mean_run, *means)
            # The last bit of a sum should decide nothing: ranks are compared to the microsecond.
            rounded = np.floor(rank * 1e6 + 0.5)
            order = order[np.argsort(-rounded[order], kind="stable")]
        by_level = np.argsort(workflow.level, kind="stable")
        levels = np.concatenate([[0], np.cumsum(np.bincount(workflow.level))])
        whole = (workflow.processors, parents.offsets, parents.task, order, levels, by_level)
        processors, offsets, parent, order, levels, by_level = (
            np.array(column, np.int64) for column in whole
        )
        run, volume = np.array(run.ravel(), np.float64), np.array(parents.volume, np.float64)
        return Graph(processors, run, offsets, parent, volume, order, levels, by_level)

    @property
    def size(self) -> tuple[int, int, int, int, int]:
        """The numbers of tasks, slots and sites, and the most nodes and pieces of a plan."""
        n, slots = len(self.workflow), len(self)
        together = self.cross_slot != "never"
        pieces = int(np.minimum(self.workflow.processors, slots).sum()) if together else n
        return n, slots, self.sites, slots + 2 * pieces, pieces

    def _count_sites(self) -> int:
        """Return the number of sites of the run times, or of the slots where they do not differ by site."""
        sites = int(self.slots.site.max()) + 1
        if self.workflow.run_time.ndim == 1:
            return sites
        columns = int(self.workflow.run_time.shape[1])
        if sites > columns:
            slot = int(np.argmax(self.slots.site))
            message = (
                f"slot {slot + 1} of {len(self)} is of site {sites - 1}, but there are only {columns} sites"
            )
            raise SimulationError(message, field="site", hint="sites count from 0")
        return columns

    def instance(self) -> Instance:
        """Return the problem as the kernels take it; valid as long as this object lives."""
        rules = (SCHEDULERS[self.scheduler], CROSS_SLOT[self.cross_slot])
        transfer = (float(self.latency), float(self.bandwidth))
        return Instance(handles_of(self._columns), *self.size[:3], *rules, self.now, *transfer)

    def _prepared(self) -> tuple[Instance, IntArray]:
        """Return the problem as the kernels take it, and the handles of its memory."""
        if self._compiled is None:
            self._compiled = (self.instance(), *new_workspace(self.size))
        return self._compiled[0], self._compiled[2]

    def _population(self, population: npt.ArrayLike) -> BoolArray:
        plans = np.array(population, dtype=np.bool_, ndmin=2)
        if plans.ndim != 2 or plans.shape[1] != len(self):
            message = f"a plan has a bit for each of {len(self)} slots, but got the shape {plans.shape}"
            raise SimulationError(message, field="population")
        return plans

    def _run(self, population: npt.ArrayLike, release: bool) -> _Evaluation:
        plans = self._population(population)
        costs, used = np.empty((len(plans), 2)), np.empty(plans.shape, np.bool_)
        _evaluate_plans(*self._prepared(), plans, release, costs, used)
        return _Evaluation(costs, used)

    def evaluate(self, population: npt.ArrayLike) -> FloatArray:
        """Return the costs of plans that pay for every slot they take.

        Parameters
        ----------
        population
            Shape (plans, slots), bool.

        Returns
        -------
        ndarray
            Shape (plans, 2), float64: allocation cost and makespan; both infinite for an infeasible plan.
        """
        return self._run(population, release=False).costs

    def evaluate_released(self, population: npt.ArrayLike) -> _Evaluation:
        """Return the costs of plans that release the slots no task uses, and the slots they keep.

        The schedule on the slots kept is the same, so `evaluate(used)` gives the same costs.
        """
        return self._run(population, release=True)

    def plan(self, taken: npt.ArrayLike | None = None) -> Plan:
        """Return the schedule on the slots taken: a mask, by default all of them."""
        mask = np.ones(len(self), bool) if taken is None else self._population(taken)[0]
        cost, last, site, start, finish, first, *pieces = _write_plan(*self._prepared(), mask)
        # Pieces come in the order of planning, and are sorted by task.
        order = np.argsort(first[:-1], kind="stable")
        counts = np.empty(len(order), np.int64)
        counts[order] = np.diff(np.append(first[order], len(pieces[0])))
        offsets = np.concatenate([[0], np.cumsum(counts)])
        rows = np.repeat(first[:-1] - offsets[:-1], counts) + np.arange(len(pieces[0]))
        slot, processors = (column[rows] for column in pieces)
        makespan = last - self.now
        columns = (site, start, finish, offsets, slot, processors)
        return Plan(self.slots, mask, *columns, cost, makespan, self.now)

    def scale(self) -> Scale | None:
        """Return the scale of the problem's costs, which does not depend on the search.

        0 is a lower bound, 1 is more than a plan should cost: from the workflow's work (processor-seconds)
        and critical path (seconds) to the allocation cost and three times the makespan of taking all slots.
        None where that is no range: all slots are divisible, so that taking all of them costs no more than
        the bound; or no plan is feasible.
        """
        workflow = self.workflow
        cost, makespan = self.evaluate(np.ones((1, len(self)), np.bool_))[0]
        ideal, farthest = (workflow.work, workflow.critical_path), (float(cost), 3.0 * float(makespan))
        if farthest[0] > ideal[0] and math.isfinite(farthest[1]):
            return Scale(ideal, farthest)
        return None


def _slot_columns(slots: Slots) -> SlotColumns:
    offered = slots.end.astype(np.float64)
    end = np.where(slots.extensible, np.inf, offered)
    sequence = np.lexsort((np.arange(len(slots)), end)).astype(np.int64)
    return SlotColumns(
        slots.site.copy(),
        slots.processors.copy(),
        slots.start.astype(np.float64),
        end,
        offered,
        slots.price.copy(),
        slots.fixed.copy(),
        slots.divisible.astype(np.int64),
        sequence,
    )
