"""Backfill's table of time slices, compiled: which nodes have no plan, and until when.

The rules are stated, in plain Python, in `tests/slurm/reference.py`; its source is Slurm's `backfill.c`. The
bitmap of a slice is a row of `slots.nodes`: rows stay where they are while slices come and go.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.slurm.kernel.placing import ones
from gridtune.slurm.kernel.running import NEVER
from gridtune.slurm.versions import DATED_TESTS


@kernel()
def grid_before(world, instant):
    """Return the last multiple of `bf_resolution`, counted from 1970, until an instant."""
    return instant - (instant + world.rules.zero) % world.rules.bf_resolution


@kernel()
def open_table(world, now):
    """Begin a pass: one slice, of all nodes in service."""
    slots, state, rules = world.slots, world.state, world.rules
    end = now + rules.bf_window
    dated = rules.release >= DATED_TESTS
    slots.begin[0] = grid_before(world, now) if dated else now
    slots.end[0] = grid_before(world, end) if dated else end
    row = slots.row[0] * rules.words
    for w in range(rules.words):
        slots.nodes[row + w] = world.pool[w]
    slots.size[0] = 0
    for w in range(rules.words):
        slots.size[0] += ones(world.pool[w])
    state.slots, state.slots_made, state.crooked = 1, 1, 0


@kernel()
def _note_coming(world, slot):
    """Note whether the next slice has a node that a slice lacks."""
    slots, words = world.slots, world.rules.words
    row, following, w = slots.row[slot] * words, slots.row[slot + 1] * words, 0
    while w < words and slots.nodes[following + w] & ~slots.nodes[row + w] == 0:
        w += 1
    slots.coming[slot] = w < words


@kernel()
def first_slot(world, begin):
    """Return the first slice that ends after an instant, else the last one; they must be in order."""
    first = 0
    while world.slots.end[first] <= begin and first + 1 < world.state.slots:
        first += 1
    return first


@kernel()
def has_all(world, pool):
    """Tell whether a partition, whose bitmap begins at `pool`, has all nodes in service."""
    w, words = 0, world.rules.words
    while w < words and world.pool[w] & ~world.partitions[pool + w] == 0:
        w += 1
    return w == words


@kernel()
def next_later(world, pool, whole, first, begin, end):
    """Return when nodes of a partition come that a job from `begin` to `end` lacks, 0 for never.

    That is where a slice has a node that the one before lacks: those since `begin` have ever fewer until
    then. By later releases the slice after the job's end counts too. The slices before the first end by
    `begin`; the partition's bitmap begins at `pool`, and it is whole if it has all nodes in service.
    """
    slots, words = world.slots, world.rules.words
    for i in range(first, world.state.slots - 1):
        if slots.end[i] > begin:
            if whole and slots.coming[i]:
                return slots.end[i]
            row, following = slots.row[i] * words, slots.row[i + 1] * words
            for w in range(words if slots.coming[i] else 0):
                come = slots.nodes[following + w] & ~slots.nodes[row + w]
                if come & world.partitions[pool + w] != 0:
                    return slots.end[i]
            if slots.begin[i] > end:
                return _end_beyond(world, i)
    return 0


@kernel()
def _end_beyond(world, slot):
    """Return the end of the slice after a job's end that later releases try, 0 for none."""
    tried = world.rules.release >= DATED_TESTS and slot + 2 < world.state.slots
    return world.slots.end[slot + 1] if tried else 0


@kernel()
def common_nodes(world, pool, begin, end):
    """Put the partition's nodes without a plan in a time into `avail`; return when others come, or 0.

    The partition's bitmap begins at `pool`.
    """
    slots, avail, later, words = world.slots, world.avail, 0, world.rules.words
    count = world.state.slots
    for w in range(words):
        avail[w] = world.partitions[pool + w]
    for i in range(count):
        row = slots.row[i] * words
        if slots.end[i] > begin and i + 1 < count and later == 0:
            following = slots.row[i + 1] * words
            for w in range(words):
                others = world.partitions[pool + w] & slots.nodes[following + w]
                if others & ~(avail[w] & slots.nodes[row + w]) != 0:
                    later = slots.end[i]
                    break
        if slots.end[i] <= begin:
            continue
        if slots.begin[i] > end:
            return later if later > 0 else _end_beyond(world, i)
        for w in range(words):
            avail[w] &= slots.nodes[row + w]
    return later


