"""A list in three columns, sorted by the first, compiled: rows are shifted, which is fast where few are."""

from __future__ import annotations

from gridtune.core.compiled import kernel

__all__ = ["insert_row", "remove_row", "some_within"]


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
