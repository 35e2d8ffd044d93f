"""The interpreter of expressions: one compiled function for all of them."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import cfunc, types

from gridtune.batch.policies.expression import OPERATIONS
from gridtune.batch.policies.job_view import JobView
from gridtune.core.compiled import _pointer, kernel

__all__ = ["SCORE", "interpreter"]

#: The machine-level type of every score: the fields of `JobView`, flat, and the address of a program.
SCORE = types.float64(*[types.int64] * 9, *[types.float64] * 4, types.int64)

(
    CONSTANT, FIELD, ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, NEGATIVE, LOG, LOG2, LOG10, SQRT, EXP, ABS,
    MIN, MAX, LESS, GREATER,
) = range(len(OPERATIONS))  # fmt: skip
#: How many fields the interpreter writes to the front of a program, and where this has its length.
FIELDS = LENGTH = len(JobView._fields)


@kernel(inline="always")
def _of_one(code, x):  # noqa: PLR0911
    if code == NEGATIVE:
        return -x
    if code == LOG:
        return math.log(x)
    if code == LOG2:
        return math.log2(x)
    if code == LOG10:
        return math.log10(x)
    if code == SQRT:
        return math.sqrt(x)
    if code == EXP:
        return math.exp(x)
    return abs(x)


@kernel(inline="always", error_model="numpy")
def _of_two(code, x, y):  # noqa: PLR0911
    if code == ADD:
        return x + y
    if code == SUBTRACT:
        return x - y
    if code == MULTIPLY:
        return x * y
    if code == DIVIDE:
        return x / y
    if code == POWER:
        return math.pow(x, y)
    if code == MIN:
        return y if y < x else x
    if code == MAX:
        return y if y > x else x
    if code == LESS:
        return 1.0 if x < y else 0.0
    return 1.0 if x > y else 0.0


@kernel(error_model="numpy")
def _interpret(program):
    """Return the value of a program whose fields have been written; infinity where it is not defined."""
    length = int(program[LENGTH])
    top = LENGTH + 2 * length  # the stack begins above it
    for number in range(length):
        code, operand = int(program[LENGTH + 1 + 2 * number]), program[LENGTH + 2 + 2 * number]
        if code == CONSTANT:
            top += 1
            program[top] = operand
        elif code == FIELD:
            top += 1
            program[top] = program[int(operand)]
        elif NEGATIVE <= code <= ABS:
            program[top] = _of_one(code, program[top])
        else:
            top -= 1
            program[top] = _of_two(code, program[top], program[top + 1])
    value = program[top]
    return math.inf if math.isnan(value) else value


@cache
def interpreter() -> Any:
    """Return the interpreter as a compiled function of type `SCORE`."""

    def score(
        submit, walltime, width, user, group, queue, part, wait, now, by_user, by_group, lot, run, address
    ):
        fields = (
            float(submit), float(walltime), float(width), float(user), float(group), float(queue),
            float(part), float(wait), float(now), by_user, by_group, lot, run,
        )  # fmt: skip
        program = _pointer(address, np.float64)
        for place in range(FIELDS):
            program[place] = fields[place]
        return _interpret(program)

    return cfunc(SCORE)(score)
