"""`ClusterBatch`: many clusters, stepped together minute by minute."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import handles_of
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.kernels import step_batch
from gridtune.systems.shutdown.simulator.model import Variant, View, build_model
from gridtune.systems.shutdown.simulator.observing import features_of
from gridtune.systems.shutdown.simulator.outcome import Outcome
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.state import NOW, cluster_columns
from gridtune.types import BoolArray, Float32Array, IntArray

__all__ = ["ClusterBatch"]


#: Frames that are written before the latest ones are moved to the front again.
_SPARE_FRAMES = 64


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
            *(*model.settings, *model.table, *model.scales, *arena),
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

    def outcome(self) -> Outcome:
        """Return the results of the clusters' days so far; the days are `days.take(batch.day)`."""
        columns = self._columns
        sizes = np.diff(self.days.first)[self.day]
        start = [columns["start"][index, :size] for index, size in enumerate(sizes.tolist())]
        return Outcome(
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
