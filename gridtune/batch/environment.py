"""The Gymnasium environments of a batch machine: one, or many stepped in one compiled call.

Metrics that are sums over jobs reward single steps, as costs that grow while a job waits (`_job_costs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from gridtune.arguments import require_number
from gridtune.batch.checks import check_runnable
from gridtune.batch.estimates import Kill, estimate_walltimes, kills_jobs
from gridtune.batch.metrics import METRICS, JobColumns
from gridtune.batch.metrics.columns import TAU
from gridtune.batch.policies import QueueOrder, get_queue_order
from gridtune.batch.replay import schedule_notes, simulate
from gridtune.batch.simulator.decisions import LONGEST, begin_windows, run_window, step_machines
from gridtune.batch.simulator.machines import (
    BACKFILL_MODE,
    BY_SUBMISSION,
    EASY,
    PREDICT,
    PROTECT,
    STATE,
    Columns,
    Machines,
    Settings,
    new_machines,
    row_width,
    whole_length,
)
from gridtune.batch.simulator.ranked import static_ranks
from gridtune.batch.simulator.scores import facts_of
from gridtune.core.schedules.schedule import JobState, Schedule
from gridtune.core.vector_environment import CompiledEnv, CompiledVectorEnv
from gridtune.errors import SimulationError
from gridtune.types import AnyArray, BoolArray, Float32Array, FloatArray, Int32Array, IntArray
from gridtune.workload import Workload, read_workload
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import DEFAULT_RULES

#: Windows that are drawn for an episode until one has a decision.
_DRAWS = 1000


@lru_cache(maxsize=8)
def read_jobs(trace: str, part: str = "whole", load: float = 1.0) -> Workload:
    """Return the jobs of a trace, or of a part of it.

    Parameters
    ----------
    trace
        A log, or the name of a bundled one.
    part
        `whole`, `first-half`, `second-half`, or `i/n`: the i-th of n consecutive parts of as many jobs.
    load
        Factor on the load: times between submissions are divided by it.
    """
    workload = read_workload(resolve_trace(trace), clean=DEFAULT_RULES)
    named = {"whole": "1/1", "first-half": "1/2", "second-half": "2/2"}.get(part, part)
    number, _, count = named.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise SimulationError(
            f"must be 'whole', 'first-half', 'second-half' or 'i/n', but got {part!r}", field="part"
        )
    chosen = workload.part(named)
    return chosen if load == 1.0 else chosen.scale_load(load)


def _job_costs(run: IntArray, requested: IntArray, processors: IntArray) -> dict[str, tuple[AnyArray, ...]]:
    """Return costs whose sum over a window's jobs, once all have started, is a metric, by its name.

    Parameters
    ----------
    run
        Shape (n,), int64: seconds that each job really takes.
    requested, processors
        Shape (n,), int64: seconds that its user asked for, and its width.

    Returns
    -------
    The last four of `Columns`.
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
#: The reward by the three metrics of `delay_index` together, and the order that they are relative to.
DELAY = "delay"
_REFERENCE = "wfp3"
_DELAYS = ("bounded_slowdown_mean", "area_weighted_response", "wait_mean")


def _delay_costs(costs: Mapping[str, tuple[AnyArray, ...]], schedule: Schedule) -> tuple[AnyArray, ...]:
    """Return costs whose mean is that of three metrics, each relative to its value in a schedule.

    Its gradient by the waits, at that schedule, is that of ln `delay_index`. The bound of slowdowns is left
    out: a job shorter than it counts less than 1 if it does not wait.
    """
    jobs = JobColumns.trimmed(schedule)
    value = {name: max(float(METRICS.find(name).function(jobs)), 1e-9) for name in _DELAYS}
    weights = [costs[name][0] / (len(value) * value[name] * costs[name][3].mean()) for name in value]
    weight = np.sum(weights, 0)
    offset = sum(one * costs[name][1] for one, name in zip(weights, value, strict=True)) / weight
    return weight, offset, 0 * weight, 1 + 0 * weight


