"""Predicted starts by counting nodes, compiled: the results of backfill's tests, in words of bits.

Most jobs ask for a number of nodes on which all of one kind of room is the same to them. For such a *form* of
request the nodes are listed once in a pass, in the order in which they will have that room as running jobs
end. The number of usable nodes that do by an instant is then a count of bits, and with a tree of switches so
is the choice among them. The result is that of `choose` in `placing` after each group of ends, exactly.
"""

from __future__ import annotations

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.slurm.kernel.placing import add_node, copy_free, fits_better, has, ones, room_of
from gridtune.slurm.kernel.table import first_slot, has_all, next_later
from gridtune.slurm.versions import DATED_TESTS, ENDED_AT, FIRST_NODE, OWN_ENDS

#: Seconds of the first group of ends that a predicted start looks at.
FIRST_WINDOW = 30
#: A form's list has a bitmap after so many nodes.
STRIDE = 16
#: The most steps that are kept of a kind of search, and the nodes that a step may depend on.
STEPS, WITNESSES = 128, 3
_BIT = np.uint64(1)
#: Of so many nodes the first in a list is found by looking at all.
_FEW = 24


@kernel()
def _count_common(one, begin, other, start, words):
    """Return how many nodes two bitmaps, which begin at a word each, have in common."""
    count = 0
    for w in range(words):
        count += ones(one[begin + w] & other[start + w])
    return count


@kernel()
def form_of(world, record):
    """Return the number of a record's form, with its list made for what runs now; -1 if counting does not do.

    A test has one side effect, the size that it gives to a job: it must have been tested in earnest before.
    """
    form, forms = world.records.form[record], world.forms
    if form < 0 or world.sizes[world.records.job[record]] != world.records.steady[record]:
        return -1
    if forms.epoch[form] != world.state.epoch:
        _list_nodes(world, record, form)
        forms.epoch[form] = world.state.epoch
    return form


