"""The shapes of the waiting jobs, compiled: tells at once whether any of them may be backfilled.

A *shape* is a pair of processors and walltime. Shapes are numbered by processors, then walltime, and those
that wait are marked: the shortest walltime that waits at a size is a few steps away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gridtune.batch.simulator.marks import Marks, bare_marks, mark, new_marks, next_marked, unmark
from gridtune.core.compiled import bare, kernel
from gridtune.types import Int32Array, IntArray

__all__ = ["Shapes", "add_shape", "bare_shapes", "can_start", "drop_shape", "new_shapes", "something_fits"]


class Shapes(NamedTuple):
    """How many jobs of each shape wait; `wider[s]` is the first shape of more processors than shape s has."""

    processors: IntArray
    walltime: IntArray
    wider: Int32Array
    waiting: Int32Array
    marked: Marks


def new_shapes(processors: IntArray, walltime: IntArray) -> Shapes:
    """Return the shapes, none of them waiting; both columns are sorted by processors, then walltime."""
    wider = np.searchsorted(processors, processors, side="right").astype(np.int32)
    shapes = len(wider)
    return Shapes(processors, walltime, wider, np.zeros(shapes, np.int32), new_marks(shapes))


@kernel()
def bare_shapes(shapes):
    """Return the same as bare columns."""
    return Shapes(
        bare(shapes.processors), bare(shapes.walltime), bare(shapes.wider), bare(shapes.waiting),
        bare_marks(shapes.marked),
    )  # fmt: skip


@kernel()
def add_shape(shapes, shape):
    """Let one more job of a shape wait."""
    shapes.waiting[shape] += 1
    if shapes.waiting[shape] == 1:
        mark(shapes.marked, shape)


@kernel()
def drop_shape(shapes, shape):
    """Let one job less of a shape wait."""
    shapes.waiting[shape] -= 1
    if shapes.waiting[shape] == 0:
        unmark(shapes.marked, shape)


@kernel()
def something_fits(shapes, free):
    """Tell whether a job of at most `free` processors waits."""
    shape = next_marked(shapes.marked, 0)
    return shape >= 0 and shapes.processors[shape] <= free


@kernel()
def can_start(shapes, free, extra, window):
    """Tell whether a job waits that fits, and is no wider than `extra` or takes no longer than `window`."""
    shape = next_marked(shapes.marked, 0)
    while shape >= 0 and shapes.processors[shape] <= free:
        if shapes.processors[shape] <= extra or shapes.walltime[shape] <= window:
            return True
        shape = next_marked(shapes.marked, shapes.wider[shape])
    return False
