"""What an agent sees of a machine: numbers of its state, and a row of numbers for each candidate.

All of them lie between 0 and 1. No run time is among them: of a job, only its request is known. `docs/
batch_environment.md` has the formulas.
"""

from __future__ import annotations

import numpy as np

from gridtune.batch.simulator.decisions.state import (
    BACKFILL_MODE,
    FILLED,
    FIRST,
    FREE,
    HEAD,
    NOW,
    OPEN,
    QUEUED,
    SHADOW,
    SHOWN,
    SPARE,
    WAITING,
)
from gridtune.core.compiled import kernel
from gridtune.types import Float32Array, IntArray

__all__ = ["ROW", "STATE", "observe", "on_log_scale"]

#: Numbers of the state, and of a candidate's row. The first of a row is 1 where the slot is filled.
STATE, ROW = 11, 10
#: Seconds in an hour and a day.
HOUR, DAY = 3600.0, 86400.0
#: The walltime whose feature is 1: thirty days.
LONGEST = 30 * DAY


def on_log_scale(values: IntArray, largest: float) -> Float32Array:
    """Return ln(1 + value) / ln(1 + largest), at most 1."""
    return np.minimum(np.log1p(values) / np.log1p(largest), 1.0).astype(np.float32)


@kernel(inline="always", error_model="numpy")
def _bent(value, half):
    """Return value / (value + half): 0 for 0, a half for `half`, and near 1 for much more."""
    return value / (value + half)


@kernel()
def _release_times(machine):
    """Fill in how many processors are free after each requested end; return the work left, by request."""
    memory, running = machine.memory, machine.running
    free, work = memory[FREE], 0
    for place in range(running.n[1]):
        width = running.listed_width[place]
        free += width
        machine.available[place] = free
        work += width * max(running.requested_end[place] - memory[NOW], 0)
    return work


@kernel()
def _delay(machine, width):
    """Return the seconds until a job of that width could start, by the running jobs' requests."""
    memory, running = machine.memory, machine.running
    low, high = 0, running.n[1] - 1
    while low < high:
        middle = (low + high) >> 1
        if machine.available[middle] < width:
            low = middle + 1
        else:
            high = middle
    return max(running.requested_end[low] - memory[NOW], 0)


@kernel(error_model="numpy")
def _show_state(machine, jobs, work, target):
    memory, running, size = machine.memory, machine.running, machine.settings.processors
    waiting, shown = memory[WAITING], memory[SHOWN]
    target[0] = memory[FREE] / size
    target[1] = _bent(waiting, 16.0)
    target[2] = 1.0 - shown / waiting
    target[3] = _bent(memory[QUEUED] / size, DAY)
    target[4] = _bent(work / size, DAY)
    target[5] = _bent(max(running.requested_end[0] - memory[NOW], 0), HOUR) if running.n[1] > 0 else 0.0
    if memory[HEAD] < 0:
        target[6:STATE] = 0.0
        return
    head = memory[FIRST] + memory[HEAD]
    target[6] = jobs.processors[head] / size
    target[7] = jobs.long[head]
    target[8] = _bent(memory[NOW] - jobs.submit[head], HOUR)
    target[9] = _bent(memory[SHADOW] - memory[NOW], HOUR)
    target[10] = max(memory[SPARE], 0) / size


@kernel(error_model="numpy")
def _show_job(machine, jobs, place, share, target):
    memory = machine.memory
    row = memory[FIRST] + machine.queue[place]
    width, walltime = jobs.processors[row], jobs.walltime[row]
    wait, free = memory[NOW] - jobs.submit[row], memory[FREE]
    target[0] = 1.0
    target[1] = width * share
    target[2] = jobs.long[row]
    target[3] = jobs.large[row]
    target[4] = _bent(wait, HOUR)
    target[5] = _bent(wait, DAY)
    target[6] = _bent(wait, max(walltime, 1))
    target[7] = 1.0 if width <= free else 0.0
    if memory[HEAD] < 0:
        target[8] = 0.0 if width <= free else _bent(_delay(machine, width), HOUR)
        target[9] = max(free - width, 0) * share
        return
    window = memory[SHADOW] - memory[NOW]
    target[8] = walltime / max(walltime, window, 1)
    target[9] = 0.0 if walltime <= window else min(width / max(memory[SPARE], 1), 1.0)


@kernel()
def observe(machine, jobs, target, mask):
    """Write an observation: the state, then the rows; slots without a candidate are zeros.

    Parameters
    ----------
    machine, jobs
        At a decision, or at the end, which is zeros throughout.
    target
        Shape (STATE + slots · ROW,), float32, as the last call for this machine left it.
    mask
        Shape (slots,), int8: 1 where a slot holds a choice. With decisions about backfilling the last one is
        the choice of no job.
    """
    memory = machine.memory
    shown = memory[SHOWN] if memory[OPEN] else 0
    if shown == 0:
        target[:] = 0.0
        mask[:] = 0
        memory[FILLED] = 0
        return
    _show_state(machine, jobs, _release_times(machine), target)
    share = 1.0 / machine.settings.processors
    for slot in range(shown):
        begin = STATE + slot * ROW
        _show_job(machine, jobs, machine.shown[slot], share, target[begin : begin + ROW])
        mask[slot] = 1
    for slot in range(shown, memory[FILLED]):
        target[STATE + slot * ROW : STATE + (slot + 1) * ROW] = 0.0
        mask[slot] = 0
    memory[FILLED] = shown
    if machine.settings.flags & BACKFILL_MODE:
        target[STATE + machine.settings.candidates * ROW] = 1.0
        mask[machine.settings.candidates] = 1