@kernel()
def overlaps(world, span, start, end):
    """Tell whether a node of `picked`, within a span of its words, is planned for a job within a time."""
    slots = world.slots
    for i in range(world.state.slots):
        if slots.end[i] > start and slots.begin[i] < end:
            row = slots.row[i] * world.rules.words
            for w in range(span[0], span[1]):
                if world.picked[w] & ~slots.nodes[row + w] != 0:
                    return True
    return False


@kernel()
def _split(world, count, i, instant):
    """Make two of a slice, the second from an instant on."""
    slots, words = world.slots, world.rules.words
    spare = slots.row[count]
    for k in range(count, i + 1, -1):
        slots.begin[k], slots.end[k] = slots.begin[k - 1], slots.end[k - 1]
        slots.size[k], slots.row[k] = slots.size[k - 1], slots.row[k - 1]
        slots.coming[k] = slots.coming[k - 1]
    slots.begin[i + 1], slots.end[i + 1], slots.end[i] = instant, slots.end[i], instant
    slots.size[i + 1], slots.row[i + 1] = slots.size[i], spare
    slots.coming[i + 1], slots.coming[i] = slots.coming[i], 0
    for w in range(words):
        slots.nodes[spare * words + w] = slots.nodes[slots.row[i] * words + w]


@kernel()
def _merge(world, count):
    """Merge the first pair of equal neighbours; return how many slices are left."""
    slots = world.slots
    for k in range(count - 1):
        if slots.size[k] == slots.size[k + 1] and not slots.coming[k]:
            slots.end[k], spare = slots.end[k + 1], slots.row[k + 1]
            slots.coming[k] = slots.coming[k + 1]
            for m in range(k + 1, count - 1):
                slots.begin[m], slots.end[m] = slots.begin[m + 1], slots.end[m + 1]
                slots.size[m], slots.row[m] = slots.size[m + 1], slots.row[m + 1]
                slots.coming[m] = slots.coming[m + 1]
            slots.row[count - 1] = spare
            return count - 1
    return count


@kernel()
def reserve(world, span, start, end):
    """Take the nodes in `picked`, within a span of its words, out of all slices between two instants.

    Slices that reach over these are split.
    """
    slots, state, picked = world.slots, world.state, world.picked
    start = max(start, slots.begin[0])
    # A plan that ends before its start leaves slices out of order.
    if end < start:
        state.crooked = 1
    count, i = state.slots, 0
    while i < count and slots.end[i] < start:
        i += 1
    if i == count:
        return
    if slots.end[i] > start:
        _split(world, count, i, start)
        count += 1
    for k in range(i + 1, count):
        if end < slots.end[k]:
            _split(world, count, k, end)
            count += 1
            break
        if end == slots.end[k]:
            break
    state.slots_made += count - state.slots
    first = last = 0 if state.crooked else i
    for k in range(first, count):
        if slots.begin[k] >= start and slots.end[k] <= end:
            row, last, taken = slots.row[k] * world.rules.words, k, 0
            for w in range(span[0], span[1]):
                nodes = slots.nodes[row + w]
                taken += ones(nodes & picked[w])
                slots.nodes[row + w] = nodes & ~picked[w]
            slots.size[k] -= taken
        if slots.begin[k] >= end:
            break
    for k in range(max(first - 1, 0), count - 1 if state.crooked else min(last + 1, count - 1)):
        if slots.coming[k] or k == last or state.crooked:
            _note_coming(world, k)
    state.slots = _merge(world, count)


@kernel()
def deadlocks(world, record, start):
    """Note a start; tell whether another job starts later in this partition and earlier in another of its."""
    plans, rules, own = world.plans, world.rules, world.records.partition[record]
    latest, every, jobs = plans.latest, rules.partitions, rules.heterogeneous
    job = plans.whole[world.records.job[record]]
    here = job * every + own
    if latest[here] == -NEVER:
        plans.rank[here] = 0
        for other in range(jobs):
            plans.rank[here] += latest[other * every + own] > -NEVER
    latest[here] = max(latest[here], start)
    for other in range(jobs):
        there = other * every + own
        before = latest[there] == latest[here] and plans.rank[there] < plans.rank[here]
        if other == job or not (before or latest[there] > latest[here]):
            continue
        for partition in range(every):
            apart = partition != own and latest[job * every + partition] > -NEVER
            if apart and -NEVER < latest[other * every + partition] < latest[here]:
                return True
    return False
