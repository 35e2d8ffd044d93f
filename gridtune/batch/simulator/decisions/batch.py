"""`DecisionBatch`: machines side by side, each with a window of a log, stepped by a decision in one call.

Metrics that are sums over jobs can reward single steps, as costs that grow while a job waits (`_job_costs`).
"""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from gridtune.arguments import require_number
from gridtune.batch.checks import check_runnable
from gridtune.batch.estimates import Kill, estimate_walltimes, kills_jobs
from gridtune.batch.metrics import JobColumns, get_metric
from gridtune.batch.metrics.columns import TAU
from gridtune.batch.policies import QueueOrder, get_queue_order
from gridtune.batch.replay import schedule_notes
from gridtune.batch.simulator.decisions.machine import (
    BACKFILL_MODE,
    BY_SUBMISSION,
    EASY,
    LONGEST,
    PROTECT,
    ROW,
    STATE,
    Arena,
    Costs,
    Jobs,
    Settings,
    advance,
    choose,
    cost_so_far,
    machine_at,
    new_arena,
    observe,
    reset,
    run_first_choices,
    whole_length,
)
from gridtune.batch.simulator.ranked import static_ranks
from gridtune.batch.simulator.scores import facts_of
from gridtune.core.compiled import bare, kernel
from gridtune.core.schedules.schedule import JobState, Schedule
from gridtune.errors import SimulationError
from gridtune.types import AnyArray, BoolArray, Float32Array, FloatArray, Int8Array, Int32Array, IntArray
from gridtune.workload.workload import Workload

__all__ = [
    "STEPWISE",
    "DecisionBatch",
    "Mode",
    "Pay",
]


def _job_costs(run: IntArray, requested: IntArray, processors: IntArray) -> dict[str, tuple[AnyArray, ...]]:
    """Return costs whose sum over a window's jobs, once all have started, is a metric: `Costs` by its name.

    Parameters
    ----------
    run
        Shape (n,), int64: seconds that each job really takes.
    requested, processors
        Shape (n,), int64: seconds that its user asked for, and its width.
    """
    one, none = np.ones(len(run)), np.zeros(len(run))
    length, width = run.astype(np.float64), processors.astype(np.float64)
    bounded, area = np.maximum(length, TAU), length * width
    ran, stated = length > 0, requested > 0
    return {
        "wait_mean": (one, none, none, one),
        "response_mean": (one, length, none, one),
        "slowdown_mean": (np.where(ran, 1 / np.maximum(length, 1), 0), length, none, 1.0 * ran),
        "bounded_slowdown_mean": (1 / bounded, length, bounded, one),
        "processor_bounded_slowdown_mean": (1 / (width * bounded), length, width * bounded, one),
        "stretch_mean": (np.where(stated, 1 / np.maximum(requested, 1), 0), none, none, 1.0 * stated),
        "area_weighted_response": (area, length, none, area),
        "area_weighted_slowdown": (np.where(ran, width, 0), length, none, area),
        "area_weighted_bounded_slowdown": (area / bounded, length, bounded, area),
    }


#: The metrics that costs of jobs add up to.
STEPWISE = tuple(_job_costs(*np.ones((3, 1), np.int64)))

#: What is decided: which waiting job comes first, or which one is backfilled behind the first.
Mode = Literal["pick", "backfill"]
#: When a reward is given: as costs arise, or at the end of the episode.
Pay = Literal["step", "end"]


@kernel()
def _begin_windows(batch, which, first, over, relative):
    """Begin the window `first[i]` on each machine i that is in `which`."""
    jobs, costs = bare(batch.jobs), bare(batch.costs)
    for index in range(which.size):
        if not which[index]:
            continue
        machine = machine_at(batch.settings, batch.arena, index)
        reset(machine, jobs, costs, first[index])
        if relative:
            run_first_choices(machine, jobs, costs)
            base = machine.state.settled
            reset(machine, jobs, costs, first[index])
            machine.state.base = base
            machine.state.scale = 1.0 / base if base > 0.0 else 1.0
        over[index] = not advance(machine, jobs, costs)
        batch.rewards[index] = 0.0
        observe(machine, jobs, batch.observed[index], batch.mask[index])


@kernel()
def _step_machines(batch, actions, which, over, at_end):
    """Carry out `actions[i]` on each machine i that is in `which`, and advance to its next decision."""
    jobs, costs = bare(batch.jobs), bare(batch.costs)
    for index in range(which.size):
        if not which[index]:
            continue
        machine = machine_at(batch.settings, batch.arena, index)
        choose(machine, jobs, costs, actions[index])
        over[index] = not advance(machine, jobs, costs)
        state, reward = machine.state, 0.0
        if over[index] or not at_end:
            cost = cost_so_far(machine, jobs, costs)
            reward = (state.paid - cost) * state.scale
            state.paid = cost
        if over[index]:
            reward += state.base * state.scale
        batch.rewards[index] = reward
        observe(machine, jobs, batch.observed[index], batch.mask[index])


