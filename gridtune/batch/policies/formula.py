"""Reads a queue order's function as the formula that it is, where it is one.

A simulator that has the formula knows which fields a score depends on and how it grows while a job waits.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Mapping
from typing import Any

from gridtune.batch.policies.expression import Expression, read_expression
from gridtune.batch.policies.job_view import JobView
from gridtune.batch.policies.queue_order import QueueOrder, source_tree
from gridtune.errors import PolicyError

__all__ = ["formula_of"]

_BUILT_IN = ("abs", "max", "min")


def formula_of(order: QueueOrder) -> Expression | None:
    """Return the expression that computes an order's score, or None for any other function.

    A function is a formula if its body is one `return` of arithmetic over fields of the job, its parameters
    and functions of `math`.
    """
    if isinstance(order.score, Expression):
        return order.score
    function = order.score
    tree, _ = source_tree(function)
    body = getattr(tree, "body", [])
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef) or hasattr(function, "__wrapped__"):
        return None
    statements = [line for line in body[0].body if not _is_text(line)]
    if len(statements) != 1 or not isinstance(statements[0], ast.Return) or statements[0].value is None:
        return None
    job, *names = (argument.arg for argument in body[0].args.args)
    if len(names) != len(order.parameters):
        return None
    parameters = {
        f"{name}_": float(value) for name, value in zip(names, order.parameters.values(), strict=True)
    }
    try:
        value = _Formula(job, parameters, function).visit(statements[0].value)
        return read_expression(ast.unparse(value), tuple(parameters.items()))
    except PolicyError:
        return None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


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
