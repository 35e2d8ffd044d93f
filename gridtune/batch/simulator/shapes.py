"""The shapes of the waiting jobs, compiled: tells at once whether any of them may be backfilled.

A *shape* is a pair of processors and walltime. Shapes are numbered by processors, then walltime, and a bitmap
of three levels marks those that wait: the shortest walltime that waits at a size is found in a few steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.simulator.waiting import bit, lowest
from gridtune.core.compiled import bare, kernel

__all__ = ["Shapes", "add_shape", "bare_shapes", "can_start", "drop_shape", "new_shapes", "something_fits"]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]

_ALL = np.uint64(2**64 - 1)


class Shapes(NamedTuple):
    """How many jobs of each shape wait; `wider[s]` is the first shape of more processors than shape s has.

    `bits0` has a bit for each shape, `bits1` for each word of `bits0`, `bits2` for each of `bits1`, and
    `words2` words; all have a word to spare.
    """

    words2: int
    processors: Int64s
    walltime: Int64s
    wider: Int32s
    waiting: Int32s
    bits0: Words
    bits1: Words
    bits2: Words


def new_shapes(processors: Int64s, walltime: Int64s) -> Shapes:
    """Return the shapes, none of them waiting; both columns are sorted by processors, then walltime."""
    wider = np.searchsorted(processors, processors, side="right").astype(np.int32)
    words = []
    size = len(processors)
    for _ in range(3):
        size = size // 64 + 2
        words.append(np.zeros(size, np.uint64))
    return Shapes(size, processors, walltime, wider, np.zeros(len(wider), np.int32), *words)


@kernel()
def bare_shapes(shapes):
    """Return the same as bare columns."""
    return Shapes(
        shapes.words2, bare(shapes.processors), bare(shapes.walltime), bare(shapes.wider),
        bare(shapes.waiting), bare(shapes.bits0), bare(shapes.bits1), bare(shapes.bits2),
    )  # fmt: skip


@kernel()
def add_shape(shapes, shape):
    """Let one more job of a shape wait."""
    shapes.waiting[shape] += 1
    if shapes.waiting[shape] == 1:
        shapes.bits0[shape >> 6] |= bit(shape)
        shapes.bits1[shape >> 12] |= bit(shape >> 6)
        shapes.bits2[shape >> 18] |= bit(shape >> 12)


@kernel()
def drop_shape(shapes, shape):
    """Let one job less of a shape wait."""
    shapes.waiting[shape] -= 1
    if shapes.waiting[shape] == 0:
        shapes.bits0[shape >> 6] &= ~bit(shape)
        if shapes.bits0[shape >> 6] == 0:
            shapes.bits1[shape >> 12] &= ~bit(shape >> 6)
            if shapes.bits1[shape >> 12] == 0:
                shapes.bits2[shape >> 18] &= ~bit(shape >> 12)


@kernel()
def _next(shapes, start):
    """Return the first waiting shape from `start` on, or -1."""
    place = start >> 6
    word = shapes.bits0[place] & (_ALL << np.uint64(start & 63))
    if word == 0:
        start = place + 1
        place = start >> 6
        word = shapes.bits1[place] & (_ALL << np.uint64(start & 63))
        if word == 0:
            start = place + 1
            place = start >> 6
            word = shapes.bits2[place] & (_ALL << np.uint64(start & 63))
            while word == 0:
                place += 1
                if place >= shapes.words2:
                    return -1
                word = shapes.bits2[place]
            place = (place << 6) + lowest(word)
            word = shapes.bits1[place]
        place = (place << 6) + lowest(word)
        word = shapes.bits0[place]
    return (place << 6) + lowest(word)


@kernel()
def something_fits(shapes, free):
    """Tell whether a job of at most `free` processors waits."""
    shape = _next(shapes, 0)
    return shape >= 0 and shapes.processors[shape] <= free


@kernel()
def can_start(shapes, free, extra, window):
    """Tell whether a job waits that fits, and is no wider than `extra` or takes no longer than `window`."""
    shape = _next(shapes, 0)
    while shape >= 0 and shapes.processors[shape] <= free:
        if shapes.processors[shape] <= extra or shapes.walltime[shape] <= window:
            return True
        shape = _next(shapes, shapes.wider[shape])
    return False
