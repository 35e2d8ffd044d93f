"""Expressions as values of a dimension: complete binary trees that a search can cross and mutate.

Each inner node of a tree is an operator or passes its left branch on, each leaf is one of the terminals. So a
tree is a fixed number of choices, the same for all trees of a space. A sampler with a population exchanges
and changes single nodes: genetic programming with uniform crossover (Poli and Langdon, "On the search
properties of different crossover operators in genetic programming", Genetic Programming 1998).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import Field

from gridtune.sweep.strategies import SpacePart

__all__ = ["Choose", "ExpressionTree"]

#: Chooses one of a number of alternatives for the node of a number.
Choose = Callable[[int, int], int]
_SIMPLE = re.compile(r"[\w.]+(\([^()]*\))?")


class ExpressionTree(SpacePart):
    """Expressions that a search may build.

    Attributes
    ----------
    terminals
        What may stand at the leaves, such as `walltime`, `log(processors)` and 2.
    operators
        What may join two branches.
    depth
        Levels of operators: a tree has up to 2 to the power of it leaves.
    """

    terminals: Annotated[tuple[str | float, ...], Field(min_length=1)]
    operators: Annotated[tuple[Literal["+", "-", "*", "/", "min", "max"], ...], Field(min_length=1)] = (
        "+",
        "-",
        "*",
        "/",
    )
    depth: Annotated[int, Field(ge=1, le=5)] = 3

    @property
    def leaves(self) -> tuple[str, ...]:
        """The terminals as they stand in expressions."""
        texts = (f"{leaf:g}" if isinstance(leaf, float) else leaf for leaf in self.terminals)
        return tuple(text if _SIMPLE.fullmatch(text) else f"({text})" for text in texts)

    @property
    def extremes(self) -> tuple[str, ...]:
        """Expressions that are valid if all are: each terminal, and each operator once."""
        first = self.leaves[0]
        return (*self.leaves, *(_joined(operator, first, first) for operator in self.operators))

    def draw(self, choose: Choose) -> str:
        """Return the expression of these choices; every node is asked for, also one that another hides."""
        inner = 2**self.depth
        chosen = [0] + [
            choose(node, len(self.operators) + 1 if node < inner else len(self.leaves))
            for node in range(1, 2 * inner)
        ]

        def text(node: int) -> str:
            if node >= inner:
                return self.leaves[chosen[node]]
            if chosen[node] == len(self.operators):
                return text(2 * node)
            return _joined(self.operators[chosen[node]], text(2 * node), text(2 * node + 1))

        return text(1)

    def choices(self, expression: str) -> Mapping[int, int]:
        """Return choices that `draw` makes this expression of; hidden nodes have the first alternative.

        Raises
        ------
        ValueError
            If it is none of these expressions.
        """
        found = dict.fromkeys(range(1, 2 ** (self.depth + 1)), 0)

        def fill(node: int, text: str) -> None:
            if node >= 2**self.depth:
                found[node] = self.leaves.index(text)
                return
            parts = None if text in self.leaves else self._split(text)
            if parts is None:
                found[node] = len(self.operators)
                fill(2 * node, text)
                return
            found[node] = self.operators.index(parts[0])
            fill(2 * node, parts[1])
            fill(2 * node + 1, parts[2])

        fill(1, expression)
        return found

    def _split(self, text: str) -> tuple[Literal["+", "-", "*", "/", "min", "max"], str, str] | None:
        """Return the operator of an expression and its branches, or None."""
        body = text.partition("(")[2].removesuffix(")")
        for operator in self.operators:
            sign = ", " if operator in ("min", "max") else f" {operator} "
            depth = 0
            for place, character in enumerate(body):
                depth += (character == "(") - (character == ")")
                if depth == 0 and body.startswith(sign, place):
                    left, right = body[:place], body[place + len(sign) :]
                    if _joined(operator, left, right) == text:
                        return operator, left, right
        return None


def _joined(operator: str, left: str, right: str) -> str:
    return f"{operator}({left}, {right})" if operator in ("min", "max") else f"({left} {operator} {right})"