@kernel()
def _run_window(batch, index, first):
    """Run a window on a machine with the first candidate at every decision."""
    jobs, costs = bare(batch.jobs), bare(batch.costs)
    machine = machine_at(batch.settings, batch.arena, index)
    reset(machine, jobs, costs, first)
    run_first_choices(machine, jobs, costs)


class _Batch(NamedTuple):
    """The arrays that kernels are given: see `DecisionBatch`."""

    settings: Settings
    jobs: Jobs
    costs: Costs
    arena: Arena
    observed: Float32Array
    mask: Int8Array
    rewards: FloatArray


class DecisionBatch:
    """Machines of one size, each with a window of consecutive jobs, stepped from decision to decision.

    Parameters
    ----------
    workload
        The jobs that windows are taken from, cleaned and in submit order.
    processors
        Size of a machine; by default what the log says.
    count, jobs, candidates
        Number of machines; jobs of a window; waiting jobs that can be chosen.
    mode
        `pick`: choose the job that comes first. `backfill`: choose a job to backfill behind it.
    backfill
        `none` or `easy`: with `pick`, the backfilling behind a chosen job that does not fit.
    order
        A static queue order: with `pick`, that of backfilling; with `backfill`, that of the queue.
    protect
        With `backfill`: only jobs that do not delay the reservation of the first can be chosen.
    reward, pay, relative
        See `gridtune.batch.environment.BatchEnv`.
    kill
        Whether jobs are killed at their walltime; "auto": as the log has it (`kills_jobs`).

    Attributes
    ----------
    observed
        Shape (count, STATE + actions · ROW), float32: observations; the next step overwrites them.
    mask
        Shape (count, actions), int8: the choices there are.
    rewards, over
        Shape (count,), float64 and bool: of the last step.
    """

    def __init__(
        self,
        workload: Workload,
        processors: int | None = None,
        *,
        count: int = 1,
        jobs: int = 256,
        candidates: int = 128,
        mode: Mode = "pick",
        backfill: Literal["none", "easy"] = "easy",
        order: str = "fcfs",
        protect: bool = True,
        reward: str = "bounded_slowdown_mean",
        pay: Pay | None = None,
        relative: bool = False,
        kill: Kill = "auto",
    ) -> None:
        _check_choices(mode, backfill, order, protect, reward, pay)
        for name, number in {"count": count, "jobs": jobs, "candidates": candidates}.items():
            require_number(number, name, whole=True, least=1, error=SimulationError)
        check_runnable(workload, processors)
        if len(workload) == 0:
            raise SimulationError(f"{workload.name} has no jobs")
        size = int(processors if processors is not None else workload.machine_processors or 0)
        self.workload, self.count, self.jobs = workload, count, min(jobs, len(workload))
        self.candidates, self.actions = candidates, candidates + (mode == "backfill")
        self.metric = get_metric(reward)
        self._at_end, self._relative = pay == "end", relative
        self._order = _static_order(order)
        self._stepwise = reward in STEPWISE
        self._walltime, _ = estimate_walltimes(workload, "log", 0.0, None)
        self._kill, killing = kill, kills_jobs(workload, kill)
        self._run = np.minimum(workload.run_time, self._walltime) if killing else workload.run_time.copy()
        width = np.array(workload.processors)
        flags = _flags(mode, backfill, protect) | (BY_SUBMISSION if self._order.name == "fcfs" else 0)
        room = min(size, self.jobs) + 1
        self._settings = settings = Settings(size, flags, self.jobs, candidates, room)
        costs = _job_costs(self._run, workload.requested_time, width)
        none = np.zeros(len(workload))
        self._batch = _Batch(
            settings,
            Jobs(
                workload.submit_time - workload.submit_time[0],
                self._run,
                np.array(self._walltime),
                width,
                _on_log_scale(self._walltime, LONGEST),
                _on_log_scale(self._walltime * width, size * LONGEST),
            ),
            # Each its own writable array: kernels are compiled for those.
            Costs(*(np.array(column, np.float64) for column in costs.get(reward, (none,) * 4))),
            new_arena(settings, count),
            np.zeros((count, STATE + self.actions * ROW), np.float32),
            np.zeros((count, self.actions), np.int8),
            np.zeros(count),
        )
        self.observed, self.mask, self.rewards = self._batch[-3:]
        self.first, self.over = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        self._everywhere, self._base = np.ones(count, np.bool_), np.zeros(count)

    @property
    def starts(self) -> int:
        """Number of jobs that a window can begin with."""
        return len(self.workload) - self.jobs + 1

    def begin(self, which: BoolArray, first: IntArray) -> None:
        """Begin the window whose first job is `first[i]` on each machine i in `which`: shapes (count,).

        A window in which there is nothing to decide is `over` at once.
        """
        chosen = first[which]
        if ((chosen < 0) | (chosen >= self.starts)).any():
            raise SimulationError(
                f"a window of {self.jobs} jobs begins with job 0 to {self.starts - 1}, but got {chosen}"
            )
        self.first[which] = chosen
        if self._order.name != "fcfs":
            for index in np.flatnonzero(which).tolist():
                self._column(index, 1)[:] = self._ranks(self.first[index])
        if self._relative and not self._stepwise:
            for index in np.flatnonzero(which).tolist():
                _run_window(self._batch, index, self.first[index])
                self._base[index] = self._value(index)
        relative = self._relative and self._stepwise
        _begin_windows(self._batch, which, self.first, self.over, relative)

    def step(self, actions: IntArray, which: BoolArray | None = None) -> None:
        """Carry out a decision on each machine, or on those in `which`, and advance to the next one.

        Parameters
        ----------
        actions
            Shape (count,), int64. A slot without a candidate stands for the first one.
        which
            Shape (count,).
        """
        chosen = self._everywhere if which is None else which
        _step_machines(self._batch, actions, chosen, self.over, self._at_end)
        if not self._stepwise:
            for index in np.flatnonzero(self.over & chosen).tolist():
                self.rewards[index] = self._final_reward(index)

    def schedule(self, index: int = 0) -> Schedule:
        """Return the schedule of a machine's window, once it is over."""
        rows = slice(int(self.first[index]), int(self.first[index]) + self.jobs)
        start = self._column(index, 0) + int(self.workload.submit_time[0])
        window, run = self.workload.take(rows), self._run[rows]
        state = np.where(run < window.run_time, JobState.KILLED, JobState.COMPLETED).astype(np.int8)
        notes = schedule_notes(window, run, kill=self._kill)
        walltime = self._walltime[rows]
        return Schedule(window, self._settings.processors, start, start + run, walltime, state, notes=notes)

    def _column(self, index: int, number: int) -> IntArray:
        """Return a machine's starts (0) or ranks (1), by job of the window."""
        begin = index * int(whole_length(self._settings)) + number * self.jobs
        return self._batch.arena.whole[begin : begin + self.jobs]

    def _ranks(self, first: int) -> Int32Array:
        """Return the places of a window's jobs in the environment's own order."""
        rows, jobs = slice(first, first + self.jobs), self._batch.jobs
        submit = jobs.submit[rows] - jobs.submit[first]
        facts = partial(facts_of, self.workload.take(rows), np.zeros(self.jobs))
        return static_ranks(self._order, submit, jobs.walltime[rows], jobs.processors[rows], facts)

    def _value(self, index: int) -> float:
        return float(self.metric.function(JobColumns.trimmed(self.schedule(index))))

    def _final_reward(self, index: int) -> float:
        """Return the reward of an episode by a metric that is known at its end only; 0 if it is undefined."""
        base = self._base[index] if self._relative else 0.0
        sign = 1.0 if self.metric.direction == "max" else -1.0
        gain = sign * (self._value(index) - base) / (abs(base) or 1.0)
        return gain if np.isfinite(gain) else 0.0


