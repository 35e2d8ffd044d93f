"""Queue orders: `queue_order` registers one, `get_queue_order` finds it, `formula` is its expression."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from gridtune.arguments import require
from gridtune.batch.policies.expression import (
    CHANGING_FIELDS,
    PREDICTED_FIELDS,
    Expression,
    JobView,
    instead_of,
    looks_like_expression,
    read_expression,
)
from gridtune.batch.policies.policy import Policy
from gridtune.core.user_code.plugins import declare_files
from gridtune.errors import PolicyError
from gridtune.registry import Registry

_Scores = TypeVar("_Scores", bound=Callable[..., Any])


@dataclass(frozen=True)
class QueueOrder:
    """A named order of the waiting jobs: the smallest score goes first, ties by submission.

    Attributes
    ----------
    name
        Its name on command lines and in search spaces.
    score
        `score(job: JobView, **parameters) -> float`: plain Python that numba can compile. A larger score
        means a later place; it is computed in float64. Of an order that decides, what makes the policy.
    description
        The first line of the function's docstring.
    parameters
        The values of the function's own parameters, by name.
    static
        True when the score cannot change while a job waits.
    decides
        True for a `Policy`, which has no scores.
    """

    name: str
    score: Callable[..., Any]
    description: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    static: bool = False
    decides: bool = False

    def __call__(self, job: JobView) -> float:
        """Return the score of one job, in plain Python."""
        return float(self.score(job, *self.parameters.values()))

    @property
    def fields(self) -> frozenset[str]:
        """The fields of a job that it names in its source; none for one without source."""
        if isinstance(self.score, Expression):
            return self.score.names & {*JobView._fields}
        return _fields_named(self.score)

    @property
    def predicts(self) -> bool:
        """True if its score may depend on a predictor: unless its source shows that it does not."""
        return not self.reads_only(frozenset(JobView._fields) - PREDICTED_FIELDS)

    def reads_only(self, fields: frozenset[str]) -> bool:
        """Tell whether its score provably depends on no other fields of a job; not without source."""
        if self.decides:
            return False
        if isinstance(self.score, Expression):
            return self.score.names.isdisjoint({*JobView._fields} - fields)
        return _reads_only(self.score, fields)

    def canonical(self, text: str) -> str:
        """Return the one form of a text that `get_queue_order` reads as this order; a name as it is."""
        return self.name if isinstance(self.score, Expression) else text.strip()

    @property
    def label(self) -> str:
        """The name with the parameters, as `get_queue_order` reads it."""
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(f'{key}={value:g}' for key, value in self.parameters.items())})"

    def parse_parameters(self, reference: str, rest: str) -> dict[str, float]:
        """Return the parameters in the rest of a reference such as `sjf(weight=2)`."""
        text = rest.strip()
        if not text.endswith(")"):
            raise PolicyError(f"{reference!r} has no closing parenthesis", hint="as in 'wfp3(exponent=2)'")
        values: dict[str, float] = {}
        for part in filter(None, (piece.strip() for piece in text[:-1].split(","))):
            key, sign, value = (piece.strip() for piece in part.partition("="))
            if key not in self.parameters:
                offered = ", ".join(self.parameters) or "none"
                raise PolicyError(
                    f"queue order {self.name!r} has no parameter {key!r}", hint=f"it has: {offered}"
                )
            try:
                values[key] = float(value)
            except ValueError:
                values[key] = math.nan
            if not math.isfinite(values[key]):
                shown = value if sign else "nothing"
                raise PolicyError(f"parameter {key!r} of {self.name!r} must be a number, got {shown}")
        return values

    def formula(self) -> Expression | None:
        """Return the expression that computes an order's score, or None for any other function.

        A function is a formula if its body is one `return` of arithmetic over fields of the job, its
        parameters and functions of `math`.
        """
        if isinstance(self.score, Expression):
            return self.score
        function = self.score
        tree, _ = _source_tree(function)
        body = getattr(tree, "body", [])
        if len(body) != 1 or not isinstance(body[0], ast.FunctionDef) or hasattr(function, "__wrapped__"):
            return None
        statements = [
            line
            for line in body[0].body
            if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))  # the docstring
        ]
        if len(statements) != 1 or not isinstance(statements[0], ast.Return) or statements[0].value is None:
            return None
        job, *names = (argument.arg for argument in body[0].args.args)
        if len(names) != len(self.parameters):
            return None
        parameters = {
            f"{name}_": float(value) for name, value in zip(names, self.parameters.values(), strict=True)
        }
        try:
            value = _Formula(job, parameters, function).visit(statements[0].value)
            return read_expression(ast.unparse(value), tuple(parameters.items()))
        except PolicyError:
            return None


#: The name of the policy that looks ahead (`gridtune.batch.policies.rollout`), which no order can have.
ROLLOUT = "rollout"
#: Other names of orders.
_ALIASES = {"swf": "sjf", "lwf": "ljf"}
#: All queue orders by name, those that come with gridtune first.
ORDERS: Registry[QueueOrder] = Registry(
    "queue order", "gridtune.orders", PolicyError, code=lambda order: order.score
)


def queue_order(name: str, *, files: Iterable[str | Path] = ()) -> Callable[[_Scores], _Scores]:
    """Register a function, or a class that derives from `Policy`, as the queue order of that name.

    The function takes a `JobView` and, optionally, numeric parameters with defaults, which a sweep can
    vary: `order: "aged(weight=2.5)"`. The content of `files`, other files that its module reads, is part of
    the ids of its cells; relative paths are relative to the function's file.

    Raises
    ------
    PolicyError
        If the name is taken by another function, a parameter has no numeric default, the function reads a
        field that a job does not have, or a file is missing.

    Examples
    --------
    >>> import gridtune as gt
    >>> @gt.queue_order("doctest-small-and-old")
    ... def small_and_old(job, weight=1.0):
    ...     '''Narrow jobs first; an hour of waiting counts like `weight` processors less.'''
    ...     return job.processors - weight * job.wait / 3600
    """
    hint = "write the name: @queue_order('mine')"
    require(name, str, "the name of a queue order", error=PolicyError, hint=hint)

    def register(function: _Scores) -> _Scores:
        if not name or any(sign in name for sign in "(),= "):
            raise PolicyError(
                f"{name!r} is not a valid name of a queue order", hint="letters, digits, '-' and '_'"
            )
        if name == ROLLOUT:
            raise PolicyError(f"{name!r} is the name of the policy that looks ahead", hint="take another one")
        made: Any = function
        decides = isinstance(made, type)
        if decides and not issubclass(made, Policy):
            raise PolicyError(f"{name!r} must be a function or a class that derives from Policy")
        if not decides:
            _check_fields(made)
        text = (inspect.getdoc(made) or "").split("\n")[0]
        static = not decides and _reads_only(made, frozenset(JobView._fields) - CHANGING_FIELDS)
        order = QueueOrder(name, made, text, _defaults(name, made), static, decides)
        declare_files(made, files, f"@queue_order({name!r})", PolicyError)
        ORDERS.register(name, order)
        return function

    return register


def order_of_function(function: Callable[..., float]) -> QueueOrder:
    """Return the queue order that a function or class is; a new one is registered under its own name.

    Raises
    ------
    PolicyError
        As `queue_order`.
    """
    for order in ORDERS.imported.values():
        if order.score is function:
            return order
    queue_order(function.__name__)(function)
    return ORDERS.imported[function.__name__]


def get_queue_order(
    reference: str | QueueOrder | Policy | Callable[..., Any], coefficients: Mapping[str, float] | None = None
) -> QueueOrder:
    """Return the order of that name, as in `"fcfs"` or `"wfp3(exponent=2)"`, of an expression or a function.

    Parameters
    ----------
    reference
        A name, with parameters if the order has any; arithmetic over a job's fields, such as
        `"log(walltime) + 0.3 * processors"` (`gridtune.batch.policies.expression`); a function; or a
        `Policy`, of which each replay uses a copy.
    coefficients
        Other names that an expression may have, with the numbers that they stand for.

    Raises
    ------
    PolicyError
        If there is no such order or it has no such parameter, with the nearest name; or if the expression has
        a fault, with its column.
    """
    if isinstance(reference, QueueOrder):
        return reference
    if isinstance(reference, Policy):
        name, text = type(reference).__name__, inspect.getdoc(reference) or ""
        return QueueOrder(name, partial(deepcopy, reference), text.split("\n")[0], decides=True)
    if inspect.isfunction(reference) or isinstance(reference, type):
        return order_of_function(reference)
    hint = "the name it is registered by"
    text = require(reference, str, "a queue order", error=PolicyError, hint=hint)
    name, _, rest = text.strip().partition("(")
    name = _ALIASES.get(name.strip(), name.strip())
    if name not in ORDERS and looks_like_expression(text):
        expression = read_expression(text, tuple((coefficients or {}).items()))
        static = not expression.names & CHANGING_FIELDS
        described = f"The smallest {expression.text} first."
        return QueueOrder(expression.text, expression, described, static=static)
    if name in ("run_time", "runtime") and name not in ORDERS:
        message = f"no queue order is named {name!r}: a policy never sees run times"
        raise PolicyError(message, hint="sjf has the shortest walltime first")
    if name == ROLLOUT:
        raise PolicyError("'rollout' orders the queue as a whole", hint="it goes as order=, with EASY")
    order = ORDERS.find(name)
    if not rest:
        return order
    return replace(order, parameters={**order.parameters, **order.parse_parameters(text, rest)})


@lru_cache(maxsize=256)
def _fields_named(function: Callable[..., float]) -> frozenset[str]:
    tree, _ = _source_tree(function)
    named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} if tree else set()
    return frozenset(named & {*JobView._fields})


def queue_order_names() -> list[str]:
    """Return the names of all registered orders, built-in ones first."""
    return list(ORDERS)


def _defaults(name: str, function: Callable[..., float]) -> dict[str, float]:
    values = {}
    first = 0 if isinstance(function, type) else 1
    for parameter in list(inspect.signature(function).parameters.values())[first:]:
        if isinstance(parameter.default, bool) or not isinstance(parameter.default, int | float):
            raise PolicyError(
                f"parameter {parameter.name!r} of queue order {name!r} needs a number as its default"
            )
        values[parameter.name] = float(parameter.default)
    return values


def _check_fields(function: Callable[..., float]) -> None:
    """Refuse a function that takes no job, or reads a field which jobs do not have; the message has the line.

    Without the source, the compiler refuses it, with a message about types and its own files.
    """
    tree, first_line = _source_tree(function)
    job = next(iter(inspect.signature(function).parameters), None)
    if job is None:
        code = function.__code__
        reason = f"{function.__name__} takes no job"
        raise PolicyError(reason, path=code.co_filename, line=code.co_firstlineno, hint="def score(job): …")
    for node in () if tree is None else ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            continue
        if node.value.id != job or node.attr in JobView._fields:
            continue
        raise PolicyError(
            f"a job has no field {node.attr!r}{instead_of(node.attr)}",
            path=function.__code__.co_filename,
            line=first_line + node.lineno - 1,
            hint=f"the fields are {', '.join(JobView._fields)}",
        )


def _source_tree(function: Callable[..., Any]) -> tuple[ast.AST | None, int]:
    """Return a function's parsed source, or None without source, and the line of the file it begins on."""
    try:
        lines, first_line = inspect.getsourcelines(function)
        return ast.parse(textwrap.dedent("".join(lines))), first_line
    except (OSError, TypeError, SyntaxError):
        return None, 1


