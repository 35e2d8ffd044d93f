"""Prepare tournaments of a log's jobs: jobs that are alike to an order, and lines that bound their scores.

Many scores are `a * wait + b * use + c` or a power of that, where `use` is that of the job's account, and `a`
and `c` are numbers of the job: WFP3, UNICEF, the expansion factor, all that is linear in the wait, fair
share. `score_bounds` takes the root of such a score, which keeps the order, and returns a line below and one
above it, so far apart that no rounding error leaves them. The lines of two jobs tell for how long one is sure
to stay before the other; where they do not tell, the scores do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.policies import QueueOrder
from gridtune.batch.policies.expression import CHANGING_FIELDS, OPERATIONS, Expression, JobView
from gridtune.batch.simulator.scores import ScoreInputs
from gridtune.batch.simulator.tournament import (
    GROUPS,
    USERS,
    WAIT,
    Classes,
    Shapes,
    Tournament,
    new_classes,
    new_columns,
    number_rows,
)
from gridtune.types import FloatArray

#: Half the distance of the lines, as a share of the largest number that occurs in computing the score:
#: millions of times the rounding error of one operation.
_SLACK = 1e-9
#: Powers and numbers within which no score over- or underflows.
_LEAST_POWER, _GREATEST_POWER = 0.1, 8.0
_SMALL, _LARGE = 1e-15, 1e15

_ZERO = np.zeros(())
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt, "exp": np.exp, "abs": np.abs,
    "min": np.minimum, "max": np.maximum, "<": np.less, ">": np.greater,
}  # fmt: skip
#: What they give may differ in the last bit from what a kernel computes.
_INEXACT = {"log", "log2", "log10", "exp", "**"}


class _Bounds(NamedTuple):
    """Lines below and above the scores of all jobs, or the `root`-th power of them.

    `lines[job]` has the factors of wait and use and the constant of the lower line, then those of the upper
    one, shape (n, 6). The score of a job is sign(y) |y|^(1 / root) for a y between the lines.
    """

    lines: FloatArray
    root: float


class _NoLineError(Exception):
    """The score is no line and no power of one."""


class _Constant(NamedTuple):
    """A value of each job that never changes; `size` bounds all numbers that went into it."""

    value: FloatArray
    size: FloatArray
    exact: bool


class _Line(NamedTuple):
    """`sign * (a * wait + b * use + c) ** power`: `terms` are a, b, c; `sizes` bound what went into them."""

    terms: tuple[FloatArray, ...]
    sizes: tuple[FloatArray, ...]
    power: float = 1.0
    sign: float = 1.0

    def scale(self, factor: _Constant) -> _Line:
        scale, size, sign = factor.value, factor.size, self.sign
        if self.power != 1.0:
            if not ((scale > 0).all() or (scale < 0).all()) or not _moderate(scale):
                raise _NoLineError
            sign *= float(np.sign(scale.flat[0]))
            scale = np.abs(factor.value) ** (1.0 / self.power)
            size = scale * size / np.abs(factor.value) * max(1.0, 1.0 / self.power)
        terms, sizes = tuple(term * scale for term in self.terms), tuple(term * size for term in self.sizes)
        return _Line(terms, sizes, self.power, sign)

    def raised(self, exponent: _Constant) -> _Line:
        power = float(exponent.value.flat[0])
        if self.power != 1.0 or exponent.value.size != 1 or not _LEAST_POWER <= power <= _GREATEST_POWER:
            raise _NoLineError
        if power == 1.0:
            return self
        if not all((term >= 0).all() and _moderate(term) for term in self.terms):
            raise _NoLineError
        sizes = tuple(size * max(1.0, 1.0 / power) for size in self.sizes)
        return self._replace(sizes=sizes, power=power)


_Value = _Constant | _Line


def score_bounds(
    expression: Expression, columns: Mapping[str, npt.NDArray[Any]], jobs: int
) -> _Bounds | None:
    """Return bounds of an expression's value, or None if it is no line and no power of one.

    Parameters
    ----------
    expression
        The formula of the score.
    columns
        The fields that do not change, shape (n,) each.
    jobs
        Their number n.
    """
    names = list(OPERATIONS)
    stack: list[_Value] = []
    if {"user_usage", "group_usage"} <= expression.names:
        return None
    try:
        with np.errstate(all="ignore"):
            for code, operand in expression.instructions:
                name = names[code]
                if name == "constant":
                    stack.append(_constant(np.float64(operand)))
                elif name == "field":
                    stack.append(_field(JobView._fields[int(operand)], columns))
                else:
                    count = OPERATIONS[name][0]
                    operands = stack[-count:]
                    del stack[-count:]
                    stack.append(_apply(name, *operands))
            return _finish(stack[0], jobs)
    except _NoLineError:
        return None


def _constant(value: Any, size: Any = None, exact: bool = True) -> _Constant:
    value = np.asarray(value, np.float64)
    return _Constant(value, np.abs(value) if size is None else size, exact)


def _line(wait: float, use: float, constant: npt.NDArray[Any] | float = 0.0) -> _Line:
    terms = tuple(np.asarray(term, np.float64) for term in (wait, use, constant))
    return _Line(terms, terms)


def _field(name: str, columns: Mapping[str, npt.NDArray[Any]]) -> _Value:
    if name == "wait":
        return _line(1.0, 0.0)
    if name == "now":
        return _line(1.0, 0.0, columns["submit_time"])
    if name in ("user_usage", "group_usage"):
        return _line(0.0, 1.0)
    if name not in columns:
        raise _NoLineError
    return _constant(columns[name])


def _apply(name: str, one: _Value, other: _Value | None = None) -> _Value:
    if name == "negative":
        return _negative(one)
    if name in ("+", "-") and other is not None:
        return _add(one, _negative(other) if name == "-" else other)
    if name == "*" and isinstance(other, _Line):
        one, other = other, one
    if isinstance(one, _Constant) and not isinstance(other, _Line):
        return _of_constants(name, one, other)
    if isinstance(one, _Line) and not isinstance(other, _Line):
        if name == "sqrt":
            return one.raised(_constant(0.5))
        if name in ("*", "/") and other is not None:
            return one.scale(other if name == "*" else _of_constants("/", _constant(1.0), other))
        if name == "**" and other is not None:
            return one.raised(other)
    raise _NoLineError


def _negative(one: _Value) -> _Value:
    if isinstance(one, _Constant):
        return one._replace(value=-one.value)
    if one.power != 1.0:
        return one._replace(sign=-one.sign)
    return one._replace(terms=tuple(-term for term in one.terms))


def _of_constants(name: str, one: _Constant, other: _Constant | None) -> _Constant:
    exact = one.exact and (other is None or other.exact) and name not in _INEXACT
    if other is None:
        value = _FUNCTIONS[name](one.value)
        share = one.size / np.maximum(np.abs(one.value), np.finfo(np.float64).tiny)
        return _constant(value, np.abs(value) * np.maximum(share, one.size) + share, exact)
    if name in "<>":
        if not (one.exact and other.exact):
            raise _NoLineError  # a last bit would decide between 0 and 1
        return _constant(_FUNCTIONS[name](one.value, other.value))
    if name == "*":
        return _constant(one.value * other.value, one.size * other.size, exact)
    if name == "/":
        share = other.size / np.abs(other.value)
        return _constant(one.value / other.value, one.size / np.abs(other.value) * share, exact)
    if name == "**":
        value = np.power(one.value, other.value)
        share = one.size / np.abs(one.value)
        grown = np.abs(np.log(np.abs(one.value))) * other.size
        return _constant(value, np.abs(value) * (1.0 + share * other.size + grown), exact)
    return _constant(_FUNCTIONS[name](one.value, other.value), np.maximum(one.size, other.size), exact)


def _add(one: _Value, other: _Value) -> _Value:
    if isinstance(one, _Constant) and isinstance(other, _Constant):
        exact = one.exact and other.exact
        return _constant(one.value + other.value, one.size + other.size, exact)
    if isinstance(one, _Constant):
        one, other = other, one
    if not isinstance(one, _Line) or one.power != 1.0:
        raise _NoLineError
    if isinstance(other, _Constant):
        other = _Line((_ZERO, _ZERO, other.value), (_ZERO, _ZERO, other.size))
    # Where one rises while the other falls, rounding errors could let the sum go up and down.
    if other.power != 1.0 or any((one.terms[term] * other.terms[term] < 0).any() for term in (0, 1)):
        raise _NoLineError
    terms = tuple(mine + its for mine, its in zip(one.terms, other.terms, strict=True))
    return _Line(terms, tuple(mine + its for mine, its in zip(one.sizes, other.sizes, strict=True)))


def _moderate(values: FloatArray) -> bool:
    sizes = np.abs(values)
    return bool(((sizes == 0) | ((sizes > _SMALL) & (sizes < _LARGE))).all())


def _finish(value: _Value, jobs: int) -> _Bounds:
    if isinstance(value, _Constant):
        value = _Line((_ZERO, _ZERO, value.value), (_ZERO, _ZERO, value.size))
    lines = np.empty((jobs, 6))
    for column, (term, size) in enumerate(zip(value.terms, value.sizes, strict=True)):
        lines[:, column] = value.sign * term - _SLACK * size
        lines[:, column + 3] = value.sign * term + _SLACK * size
    # A tournament expects the same factor of the use for all jobs.
    if not np.isfinite(lines).all() or (lines[:, [1, 4]] != lines[0, [1, 4]]).any():
        raise _NoLineError
    return _Bounds(lines, 1.0 / value.power)


#: The accounts whose use a score may read, and the basis of its bounds then.
_USAGES = {"user_usage": ("user", USERS), "group_usage": ("group", GROUPS)}


class _Entrants(NamedTuple):
    """The jobs in their classes, with tournaments under the queue's order and that of backfilling."""

    classes: Classes
    shapes: Shapes
    first: Tournament
    fill: Tournament


