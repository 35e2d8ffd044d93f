"""Adaptive strategies: Optuna chooses each configuration by the results of those before it.

Tune's own `OptunaSearch` does not take finished trials when the space has conditional dimensions, so a
resumed sweep would begin from nothing. Optuna's ask-and-tell interface does, and is used here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gridtune.core.cells import Cell, CellResult, canonical_json
from gridtune.core.system import System
from gridtune.sweep.blocks import Block, BlockQueue
from gridtune.sweep.dimensions import active_part, grid_points, position, suggested_point
from gridtune.sweep.plan import Planner, space_points
from gridtune.sweep.space import Adaptive, Dimension, SearchSpace

__all__ = ["AdaptiveQueue", "directions_of"]

#: Suggestions in a row that were tried before, after which an untried point is drawn evenly.
_PATIENCE = 20
#: Points up to which a finite space is spelt out to know when it is exhausted.
_LARGEST_FINITE = 10_000


def directions_of(space: SearchSpace, system: System) -> list[str]:
    """Return "min" or "max" for each objective: as the space says, else the metric's own."""
    return [
        objective.direction or system.metrics[objective.metric].direction for objective in space.objective
    ]


class AdaptiveQueue(BlockQueue):
    """Deals out configurations as Optuna suggests them, one per block, and reports their results to it.

    Parameters
    ----------
    planner
        Makes a configuration's cells.
    finished
        Results there are already, by cell id; the sampler gets those of finished configurations.
    tried
        Results of every configuration tried before; by default those finished. Cells among them that are not
        finished are run again.
    workers
        Configurations that are tried at once.
    timeout
        Seconds a cell may take, or None.
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
        super().__init__([], workers=workers, timeout=timeout)
        space = planner.space
        self._planner = planner
        options = space.strategy.adaptive
        assert options is not None
        self._options: Adaptive = options
        self._found: dict[str, CellResult] = dict(finished)
        self._cells_of: dict[str, list[Cell]] = {}
        self._asked: dict[str, Any] = {}
        self._exhausted = False
        points = _all_points(space)
        self._finite = None if points is None else {self._key(point): point for point in points}
        baseline = space_points(space)
        self._baseline = len(baseline)
        before = self._points_of(finished.values() if tried is None else tried)
        self._study = _study(planner, self._options, len(before))
        for point in [*baseline, *before]:
            if self._key(point) not in self._cells_of:
                self.add(self._open(point, None))

    def _key(self, point: Mapping[str, Any]) -> str:
        return canonical_json(self._planner.understood(point))

    def _points_of(self, results: Iterable[CellResult]) -> list[dict[str, Any]]:
        """Return the points that earlier results are of, each once.

        The journal may hold cells of another strategy, or of a space that has been changed since; a point
        counts if the space as it is now would make the very cell.
        """
        points: dict[str, dict[str, Any]] = {}
        for result in results:
            point = self._point(result)
            if canonical_json(point) in points or not _fits(self._planner.space, point):
                continue
            if result.cell_id in {cell.cell_id for cell in self._planner.cells([point])}:
                points[canonical_json(point)] = point
        return list(points.values())

    def _point(self, result: CellResult) -> dict[str, Any]:
        names = self._planner.space.dimensions
        return {name: result.configuration[name] for name in names if name in result.configuration}

    def _open(self, point: Mapping[str, Any], trial: Any) -> list[Cell]:
        """Take a new point up; return its cells that are still to be run."""
        key = self._key(point)
        self._cells_of[key] = self._planner.cells([point])
        self._asked[key] = trial
        self._tell(key, point)
        return [cell for cell in self._cells_of[key] if cell.cell_id not in self._found]

    def cells(self) -> list[Cell]:
        """Return the cells of every configuration started so far."""
        return [cell for cells in self._cells_of.values() for cell in cells]

    def _configurations(self) -> int:
        if self._exhausted:
            return len(self._cells_of)
        limit = max(len(self._cells_of), self._options.trials + self._baseline)
        return limit if self._finite is None else min(limit, len(self._finite))

    @property
    def left(self) -> int:
        """Cells without a result, suggested or not."""
        cells_each = len(self._planner.strata) * len(self._planner.replicates)
        return super().left + cells_each * (self._configurations() - len(self._cells_of))

    def take(self, *, among: int | None = None) -> Block | None:
        """Return the rest of a configuration that was started before, else a new one."""
        block = super().take(among=among)
        if block is not None or self.out > self.workers:
            return block
        while len(self._cells_of) < self._configurations():
            missing = self._suggest()
            if missing:
                return self.hand_out(missing)
        return None

    def _suggest(self) -> list[Cell]:
        """Take up a point that has not been tried; return its cells that are to be run."""
        for _ in range(_PATIENCE):
            trial = self._study.ask()
            point = suggested_point(self._planner.space.dimensions, trial)
            key = self._key(point)
            if key not in self._cells_of:
                return self._open(point, trial)
            values = self._values(key)
            self._study.tell(trial, values, state=None if values else _failed())
        untried = [point for key, point in (self._finite or {}).items() if key not in self._cells_of]
        if not untried:
            self._exhausted = True
            return []
        drawn = np.random.default_rng([self._options.seed, len(self._cells_of)]).integers(len(untried))
        point = untried[int(drawn)]
        return self._open(point, _queued(self._study, self._planner.space, point))

    def note(self, results: Sequence[CellResult]) -> None:
        """Take results; report a configuration to the sampler when all its cells have one."""
        self._found.update({result.cell_id: result for result in results})
        for point in map(self._point, results):
            self._tell(self._key(point), point)

    def _tell(self, key: str, point: Mapping[str, Any]) -> None:
        cells = self._cells_of.get(key, [])
        if not cells or key not in self._asked or any(cell.cell_id not in self._found for cell in cells):
            return
        trial = self._asked.pop(key)
        if trial is None:
            trial = _queued(self._study, self._planner.space, point)
        values = self._values(key)
        self._study.tell(trial, values, state=None if values else _failed())

    def _values(self, key: str) -> list[float] | None:
        """Return each objective's mean over the configuration's cells; None if a cell has no value."""
        results = [self._found.get(cell.cell_id) for cell in self._cells_of[key]]
        values = []
        for objective in self._planner.space.objective:
            metrics = [
                result.metrics.get(objective.metric, math.nan) if result is not None else math.nan
                for result in results
            ]
            values.append(float(np.mean(metrics)))
        return values if all(map(math.isfinite, values)) else None


def _all_points(space: SearchSpace) -> list[dict[str, Any]] | None:
    """Return every point of a finite space, or None."""
    values = [dimension.values for dimension in space.dimensions.values()]
    if any(numbers is None for numbers in values):
        return None
    size = math.prod(len(numbers or ()) for numbers in values)
    return grid_points(space.dimensions) if size <= _LARGEST_FINITE else None


def _fits(space: SearchSpace, point: Mapping[str, Any]) -> bool:
    """Return whether a point lies in the space: what applies has a value it may have, nothing else has."""
    try:
        if active_part(space.dimensions, point) != point:
            return False
    except KeyError:
        return False
    return all(_allowed(space.dimensions[name], value) for name, value in point.items())


def _allowed(dimension: Dimension, value: Any) -> bool:
    ends = dimension.uniform or dimension.loguniform or dimension.integer
    if ends is not None:
        return isinstance(value, int | float) and ends[0] <= value <= ends[1]
    return position(dimension.values or (), value) is not None


def _study(planner: Planner, options: Adaptive, tried: int) -> Any:
    import optuna  # noqa: PLC0415

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # A resumed sweep must not draw again what it drew when it began.
    seed = int(np.random.SeedSequence([options.seed, tried]).generate_state(1)[0])
    samplers: dict[str, Any] = {
        "tpe": lambda: optuna.samplers.TPESampler(seed=seed),
        "nsgaii": lambda: optuna.samplers.NSGAIISampler(seed=seed),
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
    }
    directions = directions_of(planner.space, planner.system)
    return optuna.create_study(
        directions=["minimize" if direction == "min" else "maximize" for direction in directions],
        sampler=samplers[options.sampler](),
    )


def _failed() -> Any:
    from optuna.trial import TrialState  # noqa: PLC0415

    return TrialState.FAIL


def _queued(study: Any, space: SearchSpace, point: Mapping[str, Any]) -> Any:
    """Return a trial of the study at a given point."""
    parameters = {}
    for name, value in point.items():
        listed = space.dimensions[name].grid or space.dimensions[name].choice
        parameters[name] = value if listed is None else position(listed, value)
    study.enqueue_trial(parameters)
    trial = study.ask()
    suggested_point(space.dimensions, trial)
    return trial
