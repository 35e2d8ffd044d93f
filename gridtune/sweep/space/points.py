"""Points of a search space: grids, random and Sobol samples, conditional dimensions, and baselines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gridtune.errors import GridtuneError, SpaceError
from gridtune.sweep.space.schema import Dimension, SearchSpace
from gridtune.sweep.space.strategies import MOST_POINTS

#: A value for each dimension that applies.
Point = dict[str, Any]


def in_order(dimensions: Mapping[str, Dimension]) -> list[str]:
    """Return the names so that each comes after those its `when` names; otherwise as written.

    Raises
    ------
    SpaceError
        If conditions go round in a circle; `field` names one of the dimensions.
    """
    ordered: list[str] = []
    waiting = list(dimensions)
    while waiting:
        ready = [name for name in waiting if all(other in ordered for other in dimensions[name].when)]
        if not ready:
            raise SpaceError(f"conditions go round in a circle: {', '.join(waiting)}", field=waiting[0])
        ordered.append(ready[0])
        waiting.remove(ready[0])
    return ordered


def active_part(dimensions: Mapping[str, Dimension], point: Mapping[str, Any]) -> Point:
    """Return the part of a full assignment whose conditions hold, in the order written."""
    active: Point = {}
    for name in in_order(dimensions):
        if dimensions[name].applies(active):
            active[name] = point[name]
    return {name: active[name] for name in dimensions if name in active}


def grid_points(dimensions: Mapping[str, Dimension]) -> list[Point]:
    """Return every combination of values once; the dimension written last varies fastest."""
    for name, dimension in dimensions.items():
        if dimension.values is None:
            raise SpaceError(
                f"a grid cannot spell out {dimension.kind} {list(dimension.extremes)}",
                field=f"dimensions.{name}",
                hint="list its values under `grid`, or use the strategy random, sobol or optuna",
            )
    names = list(dimensions)
    combinations = math.prod(len(dimension.values or ()) for dimension in dimensions.values())
    # Refused before the first is made: they would not fit into memory.
    if combinations > MOST_POINTS:
        raise SpaceError(
            f"{combinations:,} combinations of values, but a sweep takes at most {MOST_POINTS:,}",
            field="dimensions",
            hint="give fewer values, or draw some of them: the strategies random, sobol and optuna do",
        )
    every = itertools.product(*(dimensions[name].values or () for name in names))
    return _once(active_part(dimensions, dict(zip(names, values, strict=True))) for values in every)


def random_points(dimensions: Mapping[str, Dimension], samples: int, seed: int) -> list[Point]:
    """Return `samples` independent draws; more samples keep those there were.

    Each draw has a stream of its own, so the first hundred of two hundred are the hundred.
    """
    drawn = [name for name, dimension in dimensions.items() if dimension.grid is None]
    rows = [
        np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, number]))).random(len(drawn))
        for number in range(samples)
    ]
    return _crossed(dimensions, drawn, rows)


def _sobol_points(dimensions: Mapping[str, Dimension], samples: int, seed: int) -> list[Point]:
    """Return the first `samples` points of a scrambled Sobol sequence: even coverage, few gaps.

    References
    ----------
    I. M. Sobol', "On the distribution of points in a cube and the approximate evaluation of integrals",
    USSR Comput. Math. Math. Phys. 7(4), 1967; scrambling after A. B. Owen, J. Complexity 14(4), 1998.
    """
    from scipy.stats import qmc  # noqa: PLC0415

    drawn = [name for name, dimension in dimensions.items() if dimension.grid is None]
    if not drawn:
        return _crossed(dimensions, drawn, [np.empty(0)])
    sequence = qmc.Sobol(d=len(drawn), scramble=True, rng=np.random.default_rng(seed))
    # Sobol points come in powers of two; a prefix of the next power is taken.
    rows = sequence.random_base2(max(0, math.ceil(math.log2(samples))))[:samples]
    return _crossed(dimensions, drawn, rows)


def _crossed(
    dimensions: Mapping[str, Dimension], drawn: Sequence[str], rows: Iterable[Iterable[float]]
) -> list[Point]:
    """Return every sampled row with every combination of the `grid` dimensions."""
    crossed = {name: dimension.grid or () for name, dimension in dimensions.items() if name not in drawn}
    combinations = [
        dict(zip(crossed, values, strict=True)) for values in itertools.product(*crossed.values())
    ]
    samples = (
        {name: _at(dimensions[name], float(u)) for name, u in zip(drawn, row, strict=True)} for row in rows
    )
    return _once(
        active_part(dimensions, {**sampled, **combination})
        for sampled in samples
        for combination in combinations
    )


def _at(dimension: Dimension, u: float) -> Any:
    """Return the value at `u` in [0, 1)."""
    if dimension.uniform is not None:
        low, high = dimension.uniform
        return low + u * (high - low)
    if dimension.loguniform is not None:
        low, high = (math.log(end) for end in dimension.loguniform)
        return math.exp(low + u * (high - low))
    if dimension.integer is not None:
        first, last = dimension.integer
        return first + int(u * (last - first + 1))
    if dimension.expression is not None:
        rng = np.random.default_rng(int(u * 2**53))
        return dimension.expression.draw(lambda _, alternatives: int(rng.integers(alternatives)))
    values = dimension.choice or ()
    return values[int(u * len(values))]


def _once(points: Iterable[Point]) -> list[Point]:
    """Return each point once: leaving out what does not apply makes some of them equal."""
    return list({repr(sorted(point.items())): point for point in points}.values())


def space_points(space: SearchSpace) -> list[Point]:
    """Return the points a strategy that knows them up front will run; the baseline is among them.

    For an adaptive strategy that is the baseline alone.
    """
    points, dimensions = strategy_points(space), space.dimensions
    wanted = {name: value for name, value in space.baseline.items() if name in dimensions}
    for name, value in space.baseline.items():
        if name not in wanted and space.fixed[name] != value:
            raise space.fault(f"every cell has {name}={space.fixed[name]!r}", "baseline", name)
    if not wanted or any(agrees(point, wanted) for point in points):
        return points
    if space.strategy.drawn is None and space.strategy.adaptive is None:
        parameters = ", ".join(f"{name}={value}" for name, value in wanted.items())
        raise space.fault(f"no configuration of the grid has {parameters}", "baseline")
    return [_baseline_point(space, wanted), *points]


def strategy_points(space: SearchSpace) -> list[Point]:
    """Return the points of a strategy that knows them up front; [] of an adaptive one."""
    strategy, dimensions = space.strategy, space.dimensions
    try:
        if strategy.drawn is not None:
            kind, options = strategy.drawn
            draw = random_points if kind == "random" else _sobol_points
            return draw(dimensions, options.samples, options.seed)
        return [] if strategy.adaptive is not None else grid_points(dimensions)
    except GridtuneError as fault:
        place = str(fault.field or "dimensions").split(".")
        raise space.fault(fault.message, *place, hint=fault.hint) from None


def _baseline_point(space: SearchSpace, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the baseline as a point of a sampled space, where it must be a whole one."""
    dimensions = space.dimensions
    missing = [name for name, dimension in dimensions.items() if name not in wanted and not dimension.when]
    if not missing:
        try:
            point = active_part(dimensions, wanted)
        except KeyError as conditional:
            missing = [str(conditional.args[0])]
    if missing:
        message = f"the baseline leaves {', '.join(missing)} open, which a sample hardly hits"
        raise space.fault(message, "baseline", hint="give every dimension that applies a value")
    for name, value in wanted.items():
        if name not in point and value is not None:
            message = f"{name} does not apply to the baseline: its `when` is not fulfilled"
            raise space.fault(message, "baseline", name, hint="leave it out or say `null`")
    for name, value in point.items() if space.strategy.adaptive is not None else ():
        # An adaptive strategy cannot take a value that no configuration has.
        listed = dimensions[name].grid or dimensions[name].choice
        if listed and value not in listed:
            hint = f"it is one of {', '.join(map(str, listed))}"
            raise space.fault(f"{name} never is {value!r}", "baseline", name, hint=hint)
    return point


def agrees(point: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a point has all of the values that are wanted."""
    return all(point.get(name) == value for name, value in wanted.items())