class _Order(NamedTuple):
    """Two jobs that are equal in `fields` are alike to an order; `account` is the owner of the use."""

    fields: frozenset[str]
    basis: int
    bounds: _Bounds
    account: str | None = None


@cache
def _no_classes() -> tuple[Classes, Any, Shapes]:
    none = np.empty(0, np.int64)
    return new_classes([], none.astype(np.int32), none, none)


def nobody(scores: Sequence[Any], inputs: ScoreInputs, machine: int) -> _Entrants:
    """Return tournaments in which no job will ever be; the arguments are as of `group_jobs`."""
    classes, places, shapes = _no_classes()
    columns = new_columns(np.zeros(places.leaves, np.int32), np.zeros((places.leaves, 6)), places.top, 0)
    first, fill = (
        Tournament(places.leaves, machine, WAIT, 1.0, score, inputs, classes, columns)
        for score in (scores[0], scores[-1])
    )
    return _Entrants(classes, shapes, first, fill)


def group_jobs(
    orders: Sequence[QueueOrder], scores: Sequence[Any], inputs: ScoreInputs, machine: int
) -> _Entrants | None:
    """Group the jobs of a log for tournaments under some orders; None if nothing bounds the scores of one.

    Parameters
    ----------
    orders, scores
        One, or the queue's and the backfilling's; and their compiled scores.
    inputs
        What the scores depend on.
    machine
        The number of processors.
    """
    facts, jobs = inputs.facts, len(inputs.submit)
    columns = {
        "submit_time": inputs.submit, "walltime": inputs.walltime, "processors": inputs.processors,
        "user": facts.user, "group": facts.group, "queue": facts.queue, "partition": facts.partition,
    }  # fmt: skip
    read = [bounded for order in orders if (bounded := _read_order(order, columns, jobs))]
    owners = {order.account for order in read if order.account}
    if len(read) < len(orders) or len(owners) > 1:
        return None
    account = np.zeros(jobs, np.int32)
    for owner in owners:
        account = (inputs.users if owner == "user" else inputs.groups).account
    fields = sorted(frozenset().union(*(order.fields for order in read)))
    classes, places, shapes = new_classes(
        [columns[field] for field in fields], account, inputs.processors, inputs.walltime
    )
    made = []
    for order, score in zip(read, scores, strict=True):
        kind = np.zeros(places.leaves, np.int32)
        if order.fields:
            kind[places.number] = number_rows([columns[field][places.first] for field in order.fields])[0]
        lines = np.zeros((places.leaves, 6))
        lines[places.number] = order.bounds.lines[places.first]
        arrays, root = new_columns(kind, lines, places.top, jobs), order.bounds.root
        made.append(Tournament(places.leaves, machine, order.basis, root, score, inputs, classes, arrays))
    return _Entrants(classes, shapes, made[0], made[-1])


def _read_order(order: QueueOrder, columns: Mapping[str, npt.NDArray[Any]], jobs: int) -> _Order | None:
    formula = order.formula()
    bounds = None if formula is None else score_bounds(formula, columns, jobs)
    if formula is None or bounds is None:
        return None
    names, owner, basis = formula.names, None, WAIT
    fields = names - CHANGING_FIELDS
    for usage, (account, its_basis) in _USAGES.items():
        if usage in names:
            fields, owner, basis = fields | {account}, account, its_basis
    # Of jobs that differ in the submission only, the earliest stays first if a job gains by waiting.
    gains = bool((bounds.lines[:, 3] <= 0).all())
    if names & {"now", "submit_time"} or ("wait" in names and not gains):
        fields |= {"submit_time"}
    return _Order(fields, basis, bounds, owner)
