"""The reservation of EASY backfilling, compiled: when the head of the queue can start, and who may go before.

The flags are the switches of a backfilling variant (`gridtune.batch.policies.backfilling`). Conservative
backfilling, where every job holds a reservation, has its own profile (`profile`).
"""

from __future__ import annotations

from gridtune.batch.simulator.nodes import start_of
from gridtune.batch.simulator.running import read_requests
from gridtune.core.compiled import kernel

__all__ = [
    "BACKFILL",
    "EXTRA",
    "FROZEN",
    "PASS_PER_EVENT",
    "STRICT",
    "in_time",
    "overstayed",
    "reserve_for_head",
    "window",
]

#: Flags of a run, or-ed together.
BACKFILL, EXTRA, STRICT, FROZEN, PASS_PER_EVENT = 1, 2, 4, 8, 16


@kernel()
def _reservation(running, now, free, needed):
    """Return (shadow, extra): when a job of `needed` processors can start, and what is free beside it.

    A running job past its requested end is expected to end now.
    """
    shadow, available, place = now, free, 0
    while available < needed or (place < running.state.listed and running.requested_end[place] <= shadow):
        shadow = max(shadow, running.requested_end[place])
        available += running.listed_width[place]
        place += 1
    return shadow, available - needed


@kernel(forceinline=True)
def overstayed(running, log, now):
    """Tell whether some job runs past its requested end; `log` as for `read_requests`."""
    read_requests(running, log)
    return running.state.listed > 0 and running.requested_end[0] < now


@kernel(inline="always")
def window(replay, now):
    """Return the longest walltime that does not reach beyond the head's reservation."""
    return replay.state.shadow - now - (1 if replay.flags & STRICT else 0)


@kernel(inline="always")
def in_time(replay, job, now):
    """Tell whether a job that fits would end by the head's reservation, were it started now."""
    start = start_of(replay.nodes, replay.log.processors[job], now)
    return replay.log.walltime[job] <= window(replay, start)


@kernel(forceinline=True)
def reserve_for_head(replay, head, job, now):
    """Reserve for the job at the queue's head, unless its reservation still holds; return whether it does."""
    log, state = replay.log, replay.state
    frozen = replay.flags & FROZEN != 0
    if head == state.head and (frozen or not overstayed(replay.running, log, now)):
        return True
    read_requests(replay.running, log)
    shadow, spare = _reservation(replay.running, now, state.free, log.processors[job])
    state.head, state.shadow = head, shadow
    state.spare = spare if replay.flags & EXTRA else 0
    return False