class BatchVectorEnv(CompiledVectorEnv):
    """Many machines stepped in one compiled call, with the trajectories of single environments.

    See `BatchEnv` for episodes, observations and actions.

    Parameters
    ----------
    num_envs
        Number of machines.
    trace
        A log, the name of a bundled one, or a workload that is clean.
    part, load
        With a trace, see `read_jobs`.
    processors
        Size of the machine; by default that of the log.
    jobs, candidates
        Jobs of an episode; the number of waiting jobs, the oldest, that can be chosen.
    warm
        Jobs before these, which the environment plays in its own order: the agent takes over once they are
        submitted. The window's metric is that of the jobs that have not started then, without the cost that
        has arisen; it must be one of `STEPWISE` or `delay`.
    predict
        Candidates also show the prediction of their run time by the user's last two jobs that have ended.
    mode
        `pick`: choose the job that comes first; if it does not fit, the pass ends. `backfill`: choose the
        next job to be backfilled behind the first of the queue, or, by the last action, none.
    backfill
        With `pick`: `easy` reserves for a chosen job that does not fit, and backfills behind it.
    order
        A queue order that does not change while jobs wait: with `pick`, that of backfilling; with `backfill`,
        that of the queue.
    protect
        With `backfill`: offer only jobs that do not delay the reservation of the queue's first one.
    reward
        A metric of schedules. Larger rewards are better: a metric that is better small counts as its
        negative. Metrics that are sums over jobs (`STEPWISE`) reward a step with the costs that have arisen
        since the last one, all others the last step of an episode. `delay` is the mean of bounded slowdown,
        area-weighted response and mean wait, each relative to the whole log's under WFP3.
    relative
        The sum of an episode's rewards is the share by which the metric is better than with the first
        candidate at every decision (first come, first served), instead of the metric.
    kill
        Whether jobs are killed at their walltime; "auto": as the log has it.
    flat
        Observations are one row of numbers: `state`, then all of `observations`.
    copy
        Return copies. False returns the environment's own memory, which the next step overwrites.

    Attributes
    ----------
    observed
        Shape (num_envs, STATE + actions · ROW), float32: observations; the next step overwrites them.
    rewards, over
        Shape (num_envs,), float64 and bool: of the last step.
    """

    episode = "first"

    def __init__(
        self,
        num_envs: int = 1,
        trace: Workload | str | Path = "quickstart",
        *,
        part: str = "whole",
        load: float = 1.0,
        processors: int | None = None,
        jobs: int = 256,
        candidates: int = 128,
        warm: int = 0,
        predict: bool = False,
        mode: Literal["pick", "backfill"] = "pick",
        backfill: Literal["none", "easy"] = "easy",
        order: str = "fcfs",
        protect: bool = True,
        reward: str = "bounded_slowdown_mean",
        relative: bool = False,
        kill: Kill = "auto",
        flat: bool = False,
        copy: bool = True,
    ) -> None:
        if not isinstance(trace, Workload):
            trace = read_jobs(str(trace), part, load)
        elif part != "whole" or load != 1.0:
            raise SimulationError("part and load go with a trace, not with a workload", field="part")
        self._order = _checked_order(mode, backfill, order, protect)
        for name, number in {"num_envs": num_envs, "jobs": jobs, "candidates": candidates}.items():
            require_number(number, name, whole=True, least=1, error=SimulationError)
        require_number(warm, "warm", whole=True, least=0, error=SimulationError)
        check_runnable(trace, processors)
        if len(trace) <= warm:
            raise SimulationError(f"{trace.name} has no jobs" + " after those" * (warm > 0), field="warm")
        self.workload, self.jobs, self.flat = trace, min(warm + jobs, len(trace)), flat
        self.actions = candidates + (mode == "backfill")
        self._stepwise, self._relative, self._kill = reward in (*STEPWISE, DELAY), relative, kill
        self._metric = METRICS.find("delay_index" if reward == DELAY else reward)
        if warm > 0 and not self._stepwise:
            raise SimulationError("must be 0 with a reward that is known at the end only", field="warm")
        flags = (BY_SUBMISSION if self._order.name == "fcfs" else 0) | (PREDICT if predict else 0)
        if mode == "backfill":
            flags |= BACKFILL_MODE | (PROTECT if protect else 0)
        elif backfill == "easy":
            flags |= EASY
        size = int(processors if processors is not None else trace.machine_processors or 0)
        columns = self._columns_of(size, reward)
        users = int(columns.user.max()) + 1 if predict else 0
        settings = Settings(size, flags, self.jobs, candidates, min(size, self.jobs) + 1, warm, users)
        self._machines: Machines = new_machines(settings, columns, num_envs, self.actions)
        self.observed, self.rewards = self._machines.observed, self._machines.rewards
        self.over, self._base = np.zeros(num_envs, np.bool_), np.zeros(num_envs)
        super().__init__(num_envs, _spaces(self.actions, row_width(flags), flat), copy=copy)
        self._chosen = np.zeros(num_envs, np.int64)

    def _columns_of(self, size: int, reward: str) -> Columns:
        """Return the jobs as kernels take them, on a machine of this size, with their costs by a metric."""
        log = self.workload
        walltime, _ = estimate_walltimes(log, "log", 0.0, None)
        cut = np.minimum(log.run_time, walltime) if kills_jobs(log, self._kill) else log.run_time
        run, width = np.array(cut), np.array(log.processors)
        known = _job_costs(run, log.requested_time, width)
        if reward == DELAY:
            plain = simulate(log, processors=size, order=_REFERENCE, kill=self._kill)
            known[DELAY] = _delay_costs(known, plain)
        costs = known.get(reward, (np.zeros(len(log)),) * 4)
        return Columns(
            log.submit_time - log.submit_time[0],
            run,
            np.array(walltime),
            width,
            np.unique(log.user, return_inverse=True)[1].astype(np.int64),
            _on_log_scale(walltime, LONGEST),
            _on_log_scale(walltime * width, size * LONGEST),
            # Each its own writable array: kernels are compiled for those.
            *(np.array(column, np.float64) for column in costs),
        )

    @property
    def starts(self) -> int:
        """Number of jobs that a window can begin with."""
        return len(self.workload) - self.jobs + 1

    def begin(self, which: BoolArray, first: IntArray) -> None:
        """Begin the window whose first job is `first[i]` on each machine i in `which`: shapes (num_envs,).

        A window in which there is nothing to decide is `over` at once.
        """
        chosen = first[which]
        if ((chosen < 0) | (chosen >= self.starts)).any():
            raise SimulationError(
                f"a window of {self.jobs} jobs begins with job 0 to {self.starts - 1}, but got {chosen}"
            )
        self._numbers[which] = self._machines.states["first"][which] = chosen
        if self._order.name != "fcfs":
            for index in np.flatnonzero(which).tolist():
                self._column(index, 1)[:] = self._ranks(self._numbers[index])
        if self._relative and not self._stepwise:
            for index in np.flatnonzero(which).tolist():
                run_window(self._machines, index)
                self._base[index] = self._value(index)
        begin_windows(self._machines, which, self.over, self._relative and self._stepwise)

    def decide(self, actions: IntArray, which: BoolArray) -> None:
        """Carry out a decision on each machine in `which`, and advance to the next one.

        Parameters
        ----------
        actions
            Shape (num_envs,), int64. A slot without a candidate stands for the first one.
        which
            Shape (num_envs,).
        """
        step_machines(self._machines, actions, which, self.over)
        if not self._stepwise:
            self.rewards[which] = 0.0
            for index in np.flatnonzero(self.over & which).tolist():
                self.rewards[index] = self._final_reward(index)

    def schedule(self, index: int = 0) -> Schedule:
        """Return the schedule of a machine's window, once it is over."""
        rows = slice(int(self._numbers[index]), int(self._numbers[index]) + self.jobs)
        start = self._column(index, 0) + int(self.workload.submit_time[0])
        window, columns = self.workload.take(rows), self._machines.columns
        run, walltime = columns.run[rows], columns.walltime[rows]
        state = np.where(run < window.run_time, JobState.KILLED, JobState.COMPLETED).astype(np.int8)
        notes = schedule_notes(window, run, kill=self._kill)
        size = self._machines.settings.processors
        return Schedule(window, size, start, start + run, walltime, state, notes=notes)

    def _column(self, index: int, number: int) -> IntArray:
        """Return a machine's starts (0) or ranks (1), by job of the window."""
        begin = index * int(whole_length(self._machines.settings)) + number * self.jobs
        return self._machines.whole[begin : begin + self.jobs]

    def _ranks(self, first: int) -> Int32Array:
        """Return the places of a window's jobs in the environment's own order."""
        rows, columns = slice(first, first + self.jobs), self._machines.columns
        submit = columns.submit[rows] - columns.submit[first]
        facts = partial(facts_of, self.workload.take(rows), np.zeros(self.jobs))
        return static_ranks(self._order, submit, columns.walltime[rows], columns.processors[rows], facts)

    def _value(self, index: int) -> float:
        return float(self._metric.function(JobColumns.trimmed(self.schedule(index))))

    def _final_reward(self, index: int) -> float:
        """Return the reward of an episode by a metric that is known at its end only; 0 if it is undefined."""
        base = self._base[index] if self._relative else 0.0
        sign = 1.0 if self._metric.direction == "max" else -1.0
        gain = sign * (self._value(index) - base) / (abs(base) or 1.0)
        return gain if np.isfinite(gain) else 0.0

    def _draw(self, where: BoolArray) -> None:
        """Draw a window for each of these machines until it is one with a decision."""
        first, left = self._numbers.copy(), where.copy()
        for _ in range(_DRAWS):
            for index in np.flatnonzero(left).tolist():
                first[index] = self._rngs[index].integers(self.starts)
            self.begin(left, first)
            left &= self.over
            if not left.any():
                return
        raise SimulationError(
            f"in {_DRAWS} windows of {self.jobs} jobs of {self.workload.name} nothing was to be decided",
            field="trace",
            hint="a higher load, or fewer processors, makes jobs wait",
        )

    def _choose(self, numbers: Any) -> None:
        first = np.broadcast_to(np.asarray(numbers, np.int64), self.num_envs).copy()
        self.begin(self._everywhere, first)
        if self.over.any():
            quiet = first[self.over].tolist()
            raise SimulationError(f"there is nothing to decide in the windows that begin with job {quiet}")

    def _advance(self, actions: npt.ArrayLike, begins: BoolArray | None) -> dict[str, Any]:
        self._chosen[:] = actions
        self.decide(self._chosen, self._everywhere if begins is None else ~begins)
        return {}

    def _results(self) -> tuple[FloatArray, BoolArray]:
        return self.rewards, self.over

    def _observe(self) -> Any:
        observed = self.observed.copy() if self._copy else self.observed
        if self.flat:
            return observed
        mask = self._machines.mask.copy() if self._copy else self._machines.mask
        rows = observed[:, STATE:].reshape(self.num_envs, self.actions, -1)
        return {"action_mask": mask, "observations": rows, "state": observed[:, :STATE]}


