"""Levels of a directed graph in compressed rows, and a cycle if it has one."""

from __future__ import annotations

import numpy as np

from gridtune.types import BoolArray, IntArray

__all__ = ["find_cycle", "levels_of"]


def levels_of(offsets: IntArray, children: IntArray, parents_left: IntArray) -> IntArray:
    """Return the level of each node: 0 without parents, else 1 + the greatest level of its parents.

    Parameters
    ----------
    offsets, children
        Shapes (n + 1,) and (m,), int64: the children of node i are `children[offsets[i] : offsets[i + 1]]`.
    parents_left
        Shape (n,), int64: the number of parents of each node.

    Returns
    -------
    ndarray
        Shape (n,), int64; -1 for nodes on a cycle or reachable from one.
    """
    left = parents_left.copy()
    level = np.full(len(left), -1, np.int64)
    ready, depth = np.flatnonzero(left == 0), 0
    while len(ready):
        level[ready] = depth
        # All edges out of this level at once: their positions, row after row.
        counts = offsets[ready + 1] - offsets[ready]
        first = np.repeat(offsets[ready] - np.cumsum(counts) + counts, counts)
        reached = children[first + np.arange(counts.sum())]
        np.subtract.at(left, reached, 1)
        reached = np.unique(reached)
        ready, depth = reached[left[reached] == 0], depth + 1
    return level


def find_cycle(offsets: IntArray, children: IntArray, among: BoolArray) -> list[int]:
    """Return the nodes of a cycle, from its first; `among` are the nodes on a cycle or reachable from one."""
    came_from: dict[int, int] = {}
    for node in np.flatnonzero(among).tolist():
        for child in children[offsets[node] : offsets[node + 1]].tolist():
            came_from.setdefault(child, node)
    # Every such node has a parent among them: going backwards must return to a visited node.
    node, visited = int(np.argmax(among)), dict[int, int]()
    while node not in visited:
        visited[node] = len(visited)
        node = came_from[node]
    cycle = [member for member, place in visited.items() if place >= visited[node]][::-1]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]
