"""What an agent sees before it keeps or drops a slot: numbers of that slot, of the plan, of the others."""

from __future__ import annotations

import math

from gridtune.core.compiled import kernel

__all__ = ["BOUND", "FEATURES", "write_features"]

#: Features are clipped to ± this.
BOUND = 10.0
#: In this order. M is the bound of the makespan, A that of the cost, P the most processors ever free.
FEATURES = (
    "start: from now to the slot's start / M",
    "length: of the slot / M",
    "width: processors of the slot / P",
    "divisible: 1 if parts of the slot can be taken",
    "extensible: 1 if the slot may be extended",
    "paid: what the plan pays for the slot / A",
    "used: share of what it pays for that tasks use",
    "end: from now to the end of the last task in the slot / makespan of the plan",
    "last: 1 if the plan's last task ends in the slot",
    "cost: of the plan / A − 1",
    "makespan: of the plan / M − 1",
    "widest: processors of the widest task / P",
    "beside: processors of the other slots kept that overlap with this one / P",
    "wider: 1 if one of these other slots is as wide as the widest task",
    "later: from the slot's start to that of the next slot kept that is divisible and as wide / M",
    "left: share of the slots that can still be dropped",
)


@kernel()
def write_features(row, columns, slots, slot, kept, decided, plan, bounds, widest, most):
    """Fill in the features of a slot.

    Parameters
    ----------
    row
        Shape (16,), float32, filled in.
    columns
        A `SlotColumns`, bare.
    slots, slot
        The number of slots, and the slot.
    kept, decided
        Shape (slots,), bool: slots not dropped so far; slots of which it is known whether they are.
    plan
        Of the present plan: what it pays for the slot and what tasks use of it (processor-seconds), the end
        of the last task in it (seconds), cost, makespan, and now.
    bounds
        Of cost and makespan.
    widest, most
        Processors of the widest task, and the most that are ever free.
    """
    paid, used, until, cost, makespan, now = plan
    least, shortest = bounds
    start, end = columns.start[slot], columns.offered[slot]
    beside, wide, later, left = 0.0, 0.0, math.inf, 0
    for other in range(slots):
        left += not decided[other]
        if other == slot or not kept[other]:
            continue
        if columns.start[other] < end and start < columns.offered[other]:
            beside += columns.processors[other]
            if columns.processors[other] >= widest:
                wide = 1.0
        if (
            columns.divisible[other] == 1
            and columns.start[other] >= start
            and columns.processors[other] >= columns.processors[slot]
        ):
            later = min(later, columns.start[other] - start)
    row[0] = _clipped((start - now) / shortest)
    row[1] = _clipped((end - start) / shortest)
    row[2] = _clipped(columns.processors[slot] / most)
    row[3] = columns.divisible[slot]
    row[4] = 1.0 if columns.end[slot] == math.inf else 0.0
    row[5] = _clipped(paid / least)
    row[6] = _clipped(used / paid) if paid > 0 else 0.0
    row[7] = _clipped((until - now) / makespan) if until > now else 0.0
    row[8] = 1.0 if until == now + makespan else 0.0
    row[9] = _clipped(cost / least - 1.0)
    row[10] = _clipped(makespan / shortest - 1.0)
    row[11] = _clipped(widest / most)
    row[12] = _clipped(beside / most)
    row[13] = wide
    row[14] = _clipped(later / shortest)
    row[15] = left / slots


@kernel()
def _clipped(value):
    return min(BOUND, max(-BOUND, value))