def _on_log_scale(values: IntArray, largest: float) -> Float32Array:
    """Return ln(1 + value) / ln(1 + largest), at most 1."""
    return np.minimum(np.log1p(values) / np.log1p(largest), 1.0).astype(np.float32)


def _flags(mode: Mode, backfill: str, protect: bool) -> int:
    if mode == "backfill":
        return BACKFILL_MODE | (PROTECT if protect else 0)
    return EASY if backfill == "easy" else 0


def _static_order(name: str) -> QueueOrder:
    order = get_queue_order(name)
    if not order.static or order.name == "random":
        raise SimulationError(
            f"{name} changes while jobs wait or draws numbers: the environment needs an order that does not",
            field="order",
            hint="one such as fcfs, sjf, saf or f1",
        )
    return order


def _check_choices(mode: str, backfill: str, order: str, protect: bool, reward: str, pay: str | None) -> None:
    """Refuse choices that do not exist or have no effect."""
    choices = (
        ("mode", mode, ("pick", "backfill")),
        ("backfill", backfill, ("none", "easy")),
        ("pay", pay, (None, "step", "end")),
    )
    for name, value, allowed in choices:
        if value not in allowed:
            shown = " or ".join(repr(choice) for choice in allowed if choice)
            raise SimulationError(f"must be {shown}, but got {value!r}", field=name)
    if mode == "backfill" and backfill == "none":
        raise SimulationError("decisions about backfilling need backfill='easy'", field="backfill")
    if mode == "pick" and backfill == "none" and order != "fcfs":
        raise SimulationError(f"order={order!r} has no effect with backfill='none'", field="order")
    if mode == "pick" and not protect:
        raise SimulationError("protect=False has no effect with mode='pick'", field="protect")
    if pay == "step" and reward not in STEPWISE:
        raise SimulationError(
            f"{reward} is known at the end of an episode only", field="pay", hint="leave it out, or 'end'"
        )
