"""A race as a queue of cells: a round of replicates, a decision, the next round.

Decisions are made when every cell of a round has its result, from nothing but those results. So a race is
the same with any number of workers, and the journal's cells rebuild it after a kill.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gridtune.core.cells import Cell, CellResult
from gridtune.statistics.racing import Race, RaceRules, race_looks
from gridtune.sweep.execution.blocks import BlockQueue
from gridtune.sweep.space.plan import PlannedSpace
from gridtune.sweep.space.points import baseline_indices
from gridtune.sweep.space.schema import Replicates, SearchSpace
from gridtune.sweep.space.strategies import Racing

__all__ = ["RacePlan", "RaceQueue"]


@dataclass(frozen=True)
class RacePlan:
    """Order in which a race goes through its replicates.

    Attributes
    ----------
    order
        Labels of the replicates in the order they are run: windows from all over the log first.
    places
        Place in the log of each, where they are windows; else empty.
    looks
        Replicates at each look, ascending.
    error
        The chance of each of the two errors in the whole sweep.
    """

    order: tuple[str, ...]
    looks: tuple[int, ...]
    error: float
    places: tuple[int, ...] = ()

    @classmethod
    def of(cls, options: Racing, replicates: Replicates) -> Self:
        """Return the plan of a race with these options over these replicates."""
        labels = [replicates.replicate(number).label for number in range(replicates.count)]
        places = tuple(_spread(len(labels))) if replicates.windows is not None else ()
        labels = [labels[index] for index in places] or labels
        return cls(tuple(labels), race_looks(options.first, len(labels)), options.error, places)

    @classmethod
    def stored(cls, space: Mapping[str, Any]) -> Self | None:
        """Return the plan of a stored search space; None where it is no race."""
        strategy = space.get("strategy") or {}
        if not isinstance(strategy, Mapping) or strategy.get("race") is None:
            return None
        replicates = Replicates.model_validate(space.get("replicates") or {"seeds": 1})
        return cls.of(Racing.model_validate(strategy["race"]), replicates)

    def rules(self, tables: int, columns: int = 1) -> RaceRules:
        """Return the rules of one table: the error is divided among all, and the one over all of them.

        Parameters
        ----------
        tables
            Groups of configurations that are compared with each other (workloads, conditions).
        columns
            Groups that the table pools.
        """
        return RaceRules(self.looks, self.error / (tables + (tables > 1)), columns, self.places)


def _spread(count: int) -> list[int]:
    """Return the numbers below `count` so that each part of them is spread out (van der Corput's order)."""
    digits = max(1, (count - 1).bit_length())
    turned = sorted(range(2**digits), key=lambda number: int(f"{number:0{digits}b}"[::-1], 2))
    return [number for number in turned if number < count]


class RaceQueue(BlockQueue):
    """Deals out the cells of a race, round by round.

    Parameters
    ----------
    planner
        Knows the space.
    cells
        Every cell that there could be.
    finished
        Results there are already, by cell id.
    workers, timeout
        As of `BlockQueue`.

    Raises
    ------
    SpaceError
        If the budget does not reach the first decision.
    """

    def __init__(
        self,
        planner: PlannedSpace,
        cells: Sequence[Cell],
        finished: Mapping[str, CellResult],
        *,
        workers: int,
        timeout: float | None = None,
    ) -> None:
        super().__init__([], workers=workers, timeout=timeout)
        space = planner.space
        options = space.strategy.race
        assert options is not None
        self._planner, self._cells = planner, cells
        self._found = dict(finished)
        self._metric = space.objective[0].metric
        self._sign = 1.0 if planner.directions[0] == "min" else -1.0
        plan = RacePlan.of(options, space.replicates)
        self._groups = _groups(space, cells, plan.order)
        wanted = planner.baseline if space.baseline else {}
        wanted = {name: value for name, value in wanted.items() if name in space.dimensions}
        bases = [baseline_indices([row[0].configuration for row in group], wanted) for group in self._groups]
        #: Cells that the race comes to at most.
        self.most = options.most(len(cells))
        self.race = Race(
            bases,
            plan.rules(len(self._groups)),
            budget=self.most,
            width=options.width,
            verdicts=options.verdicts,
        )
        if self.race.taken > self.most:
            message = f"{self.most:,} cells are fewer than the first {options.first} replicates of all take"
            hint = f"give at least {self.race.taken:,}, or a smaller `first`"
            raise space.fault(message, "strategy", "race", "budget", hint=hint)
        self._open: set[str] = set()
        self._begin_round()

    def cells(self) -> list[Cell]:
        """Return the cells of every round begun so far, in the order of the space's."""
        begun = {
            cell.cell_id
            for group, counts in zip(self._groups, self.race.replicates, strict=True)
            for row, count in zip(group, counts, strict=True)
            for cell in row[:count]
        }
        return [cell for cell in self._cells if cell.cell_id in begun]

    def note(self, results: Sequence[CellResult]) -> None:
        """Take results; when a round has all of its own, decide and begin the next."""
        self._found.update({result.cell_id: result for result in results})
        if self._open:
            self._open -= {result.cell_id for result in results}
            if not self._open and self.race.advance(self._values()):
                self._begin_round()

    def _begin_round(self) -> None:
        """Add the cells of this round that have no result; decide at once where all have one."""
        while True:
            missing = [cell for cell in self.cells() if cell.cell_id not in self._found]
            if missing:
                places = self._planner.run_order(missing)
                self._waiting.extend(sorted(missing, key=lambda cell: places[cell.cell_id]))
                self._open = {cell.cell_id for cell in missing}
                return
            if not self.race.advance(self._values()):
                return

    def _values(self) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
        """Return the objective of what has been run, shape (configurations, replicates) for each group."""
        return [
            np.array([[self._value(cell) for cell in row] for row in group], dtype=np.float64)
            for group in self._groups
        ]

    def _value(self, cell: Cell) -> float:
        result = self._found.get(cell.cell_id)
        value = math.nan if result is None else result.metrics.get(self._metric, math.nan)
        return self._sign * value if math.isfinite(value) else math.nan


def _groups(space: SearchSpace, cells: Sequence[Cell], order: Sequence[str]) -> list[list[list[Cell]]]:
    """Return cells by table, configuration and replicate, the last in the order of running.

    Tables are split as the report splits them: by workload, and by each dimension that the baseline leaves
    open.
    """
    conditions = [
        name
        for name, dimension in space.dimensions.items()
        if space.baseline and name not in space.baseline and not dimension.when
    ]
    place = {label: index for index, label in enumerate(order)}
    groups: dict[tuple[Any, ...], dict[str, list[Cell]]] = {}
    for cell in cells:
        key = (cell.workload, *(str(cell.configuration.get(name)) for name in conditions))
        groups.setdefault(key, {}).setdefault(cell.configuration_id, []).append(cell)
    return [
        [sorted(row, key=lambda cell: place[cell.replicate.label]) for row in group.values()]
        for group in groups.values()
    ]