@lru_cache(maxsize=256)
def _reads_only(function: Callable[..., float], fields: frozenset[str]) -> bool:
    """Tell whether a function provably reads only these fields of the job.

    It does if every use of the job in its source is `job.FIELD` with such a field; not without source, or if
    the job is passed on.
    """
    tree, _ = _source_tree(function)
    if tree is None:
        return False
    job = next(iter(inspect.signature(function).parameters))
    nodes = list(ast.walk(tree))
    reads = {node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr in fields}
    return all(node in reads for node in nodes if isinstance(node, ast.Name) and node.id == job)


_BUILT_IN = ("abs", "max", "min")


class _Formula(ast.NodeTransformer):
    """Writes a function's value as an expression: `job.wait` as `wait`, `math.log` as `log`."""

    def __init__(self, job: str, parameters: Mapping[str, float], function: Callable[..., Any]) -> None:
        self._job, self._parameters = job, parameters
        self._globals = getattr(function, "__globals__", {})

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name):
            if node.value.id == self._job and node.attr in JobView._fields:
                return ast.Name(node.attr)
            if node.value.id != self._job and self._globals.get(node.value.id) is math:
                return ast.Name(node.attr)
        raise PolicyError(f"{ast.unparse(node)!r} is no part of a formula")

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if f"{node.id}_" in self._parameters:
            return ast.Name(f"{node.id}_")
        if node.id in _BUILT_IN and self._globals.get(node.id, getattr(builtins, node.id)) is getattr(
            builtins, node.id
        ):
            return node
        raise PolicyError(f"{node.id!r} is no part of a formula")

    def visit_Call(self, node: ast.Call) -> ast.AST:
        call = self.generic_visit(node)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pow" and len(call.args) == 2:
            return ast.BinOp(call.args[0], ast.Pow(), call.args[1])
        return call
