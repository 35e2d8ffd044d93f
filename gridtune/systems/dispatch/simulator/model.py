"""Jobs with deadlines, machines of different speed, and changes of the machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.errors import SimulationError
from gridtune.systems.dispatch.simulator.site import FAILURE, REPAIR, SPEED
from gridtune.types import BoolArray, FloatArray, IntArray

#: A factor beyond these would leave int64 seconds, or run jobs in no time.
_FACTORS = (1e-3, 1e3)


@dataclass(frozen=True)
class DispatchJobs:
    """Jobs in order of submission, each for one processor; times in whole seconds.

    Attributes
    ----------
    submit
        Shape (n,), int64: when the job comes.
    length
        Shape (n,), int64: seconds it needs on a machine of factor 1, at least 1. No policy sees it.
    estimate
        Shape (n,), int64: the broker's estimate of that, at least 1.
    deadline
        Shape (n,), int64: when it is due.
    batch
        Shape (n,), int64: the batch it belongs to; -1 for learning jobs.
    """

    submit: IntArray
    length: IntArray
    estimate: IntArray
    deadline: IntArray
    batch: IntArray

    def __post_init__(self) -> None:
        if len({len(column) for column in (self.submit, self.length, self.estimate, self.deadline)}) > 1:
            raise SimulationError("the columns of jobs differ in length")
        if len(self.batch) != len(self.submit):
            raise SimulationError("every job needs a batch", field="batch")
        if len(self) and (np.diff(self.submit) < 0).any():
            raise SimulationError("jobs must be in order of submission", field="submit")
        for name in ("length", "estimate"):
            if len(self) and getattr(self, name).min() < 1:
                raise SimulationError("every job takes at least 1 s", field=name)

    def __len__(self) -> int:
        return len(self.submit)

    def take(self, mask: BoolArray) -> DispatchJobs:
        """Return the jobs that a mask selects."""
        return DispatchJobs(**{name: column[mask] for name, column in vars(self).items()})

    def by_batch(self, values: npt.NDArray[Any]) -> IntArray:
        """Return the sums of the tested jobs' values by batch."""
        return np.bincount(self.batch[self.batch >= 0], values).astype(np.int64)


@dataclass(frozen=True)
class Changes:
    """Changes of machines, in order of time; kinds are `SPEED`, `FAILURE`, `REPAIR` of `state`."""

    time: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    machine: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    kind: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    value: FloatArray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of_speeds(cls, time: int, factors: Sequence[float]) -> Changes:
        """Return a change of every machine's speed factor at one second."""
        columns = (np.full(len(factors), time), np.arange(len(factors)), np.full(len(factors), SPEED))
        return cls(*columns, np.array(factors, np.float64))

    @classmethod
    def of_failures(
        cls, machines: int, horizon: int, mean_up: float, mean_down: float, rng: np.random.Generator
    ) -> Changes:
        """Return failures and repairs of each machine until a second.

        Times up and down are exponential and independent (an alternating renewal process), rounded to whole
        seconds, at least 1.

        Parameters
        ----------
        machines
            Number of machines.
        horizon
            No failure after this second.
        mean_up, mean_down
            Mean seconds between a repair and the next failure, and between a failure and its repair.
        rng
            One generator for each machine is spawned from it.
        """
        parts = cls()
        for machine, own in enumerate(rng.spawn(machines)):
            now, times, kinds = 0, [], []
            while now <= horizon:
                up, down = own.exponential([mean_up, mean_down])
                failed = now + max(1, round(up))
                now = failed + max(1, round(down))
                if failed <= horizon:
                    times += [failed, now]
                    kinds += [FAILURE, REPAIR]
            column = np.full(len(times), machine, np.int64)
            parts += cls(np.array(times, np.int64), column, np.array(kinds, np.int64), np.zeros(len(times)))
        return parts

    def __add__(self, other: Changes) -> Changes:
        """Return both, in order of time; at the same second these come before the others."""
        sides = zip(vars(self).values(), vars(other).values(), strict=True)
        columns = [np.concatenate(side) for side in sides]
        order = np.argsort(columns[0], kind="stable")
        return Changes(*(column[order] for column in columns))


@dataclass(frozen=True)
class Machines:
    """The machines.

    Attributes
    ----------
    factor
        Shape (m,): a job of length L runs for L × factor seconds, so above 1 is slower.
    cpus
        Shape (m,): processors of each; every job takes one.
    changes
        Changes of speed, failures and repairs.
    """

    factor: FloatArray
    cpus: IntArray
    changes: Changes = field(default_factory=Changes)

    def __post_init__(self) -> None:
        low, high = _FACTORS
        if len(self.factor) == 0 or len(self.factor) != len(self.cpus):
            raise SimulationError(f"{len(self.factor)} factors and {len(self.cpus)} numbers of processors")
        speeds = self.changes.value[self.changes.kind == SPEED]
        for factors in (self.factor, speeds):
            if not ((factors >= low) & (factors <= high)).all():
                raise SimulationError(f"a speed factor must be from {low:g} to {high:g}", field="factor")
        if (self.cpus < 1).any():
            raise SimulationError("a machine needs a processor", field="cpus")
        machine = self.changes.machine
        if len(machine) and not (machine.min() >= 0 and machine.max() < len(self.factor)):
            raise SimulationError("a change names a machine that is not there", field="changes")

    def __len__(self) -> int:
        return len(self.factor)
