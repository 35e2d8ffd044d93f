"""`ClusterBatch`: many clusters, stepped together minute by minute in one compiled call."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import array_at, bare, handles_of, kernel, section
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
    DAY,
    DECISIONS,
    EFFECTS,
    FLAGS,
    NOW,
    Arena,
    Settings,
    Table,
    Variant,
    View,
    build_model,
    cluster_at,
    cluster_columns,
    jobs_of,
)
from gridtune.systems.shutdown.simulator.stepping import (
    add_minutes,
    is_over,
    quiet_until,
    reset_cluster,
    step_cluster,
)
from gridtune.types import BoolArray, Float32Array, IntArray

__all__ = ["ClusterBatch"]


#: Frames that are written before the latest ones are moved to the front again.
_SPARE_FRAMES = 64


@kernel()
def step_batch(handles):
    """Step each cluster by a minute, or to its next decision, or begin another day on it.

    Parameters
    ----------
    handles
        Of the arrays (`handles_of`) of the settings, the table, the scales and the arena; of `actions`, nodes
        to keep reserved, int64; `restart`, whether to begin another day instead, bool; `days`, which, int64;
        `observations`, float32, and `where`, int64: the where[2] features of cluster i are written from
        where[0] + i · where[1] on; `rewards`, float64, and `over`, bool: filled in, 0 and False for
        clusters that begin a day.
    """
    settings = Settings(
        array_at(handles, 0, np.int64), array_at(handles, 1, np.float64), array_at(handles, 2, np.int64)
    )
    table = Table(
        array_at(handles, 3, np.int64), array_at(handles, 4, np.int64), array_at(handles, 5, np.int64)
    )
    scale = Scales(
        bare(array_at(handles, 6, np.float32)),
        bare(array_at(handles, 7, np.float32)),
        bare(array_at(handles, 8, np.float32)),
    )
    arena = Arena(array_at(handles, 9, np.int64), array_at(handles, 10, np.float64))
    actions, restart = array_at(handles, 11, np.int64), array_at(handles, 12, np.bool_)
    days, observations = array_at(handles, 13, np.int64), array_at(handles, 14, np.float32)
    where, rewards = array_at(handles, 15, np.int64), array_at(handles, 16, np.float64)
    over = array_at(handles, 17, np.bool_)
    for index in range(actions.size):
        cluster = cluster_at(settings, arena, index)
        day = days[index] if restart[index] else cluster.memory[DAY]
        jobs, horizon = jobs_of(table, day), table.minutes[day]
        if restart[index]:
            reset_cluster(cluster, jobs, day)
            rewards[index], over[index] = 0.0, False
        else:
            rewards[index] = step_cluster(cluster, jobs, horizon, actions[index])
            if settings.whole[FLAGS] & DECISIONS:
                rewards[index] += _pass_time(cluster, jobs, horizon)
            over[index] = is_over(cluster, jobs, horizon)
        row = section(observations, where[0] + index * where[1], where[2])
        if settings.whole[FLAGS] & EFFECTS:
            observe_effects(cluster, jobs, row)
        else:
            observe(cluster, jobs, scale, row)


@kernel()
def _pass_time(cluster, jobs, horizon):
    """Let minutes pass in which every reservation does the same; return the sum of their rewards."""
    memory, rewards = cluster.memory, 0.0
    while not is_over(cluster, jobs, horizon) and not has_choice(cluster, jobs):
        until = quiet_until(cluster, jobs, horizon)
        if until > memory[NOW]:
            add_minutes(cluster, until - memory[NOW])
        rewards += step_cluster(cluster, jobs, horizon, cluster.nodes)
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
    tau
        Share of its walltime that a job may wait before the reward counts it as late.
    variant
        `paper` or `exact`, see `Variant`.
    frames
        Observations that are returned at once.
    view
        What an observation holds: see `View`.
    decisions
        With `view="effects"`: a step lasts until reservations differ in their effects, or until the day ends;
        rewards of the minutes are added up.

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
        tau: float = 0.5,
        variant: Variant = "paper",
        frames: int = 1,
        view: View = "paper",
        decisions: bool = False,
    ) -> None:
        if count < 1 or frames < 1:
            raise SimulationError(f"at least 1 cluster and 1 frame, but got {count=} and {frames=}")
        self.days, self.platform, self.count, self.frames = days, platform or Platform(), count, frames
        self._options = {
            "count": count,
            "tau": tau,
            "variant": variant,
            "frames": frames,
            "view": view,
            "decisions": decisions,
        }
        self.view = view
        self.features = features = features_of(view, self.platform.nodes)
        model = build_model(
            days, self.platform, tau, variant, until_done=False, view=view, decisions=decisions
        )
        tables = scales(int(days.walltime.max(initial=0)))
        self._arena = arena = model.arena(count)
        self._columns = cluster_columns(arena, model.settings, count)
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
            *(*model.settings, *model.table, *tables, *arena),
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
        return self._columns["memory"][:, NOW].copy()

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
        step_batch(self._handles)
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
        columns = self._columns
        sizes = np.diff(self.days.first)[self.day]
        start = [columns["start"][index, :size] for index, size in enumerate(sizes.tolist())]
        return DayResults(
            columns["totals"].copy(),
            columns["score"].copy(),
            columns["memory"][:, NOW].copy(),
            columns["switched_on"].copy(),
            columns["switched_off"].copy(),
            np.concatenate(start),
        )

    def __getstate__(self) -> dict[str, Any]:
        # Addresses are valid in this process only: a copy makes its own arrays, with the same content.
        options = {"days": self.days, "platform": self.platform, **self._options}
        return {
            "options": options,
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
        return [*own, self._arena.whole, self._arena.real]
