"""Sets of small numbers, compiled: a bitmap of three levels, in which the next member is a few steps away."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gridtune.core.compiled import kernel
from gridtune.types import UInt64Array


@intrinsic
def lowest(typing_context: Any, word: Any) -> Any:
    """Return the position of the lowest set bit of a non-zero word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@kernel(inline="always")
def bit(position):
    """Return the word in which only the bit of a position is set."""
    return np.uint64(1) << np.uint64(position & 63)


_ALL = np.uint64(2**64 - 1)


class Marks(NamedTuple):
    """The marked numbers.

    `bits0` has a bit for each number, `bits1` for each word of `bits0`, `bits2` for each of `bits1`, and
    `words2` words; all have a word to spare.
    """

    words2: int
    bits0: UInt64Array
    bits1: UInt64Array
    bits2: UInt64Array


def new_marks(numbers: int) -> Marks:
    """Return marks for the numbers below `numbers`, none of them marked."""
    words = []
    size = numbers
    for _ in range(3):
        size = size // 64 + 2
        words.append(np.zeros(size, np.uint64))
    return Marks(size, *words)


@kernel()
def mark(marks, number):
    """Mark a number, which may be marked already."""
    marks.bits0[number >> 6] |= bit(number)
    marks.bits1[number >> 12] |= bit(number >> 6)
    marks.bits2[number >> 18] |= bit(number >> 12)


@kernel()
def unmark(marks, number):
    """Remove the mark of a number, if it has one."""
    marks.bits0[number >> 6] &= ~bit(number)
    if marks.bits0[number >> 6] == 0:
        marks.bits1[number >> 12] &= ~bit(number >> 6)
        if marks.bits1[number >> 12] == 0:
            marks.bits2[number >> 18] &= ~bit(number >> 12)


@kernel()
def is_marked(marks, number):
    """Tell whether a number is marked."""
    return marks.bits0[number >> 6] & bit(number) != 0


@kernel()
def next_marked(marks, start):
    """Return the first marked number from `start` on, or -1."""
    place = start >> 6
    word = marks.bits0[place] & (_ALL << np.uint64(start & 63))
    if word == 0:
        start = place + 1
        place = start >> 6
        word = marks.bits1[place] & (_ALL << np.uint64(start & 63))
        if word == 0:
            start = place + 1
            place = start >> 6
            word = marks.bits2[place] & (_ALL << np.uint64(start & 63))
            while word == 0:
                place += 1
                if place >= marks.words2:
                    return -1
                word = marks.bits2[place]
            place = (place << 6) + lowest(word)
            word = marks.bits1[place]
        place = (place << 6) + lowest(word)
        word = marks.bits0[place]
    return (place << 6) + lowest(word)