class BatchEnv(CompiledEnv):
    """A machine on which the agent decides about waiting jobs; an episode is a window of consecutive jobs.

    A window is drawn from the log, and begins on an empty machine, or with `warm` in a state of a replay.
    The episode terminates when all of its jobs have started. An observation has `observations`, a row of
    numbers for each slot; `action_mask`, 1 where a slot holds a choice; and `state`, numbers of the machine.
    No run time of a job that has not ended is among them. A choice that is not there stands for the first
    candidate. A decision is asked for only where it matters: when some waiting job fits, and not all of them
    do. See `docs/batch_environment.md`.

    Parameters
    ----------
    trace
        A log, the name of a bundled one, or a workload that is clean.
    options
        Those of `BatchVectorEnv`.

    Examples
    --------
    `reset(options={"first": 3})` begins the window whose first job has that number, `reset()` a random one.
    """

    def __init__(self, trace: Workload | str | Path = "quickstart", **options: Any) -> None:
        vector = BatchVectorEnv(1, trace, **options)
        self.schedule, self._machines = vector.schedule, vector._machines
        super().__init__(vector)

    def action_masks(self) -> BoolArray:
        """Return which slots hold a choice, shape (actions,), also beside flat observations."""
        return np.asarray(self._machines.mask[0], bool)


