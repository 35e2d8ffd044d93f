"""A job's attributes on a machine, for learners: one row of numbers, taken when the job is placed."""

from __future__ import annotations

from typing import Literal

from gridtune.core.compiled import kernel
from gridtune.systems.dispatch.simulator.ordering import follower_of
from gridtune.systems.dispatch.simulator.predicting import predicted_finish
from gridtune.systems.dispatch.simulator.state import MACHINES, NOBODY, NOW

__all__ = [
    "ATTRIBUTES",
    "LEFT",
    "MACHINE",
    "PREDICTED",
    "AttributeSet",
    "attribute_count",
    "describe",
    "describe_waiting",
]

#: `paper`: what the paper's brokers know. `informed`: besides, what any broker can observe of its machines.
AttributeSet = Literal["paper", "informed"]

#: Every attribute in the order of a row's columns; the paper's set is the first four.
ATTRIBUTES = (
    "estimated run time",
    "seconds to the deadline",
    "jobs at the machine",
    "machine",
    "estimated seconds waiting before it",
    "estimated seconds left of running jobs",
    "learned speed factor",
    "predicted seconds to its end",
    "predicted slack over the estimate",
)
#: Columns: seconds that the deadline leaves; the machine, the only name; predicted seconds to the end.
LEFT, MACHINE, PREDICTED = 1, 3, 7
_OF_THE_PAPER = 4


def attribute_count(attributes: AttributeSet) -> int:
    """Return how many columns a set of attributes has."""
    return _OF_THE_PAPER if attributes == "paper" else len(ATTRIBUTES)


@kernel()
def describe(site, broker, job, order, columns, rows):
    """Write a row for each machine: the job's attributes if it went there now.

    Parameters
    ----------
    site, broker
        What can be observed, and what the broker has learned from it.
    job
        The job; it stands in no queue.
    order
        Of the queue into which the job would be put.
    columns
        How many attributes: 4 or all.
    rows
        Shape (m, ≥ columns), float64: filled in.
    """
    for machine in range(site.memory[MACHINES]):
        follower = follower_of(site, job, machine, order)
        _fill(site, broker, job, machine, follower, columns, rows, machine)


@kernel()
def describe_waiting(site, broker, job, columns, rows, row):
    """Write a row for a job that stands in a queue already, as if it had just been put there."""
    _fill(site, broker, job, site.machine[job], job, columns, rows, row)
    rows[row, 2] -= 1


@kernel()
def _fill(site, broker, job, machine, follower, columns, rows, row):
    now, estimate = site.memory[NOW], site.estimate[job]
    rows[row, 0] = estimate
    rows[row, 1] = site.deadline[job] - now
    rows[row, 2] = site.waiting[machine] + site.running[machine]
    rows[row, 3] = machine
    if columns <= _OF_THE_PAPER:
        return
    ending = predicted_finish(site, broker, machine, job, follower)
    rows[row, 4] = _estimates_before(site, machine, follower)
    rows[row, 5] = _left_running(site, broker, machine)
    rows[row, 6] = broker.factor[machine]
    rows[row, 7] = ending - now
    rows[row, 8] = (site.deadline[job] - ending) / estimate


@kernel()
def _estimates_before(site, machine, follower):
    if follower == NOBODY:
        return site.backlog[machine]
    total, waiting = 0, site.head[machine]
    while waiting != follower:
        total += site.estimate[waiting]
        waiting = site.after[waiting]
    return total


@kernel()
def _left_running(site, broker, machine):
    """Return the estimated seconds, at factor 1, that running jobs still have."""
    total = 0.0
    for slot in range(site.first_slot[machine], site.first_slot[machine + 1]):
        job = site.slot[slot]
        if job != NOBODY:
            elapsed = (site.memory[NOW] - site.start[job]) / broker.factor[machine]
            total += max(0.0, site.estimate[job] - elapsed)
    return total
