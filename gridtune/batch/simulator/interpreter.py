"""The interpreter of expressions: one compiled function for all of them."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import cfunc, types

from gridtune.batch.policies.expression import BLOCK, OPERATIONS
from gridtune.batch.policies.job_view import JobView
from gridtune.batch.simulator.accounts import inputs_at, prediction, used
from gridtune.core.compiled import _pointer, kernel

__all__ = ["SCORE", "interpreter"]

#: The machine-level type of every score: it takes the handles of the inputs, the jobs and their number, the
#: time, where to write the scores, and the address of a program.
SCORE = types.void(
    types.CPointer(types.int64), types.CPointer(types.int32), types.int64, types.int64,
    types.CPointer(types.float64), types.int64,
)  # fmt: skip

(
    CONSTANT, FIELD, ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, NEGATIVE, LOG, LOG2, LOG10, SQRT, EXP, ABS,
    MIN, MAX, LESS, GREATER,
) = range(len(OPERATIONS))  # fmt: skip
(
    SUBMIT, WALLTIME, PROCESSORS, USER, GROUP, QUEUE, PARTITION, WAIT, NOW, USER_USAGE, GROUP_USAGE, LOT, _,
) = range(len(JobView._fields))  # fmt: skip


@kernel(forceinline=True)
def _field(inputs, field, job, now):  # noqa: PLR0911
    """Return the field at a place of a waiting job's `JobView`."""
    facts, users, groups, half_life = inputs.facts, inputs.users, inputs.groups, inputs.half_life[0]
    if field == SUBMIT:
        return float(inputs.submit[job])
    if field == WALLTIME:
        return float(inputs.walltime[job])
    if field == PROCESSORS:
        return float(inputs.processors[job])
    if field == USER:
        return float(facts.user[job])
    if field == GROUP:
        return float(facts.group[job])
    if field == QUEUE:
        return float(facts.queue[job])
    if field == PARTITION:
        return float(facts.partition[job])
    if field == WAIT:
        return float(now - inputs.submit[job])
    if field == NOW:
        return float(now)
    if field == USER_USAGE:
        return used(users, users.account[job], now, half_life)
    if field == GROUP_USAGE:
        return used(groups, groups.account[job], now, half_life)
    return facts.lot[job] if field == LOT else prediction(inputs, job)


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
def _of_two(code, x, y):
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
def _combine(program, code, top, count):
    """Apply an operation to a row of the stack and the one above it; the usual ones in loops of their own."""
    if code == ADD:
        for place in range(top, top + count):
            program[place] += program[place + BLOCK]
    elif code == SUBTRACT:
        for place in range(top, top + count):
            program[place] -= program[place + BLOCK]
    elif code == MULTIPLY:
        for place in range(top, top + count):
            program[place] *= program[place + BLOCK]
    elif code == DIVIDE:
        for place in range(top, top + count):
            program[place] /= program[place + BLOCK]
    else:
        for place in range(top, top + count):
            program[place] = _of_two(code, program[place], program[place + BLOCK])


@kernel(error_model="numpy", forceinline=True)
def _interpret(inputs, jobs, first, count, now, program):
    """Leave the values of a program for `count` jobs from the `first` on in its stack; return where."""
    length = int(program[0])
    top = 1 + 2 * length - BLOCK  # the stack begins above it
    for number in range(length):
        code, operand = int(program[1 + 2 * number]), program[2 + 2 * number]
        if code <= FIELD:
            top += BLOCK
            for place in range(top, top + count):
                program[place] = operand
            if code == FIELD:
                for place in range(count):
                    program[top + place] = _field(inputs, int(operand), jobs[first + place], now)
        elif NEGATIVE <= code <= ABS:
            for place in range(top, top + count):
                program[place] = _of_one(code, program[place])
        else:
            top -= BLOCK
            _combine(program, code, top, count)
    return top


@cache
def interpreter() -> Any:
    """Return the interpreter as a compiled function of type `SCORE`; an undefined score is infinite."""

    def score(handles, jobs, count, now, scores, address):
        inputs, program = inputs_at(handles), _pointer(address, np.float64)
        for first in range(0, count, BLOCK):
            many = min(count - first, BLOCK)
            top = _interpret(inputs, jobs, first, many, now, program)
            for place in range(many):
                value = program[top + place]
                scores[first + place] = math.inf if math.isnan(value) else value

    return cfunc(SCORE)(score)