def _spaces(actions: int, width: int, flat: bool) -> tuple[gym.Space[Any], gym.spaces.Discrete[np.int64]]:
    """Return one machine's spaces of observations and actions."""
    choice: gym.spaces.Discrete[np.int64] = gym.spaces.Discrete(actions)
    if flat:
        return gym.spaces.Box(0.0, 1.0, (STATE + actions * width,), np.float32), choice
    rows = gym.spaces.Box(0.0, 1.0, (actions, width), np.float32)
    mask = gym.spaces.Box(0, 1, (actions,), np.int8)
    state = gym.spaces.Box(0.0, 1.0, (STATE,), np.float32)
    return gym.spaces.Dict({"action_mask": mask, "observations": rows, "state": state}), choice


def _on_log_scale(values: IntArray, largest: float) -> Float32Array:
    """Return ln(1 + value) / ln(1 + largest), at most 1."""
    return np.minimum(np.log1p(values) / np.log1p(largest), 1.0).astype(np.float32)


def _checked_order(mode: str, backfill: str, order: str, protect: bool) -> QueueOrder:
    """Return the environment's own order; refuse choices that do not exist or have no effect."""
    for name, value, allowed in (
        ("mode", mode, ("pick", "backfill")),
        ("backfill", backfill, ("none", "easy")),
    ):
        if value not in allowed:
            raise SimulationError(f"must be {' or '.join(map(repr, allowed))}, but got {value!r}", field=name)
    if mode == "backfill" and backfill == "none":
        raise SimulationError("decisions about backfilling need backfill='easy'", field="backfill")
    if mode == "pick" and backfill == "none" and order != "fcfs":
        raise SimulationError(f"order={order!r} has no effect with backfill='none'", field="order")
    if mode == "pick" and not protect:
        raise SimulationError("protect=False has no effect with mode='pick'", field="protect")
    found = get_queue_order(order)
    if not found.static or found.name == "random":
        raise SimulationError(
            f"{order} changes while jobs wait or draws numbers: the environment needs an order that does not",
            field="order",
            hint="one such as fcfs, sjf, saf or f1",
        )
    return found
