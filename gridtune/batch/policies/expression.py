"""Jobs as policies see them, and expressions as queue orders: `"log(walltime) - 2 * wait / walltime"`.

An expression is arithmetic over the fields of a job. It is read into a small program for a stack machine,
never evaluated by Python, so it may come from anywhere. All expressions share one compiled interpreter
(`gridtune.batch.simulator.scores`): none of them is compiled.
"""

from __future__ import annotations

import ast
import difflib
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from gridtune.errors import PolicyError
from gridtune.types import FloatArray


class JobView(NamedTuple):
    """A waiting job as a queue order sees it. It does not have the run time, which no scheduler knows.

    Numbers are in floating point, so that products cannot overflow. A function that does not compile so,
    because of an index or a bit, gets whole ones.
    """

    #: Seconds from the workload's first submission to this one.
    submit_time: float
    #: The run-time estimate that the scheduler got, seconds.
    walltime: float
    processors: float
    #: Numbers of the user, group, queue and partition, as in the log.
    user: float
    group: float
    queue: float
    partition: float
    #: Seconds waited so far.
    wait: float
    #: Seconds from the workload's first submission to this decision.
    now: float
    #: Processor-seconds the job's user and group have used so far, running jobs included.
    user_usage: float
    group_usage: float
    #: A number drawn for the job at submission, uniform in [0, 1), from the run's own stream.
    lot: float
    #: Seconds that the predictor expects it to run, at most its walltime (`gridtune.batch.predictors`).
    prediction: float = 0.0
    #: The probability, by the predictor, that it ends before a tenth of its walltime.
    early_end: float = 0.0


#: Fields that change while a job waits. An order that reads none of them is static: each job is scored once,
#: and the waiting jobs are kept in an index.
CHANGING_FIELDS = frozenset({"wait", "now", "user_usage", "group_usage", "prediction", "early_end"})
#: Fields that a predictor fills in.
PREDICTED_FIELDS = frozenset({"prediction", "early_end"})


#: Fields that expressions may name. A lot is left out: it is no property of the job.
FIELDS = tuple(name for name in JobView._fields if name != "lot")
#: Of so many jobs each instruction is computed at once.
BLOCK = 32
_LONGEST_TEXT, _MOST_NODES = 1000, 150


def _defined(function: Callable[[float], float], at_zero: float) -> Callable[[float], float]:
    """Return a function that is NaN for numbers below zero, instead of raising."""
    return lambda x: function(x) if x > 0 else (at_zero if x == 0 else math.nan)


