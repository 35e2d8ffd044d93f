"""Asynchronous successive halving: many configurations a little, the best of them further and further.

What is spent on a configuration is one of its parameters, the *resource*, a grid that ascends: each value is
a rung. So a cell at a rung is a cell like any other, with an id and a line in the journal, and a system whose
work at one rung goes on from that at the rung below (a training from its checkpoint) pays the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gridtune.core.cells import Cell, CellResult
from gridtune.sweep.adaptive import AdaptiveQueue, directions_of
from gridtune.sweep.blocks import Block, BlockQueue
from gridtune.sweep.dimensions import suggested_point
from gridtune.sweep.plan import Planner
from gridtune.sweep.space import Halving

__all__ = ["HalvingQueue"]

#: Suggestions in a row that were tried before, after which there is taken to be nothing new.
_PATIENCE = 50


class HalvingQueue(AdaptiveQueue):
    """Deals out configurations, and those again at the next rung that are among the best of theirs.

    Whoever asks for work gets, from the highest rung down, a configuration that is among the best 1/η of
    those finished there and has not gone on yet; if there is none, a new configuration at the lowest rung.

    Parameters
    ----------
    planner, finished, tried, workers, timeout
        As of `AdaptiveQueue`; ranked is by the first objective.

    References
    ----------
    L. Li et al., "A system for massively parallel hyperparameter tuning", MLSys 2020, algorithm 2.
    """

    def __init__(
        self,
        planner: Planner,
        finished: Mapping[str, CellResult],
        *,
        tried: Iterable[CellResult] | None = None,
        workers: int,
        timeout: float | None = None,
    ) -> None:
        options = planner.space.strategy.asha
        assert options is not None
        self._halving: Halving = options
        self._rungs = list(planner.space.dimensions[options.resource].grid or ())
        #: Configurations by rung, without the resource: key to point.
        self._at: list[dict[str, dict[str, Any]]] = [{} for _ in self._rungs]
        self._sign = 1.0 if directions_of(planner.space, planner.system)[0] == "min" else -1.0
        super().__init__(planner, finished, tried=tried, workers=workers, timeout=timeout)

    def _open(self, point: Mapping[str, Any], trial: Any) -> list[Cell]:
        rest = {name: value for name, value in point.items() if name != self._halving.resource}
        rung = self._rungs.index(point[self._halving.resource])
        self._at[rung][self._key(rest)] = rest
        return super()._open(point, trial)

    def _point_at(self, rest: Mapping[str, Any], rung: int) -> dict[str, Any]:
        full = {**rest, self._halving.resource: self._rungs[rung]}
        return {name: full[name] for name in self._planner.space.dimensions if name in full}

    def _promotable(self) -> dict[str, Any] | None:
        """Return the point that goes on next, one rung further; None where none does."""
        for rung in range(len(self._rungs) - 2, -1, -1):
            finished = []
            for key, rest in self._at[rung].items():
                values = self._finished(self._key(self._point_at(rest, rung)))
                if values is not None:
                    finished.append((self._sign * values[0], key))
            for _, key in sorted(finished)[: len(finished) // self._halving.reduction]:
                if key not in self._at[rung + 1]:
                    return self._point_at(self._at[rung][key], rung + 1)
        return None

    def _finished(self, key: str) -> list[float] | None:
        cells = self._cells_of.get(key, [])
        return self._values(key) if cells and all(cell.cell_id in self._found for cell in cells) else None

    def _unseen(self) -> int:
        return 0 if self._exhausted else max(0, self._halving.trials + self._baseline - len(self._begun))

    @property
    def _begun(self) -> set[str]:
        # A baseline may stand at any rung.
        return {key for rung in self._at for key in rung}

    @property
    def left(self) -> int:
        """Cells without a result that are known to come: how many go on is not known before."""
        cells_each = len(self._planner.strata) * len(self._planner.replicates)
        ahead = self._unseen() or int(self._promotable() is not None)
        return BlockQueue.left.fget(self) + cells_each * ahead  # type: ignore[attr-defined]

    def take(self, *, among: int | None = None) -> Block | None:
        """Return the rest of a started configuration, else one that goes on, else a new one."""
        block = BlockQueue.take(self, among=among)
        if block is not None or self.out > self.workers:
            return block
        while True:
            point = self._promotable()
            if point is not None:
                missing = self._open(point, None)
            elif self._unseen():
                missing = self._begin()
            else:
                return None
            if missing:
                return self.hand_out(missing)

    def _begin(self) -> list[Cell]:
        """Take up a configuration that has not been tried, at the lowest rung."""
        for _ in range(_PATIENCE):
            trial = self._study.ask()
            drawn = suggested_point(self._planner.space.dimensions, trial)
            rest = {name: value for name, value in drawn.items() if name != self._halving.resource}
            # The sampler gets a configuration with the rung where it was run.
            self._study.tell(trial, state=_dropped())
            if self._key(rest) not in self._begun:
                return self._open(self._point_at(rest, 0), None)
        self._exhausted = True
        return []


def _dropped() -> Any:
    from optuna.trial import TrialState  # noqa: PLC0415

    return TrialState.FAIL
