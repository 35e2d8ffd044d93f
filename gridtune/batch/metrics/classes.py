"""Classes of jobs, such as the wide and the long ones: conditions on what the log says of a job.

A condition compares fields of a job with numbers: `processors >= 32`, `queue in (1, 2)`, `partition == gpu`,
`600 <= run_time < 14400 and user == 7`. Fields are numbers as in the log, times in seconds; a partition may
have its name. No policy decides who is in a class, so a class has the same jobs in all configurations.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from cachetools import LRUCache, cached

from gridtune.errors import MetricError
from gridtune.registry import name_hint
from gridtune.types import BoolArray
from gridtune.workload.workload import Workload

#: Metrics that results have for each class, unless a search space names others, too.
BY_CLASS = ("jobs", "wait_mean", "wait_max", "bounded_slowdown_mean")
#: The classes that every log has by default, see `default_classes`.
CLASS_NAMES = ("narrow", "wide", "short", "long")
#: Fields of a job that conditions may name, with the column of a workload that each is.
_FIELDS = {
    "processors": "processors",
    "run_time": "run_time",
    "walltime": "requested_time",
    "user": "user",
    "group": "group",
    "queue": "queue",
    "partition": "partition",
}
_SIGNS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: np.isin,
    ast.NotIn: lambda values, listed: np.isin(values, listed, invert=True),
}
#: A log to check conditions on.
_NO_JOBS = Workload(
    {
        name: np.empty(0, np.int64)
        for name in ("submit_time", "run_time", "requested_time", "requested_processors", "user", "group")
    }
)
_LONGEST = 500
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_OF_CLASS = re.compile(r"([a-z][a-z0-9_]*)\[([^\]]*)\]")
#: Bounds of run times that the default classes choose from, s.
_TIMES = (10, 60, 300, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800, 604_800)
#: Share of the jobs that are at most as wide or long as the narrow and short ones are, and as the others are.
_LOWER, _WIDER, _LONGER = 0.5, 0.95, 0.9


def split_name(name: str) -> tuple[str, str | None]:
    """Return the metric and the class in a name such as `wait_mean[wide]`; None without a class."""
    match = _OF_CLASS.fullmatch(name)
    return (name, None) if match is None else (match[1], match[2])


def check_class(name: str, condition: str) -> None:
    """Raise a `MetricError` if this is no name of a class or no condition."""
    if not _NAME.fullmatch(name):
        hint = "use small letters, digits, _ and -"
        raise MetricError(f"a class of jobs cannot be named {name!r}", hint=hint)
    class_members(condition, _NO_JOBS)


def class_members(condition: str, workload: Workload) -> BoolArray:
    """Return which jobs of a workload are in a class, shape (jobs,)."""
    members = np.asarray(_holds(_read(condition), condition, workload), dtype=np.bool_)
    return np.broadcast_to(members, len(workload))


@cached(LRUCache(16), key=lambda log: log.checksum)
def default_classes(log: Workload) -> Mapping[str, str]:
    """Return the classes of a log for which none are declared, name to condition.

    `wide` are the jobs of at least as many processors as 5 % of the jobs have, rounded down to a power of
    two; `long` those that run as long as 10 % of the jobs do, rounded down to a usual time. `narrow` and
    `short` are about the lower half. Where all jobs are alike there are no such classes.
    """
    classes: dict[str, str] = {}
    width, seconds = log.processors, log.run_time[log.run_time > 0]
    if len(width):
        low, high = (2 ** int(np.log2(np.quantile(width, share))) for share in (_LOWER, _WIDER))
        if low < high:
            classes |= {"narrow": f"processors <= {low}", "wide": f"processors >= {high}"}
    if len(seconds):
        quantiles = np.quantile(seconds, [_LOWER, _LONGER])
        below, above = (
            _TIMES[max(0, place - 1)] for place in np.searchsorted(_TIMES, quantiles, side="right")
        )
        if below < above:
            classes |= {"short": f"run_time <= {below}", "long": f"run_time >= {above}"}
    return classes


@lru_cache(maxsize=256)
def _read(condition: str) -> ast.expr:
    """Return the tree of a condition."""
    try:
        if len(condition) > _LONGEST:
            raise SyntaxError(f"it has more than {_LONGEST} characters")
        tree = ast.parse(condition.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as fault:
        reason = fault.msg if isinstance(fault, SyntaxError) else fault
        raise MetricError(f"the condition {condition!r} cannot be read: {reason}", hint=_HINT) from None
    return tree


_HINT = "such as processors >= 32, or 600 <= run_time < 14400 and user == 7"


def _holds(node: ast.expr, text: str, workload: Workload) -> Any:
    """Return where a condition holds, a value for each job; refuse what is no condition."""
    if isinstance(node, ast.BoolOp):
        combine = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        return combine.reduce([_holds(part, text, workload) for part in node.values])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return np.logical_not(_holds(node.operand, text, workload))
    if not isinstance(node, ast.Compare):
        raise MetricError(f"{ast.unparse(node)!r} compares nothing (in {text!r})", hint=_HINT)
    sides = [node.left, *node.comparators]
    named = [side.id for side in sides if isinstance(side, ast.Name)]
    fields, words = ([name for name in named if (name in _FIELDS) is known] for known in (True, False))
    if not fields or (words and fields != ["partition"]):
        unknown = words[0] if words else ast.unparse(node)
        hint = name_hint(unknown, _FIELDS) if words else f"the fields are {', '.join(_FIELDS)}"
        raise MetricError(f"a job has no field {unknown!r} (in {text!r})", hint=hint)
    for sign, side in zip(node.ops, node.comparators, strict=True):
        listed = isinstance(side, ast.Tuple | ast.List)
        if type(sign) not in _SIGNS or listed != isinstance(sign, ast.In | ast.NotIn):
            raise MetricError(f"{ast.unparse(node)!r} is no comparison (in {text!r})", hint=_HINT)
    values = [_values(side, text, workload) for side in sides]
    pairs = zip(node.ops, values, values[1:], strict=False)
    return np.logical_and.reduce([_SIGNS[type(sign)](left, right) for sign, left, right in pairs])


def _values(node: ast.expr, text: str, workload: Workload) -> Any:
    """Return a column, a number or a list of numbers; no job is in a partition that the log has not."""
    if isinstance(node, ast.Tuple | ast.List):
        return [_values(item, text, workload) for item in node.elts]
    if isinstance(node, ast.Name) and node.id in _FIELDS:
        return getattr(workload, _FIELDS[node.id])
    try:
        value = node.id if isinstance(node, ast.Name) else ast.literal_eval(node)
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise MetricError(f"{ast.unparse(node)!r} is no number (in {text!r})", hint=_HINT)
    if not isinstance(value, str):
        return value
    numbers = {name: number for number, name in workload.partition_names.items()}
    return numbers.get(value, np.nan)