def _power(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except (ValueError, OverflowError):
        with np.errstate(all="ignore"):
            return float(np.power(np.float64(x), np.float64(y)))


def _divide(x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(x) / np.float64(y))


#: Operations by name, with the number of their operands, as arithmetic with infinities and NaN has them.
#: Their places are the codes of the interpreter. `constant` and `field` push a number.
OPERATIONS: Mapping[str, tuple[int, Callable[..., float]]] = {
    "constant": (0, float),
    "field": (0, float),
    "+": (2, lambda x, y: x + y),
    "-": (2, lambda x, y: x - y),
    "*": (2, lambda x, y: x * y),
    "/": (2, _divide),
    "**": (2, _power),
    "negative": (1, lambda x: -x),
    "log": (1, _defined(math.log, -math.inf)),
    "log2": (1, _defined(math.log2, -math.inf)),
    "log10": (1, _defined(math.log10, -math.inf)),
    "sqrt": (1, _defined(math.sqrt, 0.0)),
    "exp": (1, lambda x: math.exp(x) if x < 700 else math.inf),
    "abs": (1, abs),
    "min": (2, lambda x, y: y if y < x else x),
    "max": (2, lambda x, y: y if y > x else x),
    "<": (2, lambda x, y: float(x < y)),
    ">": (2, lambda x, y: float(x > y)),
}
FUNCTIONS = ("log", "log2", "log10", "sqrt", "exp", "abs", "min", "max")
_CODES = {name: code for code, name in enumerate(OPERATIONS)}
_SIGNS: Mapping[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.Lt: "<", ast.Gt: ">",
}  # fmt: skip
_SYMMETRIC = (ast.Add, ast.Mult)
#: What an order's name with parameters looks like.
_REFERENCE = re.compile(r"[A-Za-z_][\w-]*\s*(\(\s*(\w+\s*=[^()]*)?\)?)?")


@dataclass(frozen=True)
class Expression:
    """An expression that has been read.

    Attributes
    ----------
    text
        In one form for all spellings: blanks, brackets, numbers, the order of what is added or multiplied.
    names
        The fields and coefficients in it.
    instructions
        Codes of operations (`OPERATIONS`) with their operand: a number, a field's place in `JobView`, or 0.
    """

    text: str
    names: frozenset[str]
    instructions: tuple[tuple[int, float], ...]

    def __call__(self, job: JobView) -> float:
        """Return the score of a job, in plain Python; one that is not defined is infinite."""
        functions = list(OPERATIONS.values())
        stack: list[float] = []
        for code, operand in self.instructions:
            count, function = functions[code]
            if code == _CODES["field"]:
                stack.append(float(job[int(operand)]))
            elif count == 0:
                stack.append(operand)
            else:
                operands = stack[-count:]
                del stack[-count:]
                stack.append(float(function(*operands)))
        return math.inf if math.isnan(stack[0]) else stack[0]

    @cached_property
    def program(self) -> FloatArray:
        """The same for the interpreter: the number of instructions, these, a stack of rows of `BLOCK`."""
        operands = [count for count, _ in OPERATIONS.values()]
        stack = int(np.cumsum([1 - operands[code] for code, _ in self.instructions]).max())
        return np.concatenate(
            [[len(self.instructions)], np.ravel(self.instructions), np.zeros(stack * BLOCK)]
        )


def looks_like_expression(text: str) -> bool:
    """Return whether a text that names no queue order is meant as an expression, and not as a name."""
    if not _REFERENCE.fullmatch(text.strip()):
        return bool(text.strip())
    return set(re.split(r"[\s-]+", text.strip())) <= set(FIELDS)


@lru_cache(maxsize=4096)
def read_expression(text: str, coefficients: tuple[tuple[str, float], ...] = ()) -> Expression:
    """Return the expression in a text.

    Parameters
    ----------
    text
        Numbers, the fields of a job, `+ - * / ** < >`, brackets and the functions `FUNCTIONS`. `<` and `>`
        are 1 where they hold, else 0.
    coefficients
        Other names that it may have, with the numbers that they stand for; NaN for one that stays a name.

    Raises
    ------
    PolicyError
        If it is anything else; the message names the column.
    """
    if len(text) > _LONGEST_TEXT:
        raise PolicyError(f"an expression has at most {_LONGEST_TEXT} characters, but got {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as fault:
        reason = f"{fault.msg} at column {fault.offset or 1}"
        raise PolicyError(f"the expression {text!r} cannot be read: {reason}") from None
    except (MemoryError, RecursionError, ValueError):
        raise PolicyError(f"the expression {text[:40]!r}… cannot be read") from None
    values = dict(coefficients)
    if sum(isinstance(node, ast.expr) for node in ast.walk(tree)) > _MOST_NODES:
        raise PolicyError(f"an expression has at most {_MOST_NODES} terms and operations")
    canonical = _Canonical(text.strip(), values).visit(tree)
    names = frozenset(node.id for node in ast.walk(canonical) if isinstance(node, ast.Name)) - {*FUNCTIONS}
    return Expression(ast.unparse(canonical), names, tuple(_instructions(canonical, values)))


class _Canonical(ast.NodeTransformer):
    """Refuses what is no arithmetic, and writes equal arithmetic in one way."""

    def __init__(self, text: str, coefficients: Mapping[str, float]) -> None:
        self._text, self._coefficients = text, coefficients

    def generic_visit(self, node: ast.AST) -> ast.AST:
        raise self._fault(node, f"{ast.unparse(node)!r} is no arithmetic")

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        value = node.value
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not abs(value) <= sys.float_info.max
        ):
            raise self._fault(node, f"{value!r} is no finite number")
        return _number(float(value))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._coefficients.get(node.id)
        if value is not None and math.isfinite(value):
            return _number(value)
        if node.id in FIELDS or value is not None:
            return node
        offered = f"the fields are {', '.join(FIELDS)}"
        raise self._fault(node, f"a job has no field {node.id!r}{instead_of(node.id)}", hint=offered)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.UAdd):
            return operand
        if not isinstance(node.op, ast.USub):
            raise self._fault(node, "only + and - stand before a term")
        value = _value(operand)
        if value is not None:
            return _number(-value)
        return ast.UnaryOp(ast.USub(), operand)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if type(node.op) not in _SIGNS:
            raise self._fault(node, f"{ast.unparse(node)!r} has an operator other than + - * / ** < >")
        left, right = self.visit(node.left), self.visit(node.right)
        one, other = _value(left), _value(right)
        if one is not None and other is not None and not isinstance(node.op, ast.Pow):
            folded = OPERATIONS[_SIGNS[type(node.op)]][1](one, other)
            if math.isfinite(folded):
                return _number(folded)
        if isinstance(node.op, _SYMMETRIC) and ast.unparse(right) < ast.unparse(left):
            left, right = right, left
        return ast.BinOp(left, node.op, right)

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        if len(node.ops) != 1 or type(node.ops[0]) not in _SIGNS:
            raise self._fault(node, f"{ast.unparse(node)!r} is no single < or >")
        return ast.Compare(self.visit(node.left), node.ops, [self.visit(node.comparators[0])])

    def visit_Call(self, node: ast.Call) -> ast.Call:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name not in FUNCTIONS:
            raise self._fault(
                node, f"there is no function {name!r}", hint=f"there are {', '.join(FUNCTIONS)}"
            )
        count = OPERATIONS[name][0]
        if node.keywords or len(node.args) != count:
            raise self._fault(node, f"{name} takes {count} operand{'s' if count > 1 else ''}")
        return ast.Call(node.func, [self.visit(operand) for operand in node.args], [])

    def _fault(self, node: ast.AST, message: str, hint: str | None = None) -> PolicyError:
        column = getattr(node, "col_offset", 0) + 1
        return PolicyError(f"{message} (column {column} of {self._text!r})", hint=hint)


