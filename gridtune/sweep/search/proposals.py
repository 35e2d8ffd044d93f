"""`Proposer`: which configuration an adaptive strategy tries next.

Its proposals depend on the seed and on what it has been told, in the order of the calls, and on nothing else.
A resumed sweep makes the same calls again and gives the proposals of its journal; Optuna is not asked, nor
imported, before the journal ends. Then the sampler is brought to where it was by the same calls.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import numpy as np

from gridtune.core.cells import canonical_json
from gridtune.errors import SpaceError
from gridtune.sweep.space.points import Point, grid_points, in_order, random_points
from gridtune.sweep.space.schema import Dimension
from gridtune.sweep.space.strategies import SAMPLERS, Adaptive

#: Suggestions in a row that were tried before, after which an untried point is drawn evenly.
_PATIENCE = 20
#: The attribute of a trial that has what an evaluation's `excess` is.
_EXCESS = "excess"
#: Points up to which a finite space is spelt out to know when it is exhausted.
_LARGEST_FINITE = 10_000


@dataclass(frozen=True)
class Evaluation:
    """Outcome of a proposal.

    Attributes
    ----------
    values
        The mean of each objective; None if a cell has none.
    step
        The last step that was reached, from 1.
    stopped
        Whether a scheduler stopped it there.
    excess
        How far each constraint is broken, by the worse end of its interval; not above 0 where it is kept.
    """

    values: Sequence[float] | None
    step: int = 1
    stopped: bool = False
    excess: Sequence[float] = ()


def _once_asked(method: Callable[..., None]) -> Callable[..., None]:
    """Return a method of the proposer that waits until Optuna is asked."""

    @wraps(method)
    def call(proposer: Proposer, *arguments: Any) -> None:
        if proposer._study is None:
            proposer._calls.append(partial(method, proposer, *arguments))
        else:
            method(proposer, *arguments)

    return call


class Proposer:
    """Proposes points, one after another.

    Parameters
    ----------
    dimensions
        The dimensions to choose from.
    options
        Sampler and seed.
    directions
        "min" or "max" for each objective.
    key
        What identifies a point's configuration: points with the same key are proposed once.
    constraints
        Number of constraints.
    """

    def __init__(
        self,
        dimensions: Mapping[str, Dimension],
        options: Adaptive,
        directions: Sequence[str],
        key: Callable[[Point], str],
        constraints: int = 0,
    ) -> None:
        self._constraints = constraints
        self._dimensions, self._options, self._directions, self._key = dimensions, options, directions, key
        #: Every point of a finite space, or None.
        self._finite: list[Point] | None = None
        listed = [dimension.values for dimension in dimensions.values()]
        if None not in listed and math.prod(len(values or ()) for values in listed) <= _LARGEST_FINITE:
            self._finite = grid_points(dimensions)
        #: Optuna's study, once it is asked; the calls before wait for it.
        self._study: Any = None
        self._calls: list[Callable[[], None]] = []
        self._trials: list[Any] = []
        self._number_of: dict[str, int] = {}
        self._evaluations: dict[int, Evaluation] = {}
        #: How many proposals of the journal the sampler would not make.
        self.differing = 0

    @property
    def size(self) -> float:
        """Number of points; infinity where they cannot be listed."""
        return math.inf if self._finite is None else len(self._finite)

    def propose(self) -> Point | None:
        """Return the next proposal; None if every point of the space has been proposed."""
        if self._study is None:
            self._study = _new_study(self._options, self._directions, self._constraints)
            for call in self._calls:
                call()
            self._calls.clear()
        return self._draw()

    def _draw(self) -> Point | None:
        """Return a point that has not been proposed; None if there is none."""
        for _ in range(_PATIENCE):
            trial = self._study.ask()
            point = _suggested_point(self._dimensions, trial)
            if self._key(point) not in self._number_of:
                self._add(point, trial)
                return point
            known = self._evaluations.get(self._number_of[self._key(point)], Evaluation(None))
            self._finish(trial, known)
        # A population that has become alike proposes what was tried, however large the space is.
        others = self._finite or random_points(self._dimensions, _PATIENCE, len(self._trials))
        untried = [point for point in others if self._key(point) not in self._number_of]
        if not untried:
            return None
        drawn = np.random.default_rng([self._options.seed, len(self._trials)]).integers(len(untried))
        self.give(untried[int(drawn)])
        return untried[int(drawn)]

    @_once_asked
    def repeat(self, point: Point) -> None:
        """Enter a point of the journal as the next proposal; count it if it would be another one now."""
        drawn = self._draw()
        if drawn is not None and canonical_json(drawn) == canonical_json(point):
            return
        self.differing += 1
        if drawn is not None:
            self._finish(self._trials.pop(), Evaluation(None))
            del self._number_of[self._key(drawn)]
        self.give(point)

    @_once_asked
    def give(self, point: Point) -> None:
        """Enter a point as the next proposal, such as the baseline, which the strategy did not choose."""
        self._study.enqueue_trial(self._stored(point))
        trial = self._study.ask()
        _suggested_point(self._dimensions, trial)
        self._add(point, trial)

    def _stored(self, point: Point) -> dict[str, Any]:
        """Return a point as Optuna has it: listed values by their position, expressions by their nodes."""
        stored: dict[str, Any] = {}
        for name, value in point.items():
            dimension = self._dimensions[name]
            listed = dimension.grid or dimension.choice
            if dimension.expression is not None:
                nodes = dimension.expression.choices(value)
                stored.update({f"{name}[{node}]": choice for node, choice in nodes.items()})
            elif listed is None:
                stored[name] = value
            else:
                # 1 and 1.0 are the same; a value that is not listed has no place.
                plain = [*map(_plain, listed)]
                stored[name] = plain.index(_plain(value)) if _plain(value) in plain else None
        return stored

    def _add(self, point: Point, trial: Any) -> None:
        self._number_of[self._key(point)] = len(self._trials)
        self._trials.append(trial)

    @_once_asked
    def tell(self, number: int, evaluation: Evaluation) -> None:
        """Take what came of a proposal."""
        self._evaluations[number] = evaluation
        self._finish(self._trials[number], evaluation)

    def _finish(self, trial: Any, evaluation: Evaluation) -> None:
        from optuna.trial import TrialState  # noqa: PLC0415

        values = evaluation.values
        if evaluation.excess:
            trial.set_user_attr(_EXCESS, list(evaluation.excess))
        if values is None:
            self._study.tell(trial, state=TrialState.FAIL)
        elif evaluation.stopped:
            if len(values) == 1:
                trial.report(values[0], evaluation.step)
            self._study.tell(trial, state=TrialState.PRUNED)
        else:
            self._study.tell(trial, list(values))


def _suggested_point(dimensions: Mapping[str, Dimension], trial: Any) -> Point:
    """Return the point an Optuna trial suggests; dimensions that do not apply are not asked for."""
    point: Point = {}
    for name in in_order(dimensions):
        dimension = dimensions[name]
        if not dimension.applies(point):
            continue
        if (ends := dimension.uniform or dimension.loguniform) is not None:
            point[name] = trial.suggest_float(name, *ends, log=dimension.uniform is None)
        elif dimension.integer is not None:
            point[name] = trial.suggest_int(name, *dimension.integer)
        elif dimension.expression is not None:

            def choose(node: int, alternatives: int, name: str = name) -> int:
                return int(trial.suggest_categorical(f"{name}[{node}]", list(range(alternatives))))

            point[name] = dimension.expression.draw(choose)
        else:
            values = dimension.grid or dimension.choice or ()
            # By position: Optuna's categories are scalars, a parameter's values need not be.
            point[name] = values[trial.suggest_categorical(name, list(range(len(values))))]
    return {name: point[name] for name in dimensions if name in point}


def _plain(value: Any) -> str:
    return canonical_json(float(value) if isinstance(value, int) and not isinstance(value, bool) else value)


def _new_study(options: Adaptive, directions: Sequence[str], constraints: int) -> Any:
    """Return an Optuna study in memory with the strategy's sampler.

    Parameters
    ----------
    options
        Sampler, seed, population.
    directions
        "min" or "max" for each objective.
    constraints
        Number of constraints.
    """
    import optuna  # noqa: PLC0415

    info = SAMPLERS[options.sampler]
    chosen: dict[str, Any] = {}
    if options.population is not None:
        chosen[info.population] = options.population
    if constraints and info.constraints:
        unknown = [1.0] * constraints
        chosen["constraints_func"] = lambda trial: trial.user_attrs.get(_EXCESS, unknown)
    if options.sampler == "tpe":
        # Joint densities are for one objective.
        chosen["multivariate"] = len(directions) == 1
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # Optuna 5 has another way to give constraints, which 4 does not know.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            sampler = getattr(optuna.samplers, info.name)(seed=options.seed, **{**info.options, **chosen})
        except ValueError as fault:
            raise SpaceError(f"Optuna refuses the sampler {options.sampler}: {fault}") from None
    names = {"min": "minimize", "max": "maximize"}
    return optuna.create_study(directions=[names[direction] for direction in directions], sampler=sampler)
