"""Classes of jobs in each of which the job submitted first is the first to start.

The jobs of a class are alike in processors, walltime and all else that the orders read, but for the
submission; and the orders put the one submitted earlier first, for ever. So only the fronts are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.simulator.shapes import Shapes, new_shapes
from gridtune.core.compiled import bare, kernel
from gridtune.types import Int32Array, IntArray

__all__ = ["Classes", "Places", "bare_classes", "new_classes", "number_rows"]


class Classes(NamedTuple):
    """The classes, numbered by account, processors and walltime, and who of them waits.

    `of[job]` is a job's class, `behind[job]` the job that waits behind it there. `front[c]` and `last[c]` are
    the ends of a class's queue; `front[c]` is -1 if it is empty. `shape[c]` is its shape (see `Shapes`).
    """

    of: Int32Array
    behind: Int32Array
    front: Int32Array
    last: Int32Array
    processors: IntArray
    walltime: IntArray
    shape: Int32Array


@kernel()
def bare_classes(classes):
    """Return the same as bare columns."""
    return Classes(
        bare(classes.of), bare(classes.behind), bare(classes.front), bare(classes.last),
        bare(classes.processors), bare(classes.walltime), bare(classes.shape),
    )  # fmt: skip


@kernel()
def _number(table, numbers, firsts, slots):
    """Give equal rows of a table the same number, by hashing; return how many numbers there are."""
    count, mask = 0, slots.size - 1
    for row in range(table.shape[0]):
        mixed = np.uint64(0)
        for value in table[row]:
            mixed = (mixed ^ np.uint64(value)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        slot = np.int64(mixed) & mask
        while slots[slot] >= 0:
            first, same = firsts[slots[slot]], True
            for column in range(table.shape[1]):
                same &= table[first, column] == table[row, column]
            if same:
                break
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            slots[slot] = count
            firsts[count] = row
            count += 1
        numbers[row] = slots[slot]
    return count


def number_rows(columns: Sequence[npt.NDArray[np.integer]]) -> tuple[Int32Array, Int32Array]:
    """Return a number for each row, equal for equal rows, and the first row of each number."""
    table = np.stack(columns, axis=1).astype(np.int64)
    rows = len(table)
    numbers, firsts = np.empty(rows, np.int32), np.empty(rows, np.int32)
    slots = np.full(1 << (2 * rows).bit_length(), -1, np.int32)
    count = _number(table, numbers, firsts, slots)
    return numbers, firsts[:count].copy()


class Places(NamedTuple):
    """Where the classes are in the tree: the first job and the number of each.

    The classes of an account are leaves of a subtree of their own, so that some leaves are not in use;
    `top[account]` is that subtree's root. `leaves` is the number of leaves, a power of two.
    """

    first: Int32Array
    number: IntArray
    top: IntArray
    leaves: int


def new_classes(
    columns: Sequence[IntArray], account: Int32Array, processors: IntArray, walltime: IntArray
) -> tuple[Classes, Places, Shapes]:
    """Group jobs that are equal in some columns, the account, the processors and the walltime; none waits."""
    numbers, firsts = number_rows([*columns, account, processors, walltime])
    order = np.lexsort((walltime[firsts], processors[firsts], account[firsts]))
    sorted_firsts = firsts[order]
    places = _places(sorted_firsts, account[sorted_firsts])
    place = np.empty(len(firsts), np.int32)
    place[order] = places.number
    width, length = processors[sorted_firsts], walltime[sorted_firsts]
    by_shape = np.lexsort((length, width))
    opens = np.ones(len(firsts), np.bool_)
    opens[1:] = (np.diff(width[by_shape]) != 0) | (np.diff(length[by_shape]) != 0)
    shape = np.empty(len(firsts), np.int32)
    shape[by_shape] = np.cumsum(opens) - 1

    def spread(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        numbered = np.zeros(places.leaves, values.dtype)
        numbered[places.number] = values
        return numbered

    empty = np.full(places.leaves, -1, np.int32)
    behind = np.full(len(numbers), -1, np.int32)
    ends = (empty, empty.copy())
    classes = Classes(place[numbers], behind, *ends, spread(width), spread(length), spread(shape))
    return classes, places, new_shapes(width[by_shape][opens], length[by_shape][opens])


def _places(first: Int32Array, account: Int32Array) -> Places:
    """Give each account a subtree that is large enough, the largest first; classes are sorted by account."""
    counts = np.bincount(account)
    blocks = np.array([1 << max(0, int(count) - 1).bit_length() for count in counts], np.int64)
    order = np.argsort(-blocks, kind="stable")
    starts = np.empty(len(blocks), np.int64)
    starts[order] = np.cumsum(blocks[order]) - blocks[order]
    leaves = 1 << max(1, (int(blocks.sum()) - 1).bit_length())
    within = np.arange(len(first)) - (np.cumsum(counts) - counts)[account]
    return Places(first, starts[account] + within, (leaves + starts) // blocks, leaves)