@kernel()
def _marks_of(world, form):
    """Return where a form's bitmaps begin."""
    return form * (world.rules.nodes // STRIDE + 1) * world.rules.words


@kernel()
def _add(world, form, node, ended):
    """Put a node at the end of a form's list; after each 16 the bitmap of all until then is kept."""
    forms, words, size, fits = world.forms, world.rules.words, world.rules.nodes, world.fits
    add_node(fits, node)
    place = forms.length[form]
    forms.node[form * size + place], forms.ended[form * size + place] = node, ended
    forms.place[form * size + node] = place
    forms.length[form] = place + 1
    if (place + 1) % STRIDE == 0:
        mark = _marks_of(world, form) + (place + 1) // STRIDE * words
        for w in range(words):
            forms.marks[mark + w] = fits[w]


@kernel()
def _list_nodes(world, record, form):
    """List the nodes that suit a form: those with room now, then others as running jobs end."""
    forms, running, later, fits = world.forms, world.running, world.later, world.fits
    able, words = world.records.kind[record], world.rules.words
    need = world.records.need[record]
    forms.length[form] = 0
    for w in range(words):
        fits[w] = 0
    copy_free(world, world.free, later)
    for node in range(world.rules.nodes):
        if has(world.records.able, able, node) and room_of(world, later, record, node) >= need:
            _add(world, form, node, 0)
    for i in range(world.state.running):
        job = running.by_limit[i]
        for k in range(running.begin[job], running.begin[job] + running.parts[job]):
            node = running.node[k]
            if has(fits, 0, node) or not has(world.records.able, able, node):
                continue
            later.cpus[node] += running.cpus[k]
            later.memory[node] += running.memory[k]
            if room_of(world, later, record, node) >= need:
                _add(world, form, node, i + 1)


@kernel()
def ended_by(world, instant):
    """Return how many running jobs end by an instant."""
    running, low, high = world.running, 0, world.state.running
    while low < high:
        middle = (low + high) // 2
        if running.limit_end[running.by_limit[middle]] <= instant:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def _place(world, form, ended):
    """Return how many nodes of a form's list have room once so many jobs have ended."""
    forms, begin = world.forms, form * world.rules.nodes
    low, high = 0, forms.length[form]
    while low < high:
        middle = (low + high) // 2
        if forms.ended[begin + middle] <= ended:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def _fill(world, form, ended):
    """Put the nodes that have room once so many jobs have ended into `fits`; return how many they are."""
    forms, words, size = world.forms, world.rules.words, world.rules.nodes
    low = _place(world, form, ended)
    mark = _marks_of(world, form) + low // STRIDE * words
    for w in range(words):
        world.fits[w] = forms.marks[mark + w]
    for place in range(low // STRIDE * STRIDE, low):
        add_node(world.fits, forms.node[form * size + place])
    return low


@kernel()
def usable_nodes(world, record, first, begin, end):
    """Put the nodes that suit a record and have no plan in a time into `usable`.

    The slices before the first end by `begin`.
    """
    slots, rows, usable, words = world.slots, world.slots.nodes, world.usable, world.rules.words
    sets, last = world.records.kind[record], first - 1
    while last + 1 < world.state.slots and slots.begin[last + 1] <= end and slots.end[last + 1] > begin:
        last += 1
    for w in range(words):
        usable[w] = world.records.able[sets + w]
    # Four slices at a time, the last ones more than once.
    for i in range(first, last + 1, 4):
        one, two = slots.row[i] * words, slots.row[min(i + 1, last)] * words
        three, four = slots.row[min(i + 2, last)] * words, slots.row[min(i + 3, last)] * words
        for w in range(words):
            usable[w] &= rows[one + w] & rows[two + w] & rows[three + w] & rows[four + w]


@kernel()
def count_usable(world, record, form, first, begin, end, ended):
    """Return how many nodes without a plan in a time, put into `usable`, have room after so many ends.

    It is 0 where they are not enough. The slices before the first end by `begin`; `fits` has those with room.
    """
    slots, words = world.slots, world.rules.words
    least = world.jobs.least_nodes[world.records.job[record]]
    if _fill(world, form, ended) < least:
        return 0
    if (
        slots.end[first] > begin
        and _count_common(world.fits, 0, slots.nodes, slots.row[first] * words, words) < least
    ):
        return 0
    usable_nodes(world, record, first, begin, end)
    count = _count_common(world.fits, 0, world.usable, 0, words)
    return count if count >= least else 0


@kernel()
def _ends_until(world, form, usable, least, found):
    """Return how many running jobs must end until enough usable nodes have room, -1 if they never have.

    It is known that in `fits` so many are found, 0 if it is not.
    """
    forms, words, size = world.forms, world.rules.words, world.rules.nodes
    if 0 < found <= (_FEW if least == 1 else least):
        # The last one of all, or the first.
        last = 0 if found == least else size
        for w in range(words):
            word = world.fits[w] & usable[w]
            while word != 0:
                place = forms.place[form * size + 64 * w + ones((word & ~(word - _BIT)) - _BIT)]
                last = max(last, place) if found == least else min(last, place)
                word &= word - _BIT
        return forms.ended[form * size + last]
    marks = _marks_of(world, form)
    low, high = 0, forms.length[form] // STRIDE
    while low < high:
        middle = (low + high + 1) // 2
        if _count_common(usable, 0, forms.marks, marks + middle * words, words) < least:
            low = middle
        else:
            high = middle - 1
    count = _count_common(usable, 0, forms.marks, marks + low * words, words)
    for place in range(STRIDE * low, forms.length[form]):
        count += has(usable, 0, forms.node[form * size + place])
        if count >= least:
            return forms.ended[form * size + place]
    return -1


@kernel()
def has_some(world, usable, job):
    """Tell whether a running job has a node of a bitmap."""
    running = world.running
    for k in range(running.begin[job], running.begin[job] + running.parts[job]):
        if has(usable, 0, running.node[k]):
            return True
    return False


@kernel()
def first_horizon(world, end):
    """Return the next half minute of the clock after the first end."""
    return end + FIRST_WINDOW - (end + world.rules.zero) % FIRST_WINDOW


@kernel()
def widened(world, window):
    """Return the next window of ends, seconds."""
    linear = world.rules.bf_window_linear
    return window + linear if linear > 0 else window * 2


@kernel()
def start_after(world, job, now):
    """Return the start of a job once a running one has reached its limit; one beyond it will be killed."""
    end = world.running.limit_end[job]
    return end if end > now else max(now + 1, end + world.rules.kill_wait + world.rules.overtime)


@kernel()
def _next_with_some(world, usable, place):
    """Return the place, by limits, of the first running job from one on that has a node of a bitmap."""
    while place < world.state.running and not has_some(world, usable, world.running.by_limit[place]):
        place += 1
    return place


@kernel()
def open_search(world, record):
    """Return the number of a record's kind of search, -1 for none; a pass begins without failed steps."""
    search, searches = world.records.search[record], world.searches
    if search >= 0 and searches.made[search] != world.state.passes:
        searches.made[search], searches.failed[search] = world.state.passes, 0
    world.state.looked = 0
    return search


@kernel()
def next_step(world, record, search, begin):
    """Return the next step of a search from an instant on: its first slice, its begin, and when others come.

    Steps that fail again are left out, up to the end of the time that backfill looks at.
    """
    slots, state, limit = world.slots, world.state, world.records.limit[record]
    pool = world.records.partition[record] * world.rules.words
    first, reach = first_slot(world, begin), slots.begin[0] + world.rules.bf_window
    whole = has_all(world, pool)
    while True:
        later = next_later(world, pool, whole, first, begin, begin + limit)
        if search < 0 or later == 0 or not _fails_again(world, record, search, begin, later):
            return first, begin, later
        begin = later
        if begin > reach:
            return first, begin, later
        while slots.end[first] <= begin and first + 1 < state.slots:
            first += 1


@kernel()
def _fails_again(world, record, search, begin, later):
    """Tell whether no start from `begin` to before `later` is possible since an earlier search failed there.

    That search was for as many nodes of the same form for at most as long, and plans have only been added
    since: each node that it lacked from `begin` on is still lacking, unless others came sooner than now.
    `looked` becomes the first step that ended as late.
    """
    searches, state, limit = world.searches, world.state, world.records.limit[record]
    step, place = state.looked, search * STEPS + state.looked
    while step < searches.failed[search] and searches.end[place] < later:
        step += 1
        place += 1
    state.looked = step
    if step == searches.failed[search] or begin < searches.begin[place] or searches.limit[place] > limit:
        return False
    seen = place * WITNESSES
    if searches.seen[seen] >= 0:
        if searches.epoch[place] != state.epoch:
            return False
        for k in range(seen, seen + WITNESSES):
            node = searches.seen[k]
            planned = searches.planned[node] == state.passes
            if planned and searches.first[node] <= begin + limit and searches.last[node] > begin:
                return False
    return True


@kernel()
def _place_step(world, search, begin, later):
    """Return the place for a step that failed, in place of one around it if any; -1 where there is no room.

    Ends ascend.
    """
    searches, step, first = world.searches, world.state.looked, search * STEPS
    count, place = searches.failed[search], first + step
    if step < count and (searches.begin[place] <= begin or searches.end[place] == later):
        return place
    if count == STEPS:
        return -1
    searches.failed[search] += 1
    for k in range(first + count, place, -1):
        searches.begin[k], searches.end[k] = searches.begin[k - 1], searches.end[k - 1]
        searches.limit[k], searches.epoch[k] = searches.limit[k - 1], searches.epoch[k - 1]
        for seen in range(k * WITNESSES, (k + 1) * WITNESSES):
            searches.seen[seen] = searches.seen[seen - WITNESSES]
    return place


@kernel()
def note_failure(world, record, begin, later, by_group):
    """Note that a step failed: for want of nodes, or by the group of ends that `find_start` found last."""
    searches, running, search = world.searches, world.running, world.records.search[record]
    if search < 0 or (by_group and searches.ends[WITNESSES - 1] < 0):
        return
    place = _place_step(world, search, begin, later)
    if place < 0:
        return
    searches.begin[place], searches.end[place] = begin, later
    searches.limit[place], searches.epoch[place] = world.records.limit[record], world.state.epoch
    for k in range(WITNESSES):
        searches.seen[place * WITNESSES + k] = -1
        if by_group:
            job = running.by_limit[searches.ends[k]]
            part = running.begin[job]
            while not has(world.usable, 0, running.node[part]):
                part += 1
            searches.seen[place * WITNESSES + k] = running.node[part]


@kernel()
def note_plan(world, count, low, high):
    """Note until when the nodes chosen are planned."""
    searches = world.searches
    for i in range(count):
        node = world.scratch.chosen[i]
        if searches.planned[node] != world.state.passes:
            searches.planned[node] = world.state.passes
            searches.first[node], searches.last[node] = low, high
        searches.first[node] = min(searches.first[node], low)
        searches.last[node] = max(searches.last[node], high)


@kernel()
def _last_of_group(world, usable, place, first):
    """Return the place of the last job that is taken away in one group with that at a place, which has some.

    The first group begins with the first such job from a place on.
    A group goes on to the first job on the usable nodes after which none ends within its window. So it ends
    with the first such job from the last one within the window on; one before may have come as far as this.
    """
    running, ends, seen = world.running, world.state.running, world.searches.ends
    seen[0] = seen[1] = _next_with_some(world, usable, first)
    end = running.limit_end[running.by_limit[seen[0]]]
    horizon = first_horizon(world, end)
    before, window = 0, FIRST_WINDOW
    while running.limit_end[running.by_limit[place]] > horizon + window:
        before = window
        window = widened(world, window)
    if before > 0:
        seen[1] = _next_with_some(world, usable, ended_by(world, horizon + before) - 1)
        if seen[1] == place:
            return place
    last = ended_by(world, horizon + window) - 1
    found = _next_with_some(world, usable, last)
    seen[2] = found if found < ends else -1
    while found == ends:
        found = last if last == place or has_some(world, usable, running.by_limit[last]) else ends
        last -= 1
    return found


@kernel()
def find_start(world, record, form, now, begin, ended, found):
    """Return when a job could start on `usable`, -1 for never or, unless that is -1, after so many ends.

    By then so many nodes are found, which are in `fits`, too.

    By later releases jobs that end before `begin` are taken away first, and then it could start at once.
    Return also on how many nodes; they are in `picked` and `scratch.chosen`. The record is plain: each node
    with room for its form takes it one nearer to its end, whatever room that is.
    """
    running, rules, usable, early = world.running, world.rules, world.usable, 0
    dated = rules.release >= DATED_TESTS
    least = world.jobs.least_nodes[world.records.job[record]]
    needed = _ends_until(world, form, usable, least, found)
    if needed < 0 or (dated and 0 <= ended < needed):
        return -1, 0
    if dated and (needed > 0 or begin > now):
        early = ended_by(world, begin - int(rules.release < ENDED_AT))
    last = early - 1
    if needed > early:
        last = _last_of_group(world, usable, needed - 1, early)
        if dated and ended > 0:
            last = min(last, ended - 1)
            while not has_some(world, usable, running.by_limit[last]):
                last -= 1
        elif 0 <= ended <= last:
            return -1, 0
    _fill(world, form, last + 1)
    for w in range(rules.words):
        world.fits[w] &= usable[w]
    count = _pick(world, least)
    if needed <= early:
        return now, count
    if rules.release >= OWN_ENDS:
        while not has_some(world, world.picked, running.by_limit[last]):
            last -= 1
    return start_after(world, running.by_limit[last], now), count


@kernel()
def _pick(world, need):
    """Choose so many of the nodes in `fits`, as `choose` does with switches; return how many."""
    forms, fits, words, offered = world.forms, world.fits, world.rules.words, world.offered
    first_node = need == 1 and world.rules.release >= FIRST_NODE
    for w in range(words):
        world.picked[w] = 0
    for level in range(world.rules.levels):
        count = 0
        for w in range(words):
            offered[w] = fits[w] & forms.levels[level * words + w]
            count += ones(offered[w])
        if count >= need:
            break
        need -= count
        for w in range(words):
            world.picked[w] |= offered[w]
    if count == need:
        for w in range(words):
            world.picked[w] |= offered[w]
    elif first_node:
        w = 0
        while offered[w] == 0:
            w += 1
        world.picked[w] = offered[w] & ~(offered[w] - _BIT)
    else:
        _pick_by_switch(world, need)
    return _write_chosen(world)


@kernel()
def _pick_by_switch(world, need):
    """Take so many of the nodes in `offered` from the switches with the fewest that do."""
    forms, offered, picked, words = world.forms, world.offered, world.picked, world.rules.words
    sizes, used = world.scratch.leaf_nodes, world.scratch.leaf_used
    for leaf in range(world.rules.leaves):
        size, some = 0, False
        for w in range(forms.leaf_first[leaf], forms.leaf_stop[leaf]):
            size += ones(offered[w] & forms.leaves[leaf * words + w])
            some |= picked[w] & forms.leaves[leaf * words + w] != 0
        sizes[leaf], used[leaf] = size, some
    while need > 0:
        best, most, held = -1, 0, 0
        for leaf in range(world.rules.leaves):
            size = sizes[leaf]
            if size == 0:
                continue
            better = best < 0 or used[leaf] > held
            if not better and used[leaf] + held == 0:
                better = fits_better(size >= need, size, most >= need, most)
            if better:
                best, most, held = leaf, size, used[leaf]
        for w in range(forms.leaf_first[best], forms.leaf_stop[best]):
            word = offered[w] & forms.leaves[best * words + w]
            while word != 0 and need > 0:
                picked[w] |= word & ~(word - _BIT)
                word &= word - _BIT
                need -= 1
        sizes[best], used[best] = 0, 1


@kernel()
def _write_chosen(world):
    """Write the numbers of the nodes in `picked`; return how many they are."""
    count = 0
    for w in range(world.rules.words):
        word = world.picked[w]
        while word != 0:
            world.scratch.chosen[count] = 64 * w + ones((word & ~(word - _BIT)) - _BIT)
            word &= word - _BIT
            count += 1
    return count
