"""The results of simulated days."""

from __future__ import annotations

from typing import NamedTuple

from gridtune.types import FloatArray, Int8Array, Int32Array, IntArray

__all__ = ["DayRecord", "Outcome"]


class Outcome(NamedTuple):
    """The result of `n` replayed days.

    Attributes
    ----------
    totals
        Shape (n, 9): node-minutes idle, switching on, sleeping, switching off, computing; idle ones as the
        authors' monitor counts them; core-minutes of computing; nodes switched on; nodes switched off.
    score
        Shape (n,): sum of rewards.
    minutes
        Shape (n,): length of the day.
    switched_on, switched_off
        Shape (n, nodes): how often each node was switched.
    start
        Shape (jobs of all days,): minute of each job's start, -1 where it did not start or was not replayed.
    """

    totals: IntArray
    score: FloatArray
    minutes: IntArray
    switched_on: IntArray
    switched_off: IntArray
    start: IntArray


class DayRecord(NamedTuple):
    """Days minute by minute.

    Attributes
    ----------
    minutes
        Shape (n, minutes, 9): action, nodes reserved; then, at the minute's end, nodes idle, switching on,
        sleeping, switching off and computing, jobs waiting, and the oldest one's promise (-1: none).
    rewards
        Shape (n, minutes).
    states
        Shape (n, minutes, nodes): each node's state during the minute: 0 idle, 1 switching on,
        2 sleeping, 3 switching off, 4 computing.
    """

    minutes: Int32Array
    rewards: FloatArray
    states: Int8Array
