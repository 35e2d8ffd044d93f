"""Points of a search space: grids, random and Sobol samples, conditional dimensions, and baselines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gridtune.core.cells import canonical_json
from gridtune.errors import SpaceError
from gridtune.sweep.space.schema import Dimension
from gridtune.sweep.space.strategies import MOST_POINTS, Choose

__all__ = [
    "Point",
    "active_part",
    "baseline_indices",
    "grid_points",
    "in_order",
    "node_name",
    "position",
    "random_points",
    "sobol_points",
    "suggested_point",
]

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


def applies(dimension: Dimension, point: Mapping[str, Any]) -> bool:
    """Return whether a dimension's condition holds at a point (a dimension left out fulfils none)."""
    for other, wanted in dimension.when.items():
        allowed = wanted if isinstance(wanted, list | tuple) else [wanted]
        if other not in point or point[other] not in allowed:
            return False
    return True


def active_part(dimensions: Mapping[str, Dimension], point: Mapping[str, Any]) -> Point:
    """Return the part of a full assignment whose conditions hold, in the order written."""
    active: Point = {}
    for name in in_order(dimensions):
        if applies(dimensions[name], active):
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
    _check_size(math.prod(len(dimension.values or ()) for dimension in dimensions.values()))
    combinations = itertools.product(*(dimensions[name].values or () for name in names))
    return _once(active_part(dimensions, dict(zip(names, values, strict=True))) for values in combinations)


def _check_size(combinations: int) -> None:
    """Refuse more combinations than fit into memory, before the first is made."""
    if combinations > MOST_POINTS:
        raise SpaceError(
            f"{combinations:,} combinations of values, but a sweep takes at most {MOST_POINTS:,}",
            field="dimensions",
            hint="give fewer values, or draw some of them: the strategies random, sobol and optuna do",
        )


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


def sobol_points(dimensions: Mapping[str, Dimension], samples: int, seed: int) -> list[Point]:
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


def suggested_point(dimensions: Mapping[str, Dimension], trial: Any) -> Point:
    """Return the point an Optuna trial suggests; dimensions that do not apply are not asked for."""
    point: Point = {}
    for name in in_order(dimensions):
        dimension = dimensions[name]
        if not applies(dimension, point):
            continue
        if dimension.uniform is not None:
            point[name] = trial.suggest_float(name, *dimension.uniform)
        elif dimension.loguniform is not None:
            point[name] = trial.suggest_float(name, *dimension.loguniform, log=True)
        elif dimension.integer is not None:
            point[name] = trial.suggest_int(name, *dimension.integer)
        elif dimension.expression is not None:
            point[name] = dimension.expression.draw(_suggested_node(trial, name))
        else:
            values = dimension.grid or dimension.choice or ()
            # By position: Optuna's categories are scalars, a parameter's values need not be.
            point[name] = values[trial.suggest_categorical(name, list(range(len(values))))]
    return {name: point[name] for name in dimensions if name in point}


def node_name(name: str, node: int) -> str:
    """Return what a sampler calls a node of an expression."""
    return f"{name}[{node}]"


def _suggested_node(trial: Any, name: str) -> Choose:
    def choose(node: int, alternatives: int) -> int:
        return int(trial.suggest_categorical(node_name(name, node), list(range(alternatives))))

    return choose


def position(values: Sequence[Any], value: Any) -> int | None:
    """Return the place of a value among those listed, 1 and 1.0 being the same; None without one."""
    listed = [*map(_plain, values)]
    return listed.index(_plain(value)) if _plain(value) in listed else None


def _plain(value: Any) -> str:
    return canonical_json(float(value) if isinstance(value, int) and not isinstance(value, bool) else value)


def _crossed(
    dimensions: Mapping[str, Dimension], drawn: Sequence[str], rows: Iterable[Iterable[float]]
) -> list[Point]:
    """Return every sampled row with every combination of the `grid` dimensions."""
    crossed = {name: dimension.grid or () for name, dimension in dimensions.items() if name not in drawn}
    combinations = [
        dict(zip(crossed, values, strict=True)) for values in itertools.product(*crossed.values())
    ]
    return _once(
        active_part(dimensions, {**_values(dimensions, drawn, row), **combination})
        for row in rows
        for combination in combinations
    )


def _values(dimensions: Mapping[str, Dimension], drawn: Sequence[str], row: Iterable[float]) -> Point:
    return {name: _at(dimensions[name], float(u)) for name, u in zip(drawn, row, strict=True)}


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
    return list(_distinct(points))


def _distinct(points: Iterable[Point]) -> Iterator[Point]:
    keys: set[str] = set()
    for point in points:
        key = repr(sorted(point.items()))
        if key not in keys:
            keys.add(key)
            yield point


def baseline_indices(configurations: Sequence[Mapping[str, Any]], wanted: Mapping[str, Any]) -> list[int]:
    """Return each configuration's baseline as an index, its own for a baseline, -1 where it has none.

    The baseline of a configuration has the same parameters but for those that `wanted` names.

    Parameters
    ----------
    configurations
        Parameters of each; one that does not apply is None or left out.
    wanted
        Parameters that make a configuration a baseline; empty for none.
    """
    if not wanted:
        return [-1] * len(configurations)
    candidates = [
        index
        for index, parameters in enumerate(configurations)
        if all(parameters.get(name) == value for name, value in wanted.items())
    ]
    exact = {_key(configurations[index]): index for index in candidates}

    def find(parameters: Mapping[str, Any]) -> int:
        target = {**parameters, **wanted}
        if _key(target) in exact:
            return exact[_key(target)]
        # A conditional parameter may not apply on one of the two sides; it cannot tell them apart.
        near = [
            index
            for index in candidates
            if all(
                value == target.get(name) or value is None or target.get(name) is None
                for name, value in configurations[index].items()
            )
        ]
        return near[0] if len(near) == 1 else -1

    return [find(parameters) for parameters in configurations]


def _key(parameters: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return what tells configurations apart; a list counts by its text."""
    return tuple(
        (name, str(value) if isinstance(value, list | dict) else value)
        for name, value in sorted(parameters.items(), key=lambda item: item[0])
        if value is not None
    )
