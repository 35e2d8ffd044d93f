"""`ClusterBatch`: many clusters, stepped together minute by minute in one compiled call."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import array_at, columns_at, handles_of, kernel, record_of, section
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.observing import (
    Scales,
    features_of,
    has_choice,
    observe,
    observe_effects,
    scales,
)
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import DayResults
from gridtune.systems.shutdown.simulator.state import (
    COLUMNS,
    MEMORY,
    SETTINGS,
    TOTALS,
    Arena,
    Model,
    View,
    build_model,
    cluster_at,
    jobs_of,
    new_arena,
)
from gridtune.systems.shutdown.simulator.stepping import (
    act,
    add_minutes,
    is_over,
    pass_minute,
    quiet_until,
    reset_cluster,
)
from gridtune.types import BoolArray, Float32Array, IntArray

__all__ = ["ClusterBatch"]


#: Frames that are written before the latest ones are moved to the front again.
_SPARE_FRAMES = 64


@kernel()
def _step_batch(handles):
    """Step each cluster by a minute, or to its next decision, or begin another day on it.

    Parameters
    ----------
    handles
        Of the arrays (`handles_of`) of the model, the scales and the arena; of `actions`, nodes to keep
         reserved, int64; `restart`, whether to begin another day instead, bool; `days`, which, int64;
        `observations`, float32, and `where`, int64: the where[2] features of cluster i are written from
        where[0] + i · where[1] on; `rewards`, float64, and `over`, bool: filled in, 0 and False for
        clusters that begin a day.
    """
    model = Model(
        array_at(handles, 0, SETTINGS),
        array_at(handles, 1, np.int64),
        array_at(handles, 2, np.int64),
        array_at(handles, 3, np.int64),
        array_at(handles, 4, np.int64),
    )
    scale = columns_at(Scales, (), handles, 5)
    arena = Arena(
        array_at(handles, 8, MEMORY),
        array_at(handles, 9, TOTALS),
        array_at(handles, 10, np.int64),
        array_at(handles, 11, np.int64),
    )
    actions, restart = array_at(handles, 12, np.int64), array_at(handles, 13, np.bool_)
    days, observations = array_at(handles, 14, np.int64), array_at(handles, 15, np.float32)
    where, rewards = array_at(handles, 16, np.int64), array_at(handles, 17, np.float64)
    over, settings = array_at(handles, 18, np.bool_), model.settings[0]
    for index in range(actions.size):
        cluster = cluster_at(model, arena, index)
        day = days[index] if restart[index] else record_of(cluster.memory).day
        jobs, horizon = jobs_of(model, day), model.minutes[day]
        if restart[index]:
            reset_cluster(cluster, jobs, day)
            rewards[index], over[index] = 0.0, False
        else:
            rewards[index] = act(cluster, jobs, actions[index])
            pass_minute(cluster, jobs, horizon)
            if settings.decisions:
                rewards[index] += _pass_time(cluster, jobs, horizon)
            over[index] = is_over(cluster, jobs, horizon)
        row = section(observations, where[0] + index * where[1], where[2])
        if settings.effects:
            observe_effects(cluster, jobs, row)
        else:
            observe(cluster, jobs, scale, row)


@kernel()
def _pass_time(cluster, jobs, horizon):
    """Let minutes pass in which every reservation does the same; return the sum of their rewards."""
    memory, rewards = record_of(cluster.memory), 0.0
    while not is_over(cluster, jobs, horizon) and not has_choice(cluster, jobs):
        until = quiet_until(cluster, jobs, horizon)
        if until > memory.now:
            add_minutes(cluster, until - memory.now)
        rewards += act(cluster, jobs, cluster.nodes)
        pass_minute(cluster, jobs, horizon)
    return rewards


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
    frames
        Observations that are returned at once.
    tau, variant, view, decisions
        See `build_model`.

    Attributes
    ----------
    actions
        Shape (count,), int64: of the last step.
    rewards
        Shape (count,), float64: of the last step.
    over
        Shape (count,), bool: whether the last step ended the day.
    day
        Shape (count,), int64: the current day of each cluster.
    features
        Numbers in an observation.
    """

    def __init__(
        self,
        days: Days,
        platform: Platform | None = None,
        *,
        count: int = 1,
        frames: int = 1,
        **options: Any,
    ) -> None:
        if count < 1 or frames < 1:
            raise SimulationError(f"at least 1 cluster and 1 frame, but got {count=} and {frames=}")
        self.days, self.platform, self.count, self.frames = days, platform or Platform(), count, frames
        self._options = options
        self._model = model = build_model(days, self.platform, **options)
        self._arena = new_arena(model, count)
        self.view: View = options.get("view", "paper")
        self.features = features = features_of(self.view, self.platform.nodes)
        self.actions = np.zeros(count, np.int64)
        self.rewards = np.zeros(count)
        self.over = np.zeros(count, np.bool_)
        self.day = np.zeros(count, np.int64)
        # Frames are stored one after the other, so that any `frames` consecutive ones are a view.
        self._length = 1 if frames == 1 else frames + _SPARE_FRAMES
        self._history = np.zeros((count, self._length, features), np.float32)
        self._place = self._length - 1
        self._restart = np.zeros(count, np.bool_)
        self._days = np.zeros(count, np.int64)
        self._where = np.array([0, self._length * features, features], np.int64)
        # The kernel gets addresses, so these arrays must not be replaced.
        self._arrays = (
            *(*model, *scales(int(days.walltime.max(initial=0))), *self._arena),
            *(self.actions, self._restart, self._days, self._history.reshape(-1)),
            *(self._where, self.rewards, self.over),
        )
        self._handles = handles_of(self._arrays)

    @property
    def observations(self) -> Float32Array:
        """The current observations: shape (count, features), or (count, frames, features), oldest first.

        A view of memory that later steps overwrite: with one frame, the next one.
        """
        if self.frames == 1:
            return self._history[:, 0]
        return self._history[:, self._place - self.frames + 1 : self._place + 1]

    @property
    def now(self) -> IntArray:
        """The minute of each cluster's day: shape (count,), int64; a copy."""
        return self._arena.memory["now"].copy()

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
            None: what stands in the attribute `actions`.
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
        if self.frames > 1:
            self._next_frame(begins)
        _step_batch(self._handles)
        if begins:
            np.copyto(self.day, self._days, where=self._restart)
            self._restart[:] = False

    def _check_days(self) -> None:
        days = self._days[self._restart]
        if ((days < 0) | (days >= len(self.days))).any():
            raise SimulationError(f"days are numbered from 0 to {len(self.days) - 1}, but got {days}")

    def _next_frame(self, begins: bool) -> None:
        past = self.frames - 1
        if self._place + 1 == self._length:
            self._history[:, :past] = self._history[:, self._length - past :]
            self._place = past - 1
        self._place += 1
        self._where[0] = self._place * self.features
        if begins:
            self._history[self._restart, self._place - past : self._place] = 0

    def results(self) -> DayResults:
        """Return the results of the clusters' days so far; the days are `days.take(batch.day)`."""
        memory, starts = self._arena.memory, self.column("start")
        sizes = np.diff(self.days.first)[self.day]
        return DayResults(
            self._arena.totals.copy(),
            memory["score"].copy(),
            self.now,
            self.column("switched_on").copy(),
            self.column("switched_off").copy(),
            np.concatenate([starts[index, :size] for index, size in enumerate(sizes.tolist())]),
        )

    def column(self, name: str) -> IntArray:
        """Return a column of each cluster's state, by its name in `Cluster`: shape (count, …), a view."""
        starts, place = self._model.starts, COLUMNS.index(name)
        return self._arena.words.reshape(self.count, -1)[:, starts[place] : starts[place + 1]]

    def __getstate__(self) -> dict[str, Any]:
        # Addresses are valid in this process only: a copy makes its own arrays, with the same content.
        options = {"count": self.count, "frames": self.frames, **self._options}
        return {
            "options": {"days": self.days, "platform": self.platform, **options},
            "place": self._place,
            "memory": [array.copy() for array in self._memory()],
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["options"])  # type: ignore[misc]
        self._place = state["place"]
        for own, saved in zip(self._memory(), state["memory"], strict=True):
            own[...] = saved

    def _memory(self) -> list[npt.NDArray[Any]]:
        """Return every array that a step writes."""
        own = [self.actions, self.rewards, self.over, self.day, self._where, self._history]
        return [*own, self._arena.memory, self._arena.totals, self._arena.words]
