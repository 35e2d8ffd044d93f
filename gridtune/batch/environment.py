"""Gymnasium environments of a batch machine: one, or many stepped in one compiled call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from gridtune.batch.estimates import Kill
from gridtune.batch.simulator.decisions.batch import DecisionBatch, Mode, Pay
from gridtune.batch.simulator.decisions.machine import ROW, STATE
from gridtune.core.vector_environment import CompiledEnv, CompiledVectorEnv
from gridtune.errors import SimulationError
from gridtune.types import BoolArray, FloatArray
from gridtune.workload import Workload, read_workload
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import DEFAULT_RULES

__all__ = ["BatchEnv", "BatchOptions", "BatchVectorEnv", "read_jobs"]

Observation = Any

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
    number, _, count = {"whole": "1/1", "first-half": "1/2", "second-half": "2/2"}.get(part, part).partition(
        "/"
    )
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise SimulationError(
            f"must be 'whole', 'first-half', 'second-half' or 'i/n', but got {part!r}", field="part"
        )
    chosen = workload.windows(int(count))[int(number) - 1]
    return chosen if load == 1.0 else chosen.scale_load(load)


def _machines(
    trace: Workload | str | Path, *, part: str = "whole", load: float = 1.0, **options: Any
) -> DecisionBatch:
    if not isinstance(trace, Workload):
        trace = read_jobs(str(trace), part, load)
    elif part != "whole" or load != 1.0:
        raise SimulationError("part and load go with a trace, not with a workload", field="part")
    return DecisionBatch(trace, **options)


def _spaces(machines: DecisionBatch, flat: bool) -> tuple[gym.Space[Any], gym.spaces.Discrete[np.int64]]:
    """Return one machine's spaces of observations and actions."""
    actions = machines.actions
    choice: gym.spaces.Discrete[np.int64] = gym.spaces.Discrete(actions)
    if flat:
        return gym.spaces.Box(0.0, 1.0, (STATE + actions * ROW,), np.float32), choice
    rows = gym.spaces.Box(0.0, 1.0, (actions, ROW), np.float32)
    mask = gym.spaces.Box(0, 1, (actions,), np.int8)
    state = gym.spaces.Box(0.0, 1.0, (STATE,), np.float32)
    return gym.spaces.Dict({"action_mask": mask, "observations": rows, "state": state}), choice


def _begin(machines: DecisionBatch, begins: BoolArray, rngs: Sequence[np.random.Generator]) -> None:
    """Draw a window for each of those machines until it is one with a decision."""
    first, left = machines.first.copy(), begins.copy()
    for _ in range(_DRAWS):
        for index in np.flatnonzero(left).tolist():
            first[index] = rngs[index].integers(machines.starts)
        machines.begin(left, first)
        left &= machines.over
        if not left.any():
            return
    raise SimulationError(
        f"in {_DRAWS} windows of {machines.jobs} jobs of {machines.workload.name} nothing was to be decided",
        field="trace",
        hint="a higher load, or fewer processors, makes jobs wait",
    )


class BatchOptions(TypedDict, total=False):
    """The options of `BatchEnv`; those that are left out are as `DecisionBatch` has them.

    Attributes
    ----------
    part, load
        With a trace, see `read_jobs`.
    processors
        Size of the machine; by default what the log says.
    jobs, candidates
        Jobs of an episode; the number of waiting jobs, the oldest, that can be chosen.
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
        A metric of schedules. Larger rewards are better: what is better small is taken as its negative.
    pay
        `step`: a step is rewarded with the costs that have arisen since the last one, for metrics that are
        sums over jobs (`gridtune.batch.simulator.decisions.batch.STEPWISE`); `end`: all at the end. By
        default `step` where there is a choice. Both come to the same sum.
    relative
        The sum of an episode's rewards is the share by which the metric is better than with the first
        candidate at every decision (first come, first served), instead of the metric.
    kill
        Whether jobs are killed at their walltime; "auto": as the log has it.
    """

    part: str
    load: float
    processors: int | None
    jobs: int
    candidates: int
    mode: Mode
    backfill: Literal["none", "easy"]
    order: str
    protect: bool
    reward: str
    pay: Pay | None
    relative: bool
    kill: Kill


class BatchEnv(CompiledEnv):
    """A machine on which the agent decides about waiting jobs; an episode is a window of consecutive jobs.

    A window is drawn from the log, and begins on an empty machine. The episode terminates when all of its
    jobs have started. An observation has `observations`, a row of numbers for each slot; `action_mask`, 1
    where a slot holds a choice; and `state`, numbers of the machine. No run time is among them. A choice that
    is not there stands for the first candidate. A decision is asked for only where it matters: when some
    waiting job fits, and not all of them do. See `docs/batch_environment.md`.

    Parameters
    ----------
    trace
        A log, the name of a bundled one, or a workload that is clean.
    flat
        Observations are one row of numbers: `state`, then all of `observations`. The first number of a slot
        says whether it holds a choice.
    options
        See `BatchOptions`.

    Examples
    --------
    `reset(options={"first": 3})` begins the window whose first job has that number, `reset()` a random one.
    """

    def __init__(
        self,
        trace: Workload | str | Path = "quickstart",
        *,
        flat: bool = False,
        **options: Unpack[BatchOptions],
    ) -> None:
        vector = BatchVectorEnv(1, trace, flat=flat, **options)
        self.machines = vector.machines
        super().__init__(vector)


class BatchVectorEnv(CompiledVectorEnv):
    """Many machines stepped in one compiled call, with the trajectories of single environments.

    Parameters
    ----------
    num_envs
        Number of machines.
    copy
        Return copies. False returns the environment's own memory, which the next step overwrites.
    trace, …
        As of `BatchEnv`.
    """

    episode = "first"

    def __init__(
        self,
        num_envs: int = 1,
        trace: Workload | str | Path = "quickstart",
        *,
        flat: bool = False,
        copy: bool = True,
        **options: Unpack[BatchOptions],
    ) -> None:
        self.machines = _machines(trace, count=num_envs, **options)
        self._flat = flat
        super().__init__(num_envs, _spaces(self.machines, flat), copy=copy)
        self._actions = np.zeros(num_envs, np.int64)

    def _draw(self, where: BoolArray) -> None:
        _begin(self.machines, where, self._rngs)
        self._numbers[:] = self.machines.first

    def _choose(self, numbers: Any) -> None:
        _begin_at(self.machines, numbers)
        self._numbers[:] = self.machines.first

    def _advance(self, actions: npt.ArrayLike, begins: BoolArray | None) -> dict[str, Any]:
        self._actions[:] = actions
        self.machines.step(self._actions, self._everywhere if begins is None else ~begins)
        return {}

    def _results(self) -> tuple[FloatArray, BoolArray]:
        return self.machines.rewards, self.machines.over

    def _observe(self) -> Observation:
        machines, copy = self.machines, self._copy
        observed = machines.observed.copy() if copy else machines.observed
        if self._flat:
            return observed
        mask = machines.mask.copy() if copy else machines.mask
        rows = observed[:, STATE:].reshape(machines.count, machines.actions, ROW)
        return {"action_mask": mask, "observations": rows, "state": observed[:, :STATE]}


def _begin_at(machines: DecisionBatch, first: npt.ArrayLike) -> None:
    """Begin the windows with these first jobs."""
    numbers = np.broadcast_to(np.asarray(first, np.int64), machines.count).copy()
    machines.begin(np.ones(machines.count, np.bool_), numbers)
    if machines.over.any():
        quiet = numbers[machines.over].tolist()
        raise SimulationError(f"there is nothing to decide in the windows that begin with job {quiet}")
