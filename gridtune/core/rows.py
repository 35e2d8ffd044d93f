"""Rows of lists and heaps, compiled: numpy's sorts and Python's heaps take seconds to compile.

`insert_row` and `remove_row` keep a list in three columns, sorted by the first: rows are shifted, which is
fast where few are. `sort_rows` sorts numbered rows by a key; `push_row` and `pop_row` keep a heap of them.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel


@kernel(forceinline=True)
def insert_row(keys, firsts, seconds, count, key, first, second):
    """Add a row to `count` rows that are sorted by key, behind those of the same key."""
    place = count
    while place > 0 and keys[place - 1] > key:
        keys[place] = keys[place - 1]
        firsts[place] = firsts[place - 1]
        seconds[place] = seconds[place - 1]
        place -= 1
    keys[place], firsts[place], seconds[place] = key, first, second


@kernel(forceinline=True)
def remove_row(keys, firsts, seconds, count, place):
    """Remove the row at a place from `count` rows."""
    for later in range(place, count - 1):
        keys[later] = keys[later + 1]
        firsts[later] = firsts[later + 1]
        seconds[later] = seconds[later + 1]


@kernel(forceinline=True)
def some_within(values, count, limit):
    """Tell whether one of the first `count` values is at most the limit."""
    within = False
    for place in range(count):  # to the end: a loop that may stop early is not made of vector instructions
        within |= values[place] <= limit
    return within


@kernel()
def sort_rows(keys, rows, count):
    """Sort `count` rows by key, equal ones by number: Shell's sort."""
    gap = count
    while gap > 1:
        gap = 1 if gap < 5 else gap * 5 // 11
        for moved in range(gap, count):
            key, row, place = keys[moved], rows[moved], moved
            while place >= gap:
                other = place - gap
                if keys[other] < key or (keys[other] == key and rows[other] < row):
                    break
                keys[place], rows[place] = keys[other], rows[other]
                place = other
            keys[place], rows[place] = key, row


@kernel()
def push_row(keys, rows, count, key, row):
    """Add a row to a heap of `count`, the least key first, equal ones by number."""
    hole = count
    while hole > 0:
        parent = (hole - 1) >> 1
        if keys[parent] < key or (keys[parent] == key and rows[parent] < row):
            break
        keys[hole], rows[hole] = keys[parent], rows[parent]
        hole = parent
    keys[hole], rows[hole] = key, row


@kernel()
def pop_row(keys, rows, count):
    """Remove the first row of a heap of `count`."""
    last = count - 1
    key, row, hole, child = keys[last], rows[last], 0, 1
    while child < last:
        other = child + 1
        if other < last and (
            keys[other] < keys[child] or (keys[other] == keys[child] and rows[other] < rows[child])
        ):
            child = other
        if key < keys[child] or (key == keys[child] and row < rows[child]):
            break
        keys[hole], rows[hole] = keys[child], rows[child]
        hole, child = child, 2 * child + 1
    keys[hole], rows[hole] = key, row
