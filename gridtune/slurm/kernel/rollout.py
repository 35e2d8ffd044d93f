"""The order of the queue under a rollout, compiled: the cluster is played forward as one pool of processors.

The pool is made of the processors of all nodes in service. A job that runs frees what it has there at the
end of its limit. One that waits is played once, with the limit of the first of its partitions, and needs
the processors that it asks for; where it takes nodes whole, all of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gridtune.batch.policies import QueueOrder
from gridtune.batch.policies.rollout import Rollout
from gridtune.batch.simulator.portfolio import Waiting, choose_sequence, new_waiting
from gridtune.batch.simulator.running import sort_rows
from gridtune.batch.simulator.scores import ScoreInputs
from gridtune.core.compiled import kernel
from gridtune.slurm.kernel.arrays import World
from gridtune.slurm.kernel.placing import has
from gridtune.types import IntArray

__all__ = ["Lookahead", "new_lookahead", "rank_jobs"]


class Lookahead(NamedTuple):
    """The waiting jobs with the portfolio, the processors that each job needs, and the world played."""

    waiting: Waiting
    width: IntArray
    world: World


def new_lookahead(
    policy: Rollout, inputs: ScoreInputs, world: World
) -> tuple[Lookahead, Sequence[QueueOrder]]:
    """Return a rollout's view of a world, by the inputs of its jobs, and the orders to keep beside it."""
    records, jobs, first = world.records, world.jobs, world.jobs.records[:-1]
    whole = records.whole[first] * jobs.least * records.need[first]
    waiting, orders = new_waiting(policy, inputs, len(first), len(first))
    return Lookahead(waiting, np.maximum(inputs.processors, whole), world), orders


@kernel()
def _note_running(ahead, now):
    """Take over what is free and what running jobs free at their limits; return the size of the pool."""
    world, window = ahead.world, ahead.waiting.window
    running, pool, shared, free = world.running, world.pool, world.suspension, 0
    for node in range(world.rules.nodes):
        if has(pool, 0, node):
            free += world.free.cpus[node]
    total = free
    for place in range(world.state.running):
        job, width = running.by_limit[place], 0
        for part in range(running.begin[job], running.begin[job] + running.parts[job]):
            if has(pool, 0, running.node[part]):
                width += running.cpus[part]
        # What it shares with a job above it is freed by that one.
        for link in range(world.state.links):
            if shared.below[link] == job and has(pool, 0, shared.node[link]):
                width -= shared.cpus[link]
        window.end[place] = max(running.limit_end[job] - now, 1)
        window.released[place] = width
        total += width
    window.state.ends, window.state.free = world.state.running, free
    return total


@kernel()
def rank_jobs(ahead, ranks, count, now, origin):
    """Write, for each of the first `count` records of the queue, the place of its job in the best order."""
    world, waiting = ahead.world, ahead.waiting
    records, limit, total, length = world.jobs.records, world.records.limit, _note_running(ahead, now), 0
    for position in range(count):
        job = world.records.job[world.order[position]]
        if records[job] == world.order[position]:
            waiting.job[length] = job
            length += 1
    waiting.state.length = length
    sort_rows(waiting.job, waiting.row, length)
    for row in range(length):
        job = waiting.job[row]
        waiting.inputs.submit[job] = world.eligible[job] - origin
        waiting.processors[row] = min(ahead.width[job], total)  # nodes may be out of service
        waiting.walltime[row] = limit[records[job]]
    choose_sequence(waiting, now - origin)
    for rank in range(length):
        job = waiting.sequence[rank]
        for record in range(records[job], records[job + 1]):
            ranks[record] = rank