def instead_of(name: str) -> str:
    """Return the end of the message about a field that jobs do not have."""
    if "run" in name:
        return ": a policy never sees run times"
    if name in JobView._fields:
        return " in an expression: only functions have it"
    alike = [field for field in JobView._fields if field.startswith(name) or name.startswith(field)]
    near = alike or difflib.get_close_matches(name, JobView._fields, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _number(value: float) -> ast.expr:
    """Return a number as Python reads it back: a negative one is a sign and a number."""
    if value < 0 or (value == 0 and math.copysign(1, value) < 0):
        return ast.UnaryOp(ast.USub(), _number(-value))
    return ast.Constant(int(value) if value.is_integer() and value < 2**53 else value)


def _value(node: ast.expr) -> float | None:
    """Return the number that a canonical node is, or None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.UnaryOp):
        value = _value(node.operand)
        return None if value is None else -value
    return None


def _instructions(node: Any, coefficients: Mapping[str, float]) -> Iterator[tuple[int, float]]:
    """Yield the instructions that leave a node's value on the stack: operands first."""
    if isinstance(node, ast.Constant):
        yield _CODES["constant"], float(_value(node) or 0.0)
    elif isinstance(node, ast.Name) and node.id in coefficients:
        yield _CODES["constant"], math.nan
    elif isinstance(node, ast.Name):
        yield _CODES["field"], float(JobView._fields.index(node.id))
    else:
        if isinstance(node, ast.UnaryOp):
            name, operands = "negative", [node.operand]
        elif isinstance(node, ast.BinOp):
            name, operands = _SIGNS[type(node.op)], [node.left, node.right]
        elif isinstance(node, ast.Compare):
            name, operands = _SIGNS[type(node.ops[0])], [node.left, node.comparators[0]]
        else:
            name, operands = node.func.id, node.args
        for operand in operands:
            yield from _instructions(operand, coefficients)
        yield _CODES[name], 0.0
