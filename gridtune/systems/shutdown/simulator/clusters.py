"""`ClusterBatch`: many clusters, stepped together minute by minute in one compiled call, and observed.

An observation is `FEATURES` numbers, by index, in the authors' scaling: 0–4 shares of the cores that are
idle, switching on, sleeping, switching off, computing; 5 time of day; 6 queue length; 7 promise to the oldest
job; then, for each of the ten candidates, its cores, walltime, wait as a share of the one after which it is
late, and its user's jobs in the system.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import array_at, columns_at, handles_of, kernel, section
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.days import MINUTES_A_DAY, Days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.state import (
    FEATURES,
    ON,
    SETTINGS,
    SLEEPING,
    STATE,
    SWITCHING_OFF,
    SWITCHING_ON,
    TOTALS,
    Arena,
    Model,
    Variant,
    build_model,
    cluster_at,
    jobs_of,
)
from gridtune.systems.shutdown.simulator.stepping import act, is_over, pass_minute, reset_cluster
from gridtune.types import BoolArray, Float32Array, IntArray

#: The queue length, minutes and jobs of a user that the authors scale to 1.
LONGEST_QUEUE, LONGEST_MINUTES, MOST_JOBS = 1500, 4400, 50


class _Scales(NamedTuple):
    """Tables of logarithms: by queue length; by promise, at 1 + its minutes; by walltime."""

    queue: Float32Array
    promise: Float32Array
    walltime: Float32Array


def _scales(longest: int) -> _Scales:
    """Return the tables for walltimes of up to `longest` minutes."""

    def logarithms(limit: int, shift: int, scale: int) -> Float32Array:
        return np.array([math.log(n + shift) / math.log(scale) for n in range(limit + 1)], np.float32)

    return _Scales(
        logarithms(LONGEST_QUEUE, 1, 1 + LONGEST_QUEUE),
        logarithms(longest + 1, 1, 2 + LONGEST_MINUTES),
        logarithms(longest, 1, 1 + LONGEST_MINUTES),
    )


@kernel()
def _observe(cluster, jobs, scale, row):
    """Write the observation of the cluster into `row`: `FEATURES` floats."""
    state, in_state, cores = cluster.state, cluster.in_state, cluster.cores
    total = cluster.nodes * cores
    row[0] = (cores * in_state[ON] - state.busy) / total
    row[1] = cores * in_state[SWITCHING_ON] / total
    row[2] = cores * in_state[SLEEPING] / total
    row[3] = cores * in_state[SWITCHING_OFF] / total
    row[4] = state.busy / total
    row[5] = state.now % MINUTES_A_DAY / MINUTES_A_DAY
    row[6] = scale.queue[min(state.waiting, LONGEST_QUEUE)]
    row[7] = scale.promise[state.promise + 1]
    candidates = state.candidates
    for place in range(candidates):
        job, at = cluster.candidates[place], 8 + 4 * place
        walltime, wait = jobs.walltime[job], state.now - jobs.submit[job]
        patience = walltime * cluster.settings.tau
        row[at] = jobs.cores[job] / total
        row[at + 1] = scale.walltime[walltime]
        # A job that may not wait is late from the start.
        row[at + 2] = min(1.0, wait / patience) if patience > 0 else 1.0
        row[at + 3] = min(1.0, cluster.users[jobs.user[job]] / MOST_JOBS)
    for at in range(8 + 4 * candidates, FEATURES):
        row[at] = 0.0


@kernel()
def _step_batch(handles):
    """Step each cluster by a minute, or to its next decision, or begin another day on it.

    Parameters
    ----------
    handles
        Of the arrays (`handles_of`) of the model, the scales and the arena; of `actions`, nodes to keep
         reserved, int64; `restart`, whether to begin another day instead, bool; `days`, which, int64;
        `observations`, float32, a row of each cluster; `rewards`, float64, and `over`, bool: filled in, 0
        and False for clusters that begin a day.
    """
    model = Model(
        array_at(handles, 0, SETTINGS),
        array_at(handles, 1, np.int64),
        array_at(handles, 2, np.int64),
        array_at(handles, 3, np.int64),
        array_at(handles, 4, np.int64),
    )
    scale = columns_at(_Scales, (), handles, 5)
    arena = Arena(
        array_at(handles, 8, STATE),
        array_at(handles, 9, TOTALS),
        array_at(handles, 10, np.int64),
        array_at(handles, 11, np.int64),
    )
    actions, restart = array_at(handles, 12, np.int64), array_at(handles, 13, np.bool_)
    days, observations = array_at(handles, 14, np.int64), array_at(handles, 15, np.float32)
    rewards, over = array_at(handles, 16, np.float64), array_at(handles, 17, np.bool_)
    for index in range(actions.size):
        cluster = cluster_at(model, arena, index)
        day = days[index] if restart[index] else cluster.state.day
        jobs, horizon = jobs_of(model, day), model.minutes[day]
        if restart[index]:
            reset_cluster(cluster, jobs, day)
            rewards[index], over[index] = 0.0, False
        else:
            rewards[index] = act(cluster, jobs, actions[index])
            pass_minute(cluster, jobs, horizon)
            over[index] = is_over(cluster, jobs, horizon)
        _observe(cluster, jobs, scale, section(observations, index * FEATURES, FEATURES))


class ClusterBatch:
    """Clusters that are stepped by a minute in one compiled call.

    Parameters
    ----------
    days
        The days that clusters can begin.
    platform
        Each cluster; by default the paper's Taurus.
    count
        Number of clusters.
    tau, variant
        See `build_model`.

    Attributes
    ----------
    actions
        Shape (count,), int64: of the last step.
    rewards
        Shape (count,), float64: of the last step.
    over
        Shape (count,), bool: true if the last step ended the day.
    day
        Shape (count,), int64: the current day of each cluster.
    observations
        Shape (count, `FEATURES`), float32: the current ones; the next step overwrites them.
    """

    def __init__(
        self,
        days: Days,
        platform: Platform | None = None,
        *,
        count: int = 1,
        tau: float = 0.5,
        variant: Variant = "paper",
    ) -> None:
        if count < 1:
            raise SimulationError(f"at least 1 cluster, but got {count=}")
        self.days, self.platform, self.count = days, platform or Platform(), count
        self._options = {"tau": tau, "variant": variant}
        self._model = model = build_model(days, self.platform, tau, variant)
        self._arena = model.new_arena(count)
        self.actions = np.zeros(count, np.int64)
        self.rewards = np.zeros(count)
        self.over = np.zeros(count, np.bool_)
        self.day = np.zeros(count, np.int64)
        self.observations = np.zeros((count, FEATURES), np.float32)
        self._restart = np.zeros(count, np.bool_)
        self._days = np.zeros(count, np.int64)
        # The kernel gets addresses, so these arrays must not be replaced.
        self._arrays = (
            *(*model, *_scales(int(days.walltime.max(initial=0))), *self._arena),
            *(self.actions, self._restart, self._days, self.observations.reshape(-1)),
            *(self.rewards, self.over),
        )
        self._handles = handles_of(self._arrays)

    def observation_bounds(self, longest: int) -> Float32Array:
        """Return upper bounds of an observation for walltimes up to `longest` minutes; lower ones are 0."""
        tables = _scales(longest)
        high = np.ones(FEATURES, np.float32)
        high[7] = max(1.0, tables.promise[-1])
        high[9::4] = max(1.0, tables.walltime[-1])
        return high

    def reset(self, days: IntArray) -> None:
        """Begin `days[i]`, shape (count,), on each cluster i."""
        self.step(None, np.ones(self.count, np.bool_), days)

    def step(
        self, actions: npt.ArrayLike | None, restart: BoolArray | None = None, days: IntArray | None = None
    ) -> None:
        """Step each cluster by a minute, or begin another day on it.

        Parameters
        ----------
        actions
            Shape (count,), whole numbers: nodes to keep reserved; clipped to those that no job holds.
            None: the attribute `actions`.
        restart
            Shape (count,), bool: clusters that begin another day instead, with reward 0. None: none of
            them.
        days
            Shape (count,), int64: the days they begin.
        """
        if actions is not None:
            self.actions[:] = actions
        begins = False
        if restart is not None and days is not None:
            begins = bool(restart.any())
            self._restart[:] = restart
            self._days[:] = days
            self._check_days()
        _step_batch(self._handles)
        if begins:
            np.copyto(self.day, self._days, where=self._restart)
            self._restart[:] = False

    def _check_days(self) -> None:
        days = self._days[self._restart]
        if ((days < 0) | (days >= len(self.days))).any():
            raise SimulationError(f"days are numbered from 0 to {len(self.days) - 1}, but got {days}")

    def __getstate__(self) -> dict[str, Any]:
        # Addresses are valid in this process only: a copy makes its own arrays, with the same content.
        return {
            "options": {"days": self.days, "platform": self.platform, "count": self.count, **self._options},
            "written": [array.copy() for array in self._written()],
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["options"])  # type: ignore[misc]
        for own, saved in zip(self._written(), state["written"], strict=True):
            own[...] = saved

    def _written(self) -> list[npt.NDArray[Any]]:
        """Return every array that a step writes."""
        own = [self.actions, self.rewards, self.over, self.day, self.observations]
        return [*own, self._arena.states, self._arena.totals, self._arena.words]
