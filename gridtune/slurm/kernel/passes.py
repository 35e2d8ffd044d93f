"""The main pass and the backfill pass, compiled.

The rules are stated, in plain Python, in `tests/slurm/reference.py`; sources are its own and
`src/slurmctld/job_scheduler.c`, `src/plugins/sched/backfill/backfill.c` and
`src/plugins/select/cons_common/job_test.c` of Slurm 22.05. Times are seconds.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.slurm.kernel.ahead import (
    count_usable,
    ended_by,
    find_start,
    form_of,
    next_step,
    note_failure,
    note_plan,
    open_search,
    usable_nodes,
)
from gridtune.slurm.kernel.foreseeing import will_run
from gridtune.slurm.kernel.placing import add_node, are_many, choose, enough, gather, has, measure_room, share
from gridtune.slurm.kernel.preempting import find_victims, fit, take_cores
from gridtune.slurm.kernel.running import (
    NEVER,
    end_job,
    may_all_start,
    preempt,
    put_back,
    start_job,
    too_many,
    too_much,
)
from gridtune.slurm.kernel.table import (
    common_nodes,
    deadlocks,
    first_slot,
    grid_before,
    open_table,
    overlaps,
    reserve,
)
from gridtune.slurm.versions import (
    ARRAY_PLANS,
    DATED_TESTS,
    ENDED_PASSES,
    FRESH_WEIGHTS,
    LONGEST_LIMITS,
    PURGED_LATE,
    SHOWN_CPUS,
)

#: What the number of slots made is set to once a plan finds no room in the table: the pass ends.
_FULL = 1 << 40


@kernel()
def _array_key(world, record):
    """Return the place of a task's array in a partition, -1 for a job that is in no array."""
    array = world.arrays.array[world.records.job[record]]
    return array * world.rules.partitions + world.records.partition[record] if array >= 0 else -1


@kernel()
def _reject(world, record):
    """Note that a task could not start in this pass: it stands for all that are left of its array."""
    key = _array_key(world, record)
    if key >= 0:
        world.arrays.rejected[key] = world.state.passes


@kernel()
def _rejected(world, record):
    key = _array_key(world, record)
    return key >= 0 and world.arrays.rejected[key] == world.state.passes


@kernel()
def _note_plan(world, record, planned):
    """Count a plan of a task; a task without one, or one plan too many, ends those of its array."""
    arrays, key = world.arrays, _array_key(world, record)
    if key < 0:
        return
    # The number of the pass and, below it, the plans made in it.
    stamp = world.state.passes << 32
    arrays.planned[key] = max(arrays.planned[key], stamp) + planned
    left, array = world.rules.bf_max_job_array_resv, arrays.array[world.records.job[record]]
    if arrays.most[array] > 0 and world.rules.release >= ARRAY_PLANS:
        left = min(left, arrays.most[array] - world.limits.used[arrays.counter[array]])
    if planned == 0 or arrays.planned[key] - stamp >= left:
        _reject(world, record)


@kernel()
def _choose_now(world, record, nodes, now):
    """Choose nodes to start a job on at once, and its shares of them.

    Where nothing is free, it takes processors of those that it suspends. Nodes of a job that was killed this
    second do not do. The favour of GPUs looked at before is forgotten.
    """
    clear = world.clear
    for w in range(world.rules.words):
        clear[w] = nodes[w] & ~world.completing[w]
    lacking = world.records.plain[record] and not enough(world, world.free, record, clear)
    # Later releases weigh nodes before each choice.
    if not lacking or world.rules.release < FRESH_WEIGHTS:
        _weigh(world, record)
    if lacking:
        return 0
    measure_room(world, world.free, record, clear)
    count, source, cores = choose(world, world.records.job[record]), world.free, world.suspension.free
    if count == 0:
        count = fit(world, world.free, cores, 0, record, clear, now)
        source, cores = world.beside, world.suspension.beside
    if count > 0:
        share(world, source, record, count)
        if world.rules.suspending:
            take_cores(world, cores, count)
    return count


@kernel()
def _make_room(world, record, now):
    """Make others go for a job that found no place among `clear`; return whether there are such others."""
    if world.rules.preempting == 0:
        return False
    preemption, job = world.preemption, world.records.job[record]
    victims = find_victims(world, record, world.clear, now)
    if victims > 0 and now - preemption.since[job] >= world.rules.pause:
        preemption.since[job] = now
        for i in range(victims):
            preempt(world, preemption.order[i], now)
    return victims > 0


@kernel()
def _reserves_nothing(world, record, now):
    """Tell whether a job has waited for too short a time, or has too low a priority, to keep nodes free."""
    rules = world.rules
    waited = now - world.eligible[world.records.job[record]]
    return world.priority[record] < rules.bf_min_prio_reserve or waited < rules.bf_min_age_reserve


@kernel()
def _limit_until(world, record, now):
    """Return the time limit asked for, cut at the job's deadline in whole minutes.

    A job that could not end by then any more is cancelled: -1.
    """
    running, state, job = world.running, world.state, world.records.job[record]
    left = world.jobs.deadline[job] - now
    if left >= world.jobs.least_time[job]:
        return min(world.records.full[record], left - left % 60)
    world.waiting[job] = 0
    running.record[job], running.parts[job] = record, 0
    running.start[job] = running.real_end[job] = now
    world.preemption.gone[state.gone] = job
    state.gone += 1
    state.started += 1
    return -1


@kernel()
def main_pass(world, now, depth):
    """Start what can start, in order, until a partition is blocked."""
    avail, usable, records = world.avail, world.usable, world.records
    state, words = world.state, world.rules.words
    for w in range(words):
        avail[w] = world.pool[w]
    for partition in range(world.rules.partitions):
        world.failed[partition] = 0
    state.passes += 1
    if depth == NEVER and world.rules.release >= PURGED_LATE:
        for position in range(state.waiting):
            if world.waiting[records.job[world.order[position]]]:
                _limit_until(world, world.order[position], now)
    looked = 0
    for position in range(state.waiting):
        record = world.order[position]
        job, partition = records.job[record], records.partition[record]
        if not world.waiting[job] or _rejected(world, record):
            continue
        if world.plans.whole[job] >= 0:
            if world.failed[partition] and world.rules.release >= ENDED_PASSES:
                break
            # Only backfill starts it.
            world.failed[partition] = 1
            for w in range(words):
                avail[w] &= ~world.partitions[partition * words + w]
            continue
        if looked > depth:
            break
        looked += 1
        if world.failed[partition] == 0:
            limit = _limit_until(world, record, now)
            if limit < 0:
                continue
            for w in range(words):
                usable[w] = avail[w] & world.partitions[partition * words + w]
            count, held = 0, too_many(world, record, 0)
            tested = not held and are_many(world, usable, world.jobs.nodes[job])
            if tested and too_many(world, record, -1):
                tested, held = False, True
            if tested:
                _drop_reserved(world, usable, now, limit)
                count = _choose_now(world, record, usable, now)
                if count == 0 and world.records.plain[record]:
                    held = not enough(world, world.empty, record, usable)
                elif count == 0:
                    measure_room(world, world.empty, record, usable)
                    held = choose(world, job, False) == 0
            held = held or too_much(world, record, count, 0, limit)
            if count > 0 and not held:
                start_job(world, record, count, now, now, limit)
                continue
            if tested and not held:
                _make_room(world, record, now)
            _reject(world, record)
            if tested and world.jobs.covered[job]:
                # The nodes that it must have are kept for it, and it blocks nobody else.
                for w in range(words):
                    avail[w] &= ~world.jobs.named[world.jobs.listed[job] + w]
                continue
            if held or (tested and _reserves_nothing(world, record, now)):
                continue
            world.failed[partition] = 1
            for w in range(words):
                avail[w] &= ~world.partitions[partition * words + w]


@kernel()
def _drop_reserved(world, nodes, start, limit):
    """Take the nodes out whose reservations a job that starts then would run into."""
    outages, words = world.outages, world.rules.words
    for i in range(world.rules.outages):
        if outages.planned[i] and outages.start[i] < start + limit and outages.end[i] > start:
            for w in range(words):
                nodes[w] &= ~outages.nodes[i * words + w]


@kernel()
def _reservation_end(world, start):
    """Return when a later start is tried since a reservation has ended, 0 if never."""
    first, outages = 0, world.outages
    for i in range(world.rules.outages):
        if outages.planned[i] and start <= outages.end[i]:
            end = grid_before(world, outages.end[i] + world.rules.bf_resolution - 1) + 1
            first = end if first == 0 else min(first, end)
    return first


@kernel()
def _weigh(world, record):
    """Weigh the nodes that suit a record: those that others under its limits on nodes have are taken first.

    Of nodes of a record the others count as heavier, if there are such nodes at all (`_find_grp_node_bitmap`
    and `_build_node_list` in node_scheduler.c). The favour of GPUs looked at before is forgotten.
    """
    limits, nodes, begin = world.limits, world.nodes, world.records.kind[record]
    some, suits = world.scratch.first, world.records.suits
    for node in range(world.rules.nodes):
        some[node] = 0
        if has(suits, begin, node):
            nodes.near[node] = nodes.extra[node] = 0
    found, preferring = False, False
    for entry in range(limits.begin[record], limits.begin[record + 1]):
        counter = limits.counter[entry]
        if limits.preferred[entry] == 0 or (limits.preferred[entry] == 1 and found):
            continue
        found = found or (limits.preferred[entry] == 1 and limits.known[counter] > 0)
        for node in range(world.rules.nodes):
            if has(suits, begin, node) and limits.on[limits.row[counter] * world.rules.nodes + node] > 0:
                nodes.extra[node], some[nodes.record[node]], preferring = -1, 1, True
    if preferring:
        for node in range(world.rules.nodes):
            if has(suits, begin, node):
                nodes.extra[node] = some[nodes.record[node]] * (nodes.extra[node] + 1)


@kernel()
def backfill_pass(world, now):
    """Start or plan each job in order."""
    state, rules, records = world.state, world.rules, world.records
    open_table(world, now)
    state.epoch += 1
    for user in range(rules.users):
        world.looked[user] = 0
    for partition in range(rules.partitions):
        world.failed[partition] = 0
    state.passes += 1
    state.components = 0
    for place in range(rules.heterogeneous * rules.partitions):
        world.plans.latest[place] = -NEVER
    tested, before, last = 0, state.started, state.waiting - 1
    for position in range(state.waiting):
        while last >= position and not _may_start(world, world.order[last], now):
            last -= 1
        # Plans matter to jobs that may start after them.
        if last < position or tested >= rules.bf_max_job_test or state.slots_made >= _FULL:
            break
        record = world.order[position]
        job = records.job[record]
        if not world.waiting[job] or _rejected(world, record):
            continue
        begin = max(now, _look_at(world, job))
        if begin > now + rules.bf_window:
            continue
        if rules.bf_max_job_user > 0:
            world.looked[world.jobs.user[job]] += 1
            if world.looked[world.jobs.user[job]] > rules.bf_max_job_user:
                continue
        if too_many(world, record, 0) or too_many(world, record, -1):
            _reject(world, record)
            continue
        if _limit_until(world, record, now) < 0:
            before += 1
            continue
        planned = state.planned
        tested += _plan(world, record, now, begin)
        if world.waiting[job]:
            _note_plan(world, record, state.planned - planned)
        if rules.bf_max_job_start > 0 and state.started - before >= rules.bf_max_job_start:
            break
    for place in range(state.components):
        if rules.bf_max_job_start > 0 and state.started - before >= rules.bf_max_job_start:
            break
        if may_all_start(world, place, now):
            _start_all(world, place, now)


@kernel()
def _may_start(world, record, now):
    """Tell whether a test of a job in this pass may start it, or change anything else than plans.

    Plans are only added and processors only taken in a pass: a job that may not can not later either.
    """
    job = world.records.job[record]
    if not world.waiting[job] or _rejected(world, record):
        return False
    form = _counted_form(world, record)
    if form < 0 or world.jobs.deadline[job] < NEVER:
        return True
    first, end = first_slot(world, now), now + world.records.limit[record]
    return count_usable(world, record, form, first, now, end, 0) > 0


@kernel()
def _counted_form(world, record):
    """Return the form by whose list nodes are counted for a job, -1 for none."""
    completing = world.rules.release >= FRESH_WEIGHTS and are_many(world, world.completing, 1)
    return -1 if world.state.crooked or completing else form_of(world, record)


@kernel()
def _look_at(world, job):
    """Note that backfill looks at a component; return from when on the others let it start."""
    plans, state, begin = world.plans, world.state, -NEVER
    if plans.whole[job] < 0:
        return begin
    if plans.made[job] != state.passes:
        plans.made[job], plans.earliest[job] = state.passes, NEVER
        plans.seen[state.components] = job
        state.components += 1
    for place in range(state.components):
        other = plans.seen[place]
        if plans.whole[other] == plans.whole[job] and other != job:
            begin = max(begin, plans.earliest[other])
    return begin


@kernel()
def _note_start(world, record, start):
    """Note the plan of a component on the nodes in `picked`; its earliest start counts."""
    plans, words, job = world.plans, world.rules.words, world.records.job[record]
    for w in range(words):
        plans.places[job * words + w] = world.picked[w]
    if start < plans.earliest[job]:
        plans.earliest[job], plans.record[job] = start, record


@kernel()
def _start_all(world, first, now):
    """Start the components of a heterogeneous job, on any nodes; where one has no place, none starts."""
    plans, rules, usable = world.plans, world.rules, world.usable
    for w in range(rules.words):
        plans.used[w] = 0
    for place in range(first, world.state.components):
        job = plans.seen[place]
        record = plans.record[job]
        if plans.whole[job] != plans.whole[plans.seen[first]]:
            continue
        for w in range(rules.words):
            nodes = world.partitions[world.records.partition[record] * rules.words + w]
            usable[w] = world.pool[w] & nodes & ~plans.used[w]
        count, limit = 0, world.records.full[record]
        _drop_reserved(world, usable, now, limit)
        if not too_many(world, record, 0) and not too_many(world, record, -1):
            count = _choose_now(world, record, usable, now)
        if count == 0 or too_much(world, record, count, 0, limit):
            for earlier in range(first, place):
                other = plans.seen[earlier]
                if plans.whole[other] == plans.whole[job]:
                    end_job(world, other, now)
                    put_back(world, other, now)
            return
        start_job(world, record, count, now, now, limit)
        for i in range(count):
            add_node(plans.used, world.scratch.chosen[i])


@kernel()
def _plan(world, record, now, begin):
    """Start a job, or reserve nodes for it; return whether it was tested.

    It is tried from an instant on, and then from each at which nodes come that have no plan.
    """
    now_only = _reserves_nothing(world, record, now)
    if 0 < world.rules.bf_job_part_count_reserve <= world.failed[world.records.partition[record]]:
        now_only = True
    form = -1 if now_only else _counted_form(world, record)
    state, rules, records = world.state, world.rules, world.records
    counted, reach, apart = 0, now + rules.bf_window, world.plans.whole[records.job[record]] >= 0
    search = open_search(world, record) if form >= 0 else -1
    while begin <= world.slots.begin[0] + rules.bf_window:
        if form >= 0:
            first, begin, later = next_step(world, record, search, begin)
            if begin > world.slots.begin[0] + rules.bf_window:
                break
            start, count, many = _test_by_counting(world, record, form, (first, begin, later), now, now_only)
        else:
            start, count, later, many = _test(world, record, begin, now, now_only)
        counted = max(counted, many)
        if start < 0:
            if later == 0 or now_only:
                break
            begin = later
            continue
        start, completing = max(start, begin), False
        gather(world, count, world.picked)
        span = world.scratch.chosen[0] >> 6, (world.scratch.chosen[count - 1] >> 6) + 1
        for w in range(span[0], span[1]):
            completing |= world.picked[w] & world.completing[w] != 0
        dated = rules.release >= DATED_TESTS and start > now
        if dated and start <= reach and not now_only:
            low, high = _slice_ends(world, start, records.limit[record])
            if overlaps(world, span, low, high):
                begin = start if start > begin else start + rules.bf_resolution
                continue
        if start <= now and completing:
            start, later = now + 1, 0
        if apart:
            _note_start(world, record, start)
        elif start <= now:
            if _start_planned(world, record, count, now):
                return counted
            later = 0
        if now_only and not (apart and start <= now):
            return counted
        if 0 < later < start:
            begin = later
            continue
        low, high = _slice_ends(world, start, records.limit[record])
        if not dated and start <= reach and overlaps(world, span, low, high):
            # Without progress 22.05 would try the same until its time is up; later releases do this.
            begin = start if start > begin else start + rules.bf_resolution
            continue
        if start <= reach and apart and deadlocks(world, record, start):
            return counted
        if start <= reach and too_much(world, record, 0, count, records.limit[record]):
            return counted
        state.planned += 1
        world.failed[records.partition[record]] += int(start <= reach)
        if start <= reach and state.slots_made >= rules.most_slots:
            state.slots_made = _FULL
        elif start <= reach:
            reserve(world, span, low, high)
            note_plan(world, count, low, high)
        return counted
    return _are_ever_many(world, record, now) if form >= 0 and counted == 0 else counted


@kernel()
def _start_planned(world, record, count, now):
    """Start a job whose plan begins now; return whether it is settled: it has started, or a limit holds it.

    Else others must go first, and the nodes chosen, which stand in `scratch.chosen` again, are reserved
    meanwhile.
    """
    state, intended, chosen = world.state, world.intended, world.scratch.chosen
    for i in range(count):
        intended[i] = chosen[i]
    found = _choose_now(world, record, world.usable, now)
    held = too_much(world, record, found, 0, world.records.limit[record])
    if found > 0 and not held:
        start_job(world, record, found, now, now, _longest_limit(world, record, found, now))
        state.epoch += 1
    if found > 0 or held:
        return True
    _make_room(world, record, now)
    state.epoch += 1
    for i in range(count):
        chosen[i] = intended[i]
    return False


@kernel()
def _longest_limit(world, record, count, now):
    """Return the time limit of a job that backfill starts on the nodes chosen, which may be shortened.

    It ends before plans and reservations of its nodes begin, if they leave it as much as it needs.
    """
    slots, outages, words = world.slots, world.outages, world.rules.words
    least = world.jobs.time_min[world.records.job[record]]
    if world.records.limit[record] < world.records.full[record] and world.rules.release < LONGEST_LIMITS:
        return world.records.limit[record]
    limit = _limit_until(world, record, now)
    if least == 0:
        return limit
    gather(world, count, world.picked)
    for i in range(world.state.slots):
        begin = slots.begin[i]
        if now < begin < now + limit and overlaps(world, (0, words), begin, begin + 1):
            limit = (begin - now) // 60 * 60
    for i in range(world.rules.outages):
        begin, taken = outages.start[i], False
        for w in range(words):
            taken |= outages.nodes[i * words + w] & world.picked[w] != 0
        if outages.planned[i] and taken and now < begin < now + limit:
            limit = (begin - now) // 60 * 60
    return max(limit, min(least, world.records.full[record]))


@kernel()
def _slice_ends(world, start, limit):
    """Return the begin and end of the slices that a plan takes: multiples of `bf_resolution`."""
    rules, low, end = world.rules, grid_before(world, start), start + limit
    if rules.release >= DATED_TESTS:
        end += rules.bf_resolution - 1
    high = grid_before(world, end)
    return low, max(high, low + rules.bf_resolution) if rules.release >= SHOWN_CPUS else high


@kernel()
def _test(world, record, begin, now, now_only):
    """Find the start of a job on nodes without a plan from an instant on, -1 if there is none.

    Return also on how many nodes, when others come (0: never), and whether there are as many as it asks for.
    """
    records, rules, avail, usable = world.records, world.rules, world.avail, world.usable
    limit, words, many = records.limit[record], rules.words, 0
    start, count = -1, 0
    later = common_nodes(world, records.partition[record] * words, begin, max(begin, now) + limit)
    _drop_reserved(world, avail, begin, limit)
    edge = _reservation_end(world, begin)
    if 0 < edge < now + rules.bf_window and (later == 0 or edge < later):
        later = edge
    job, missing = records.job[record], False
    for w in range(words):
        if world.jobs.barred[job] >= 0:
            avail[w] &= ~world.jobs.named[world.jobs.barred[job] + w]
        if world.jobs.listed[job] >= 0:
            missing |= world.jobs.named[world.jobs.listed[job] + w] & ~avail[w] != 0
    if are_many(world, avail, world.jobs.nodes[job]) and not missing:
        many = 1
        for w in range(words):
            usable[w] = avail[w] & records.suits[records.kind[record] + w]
        start, count = will_run(world, record, usable, now, now_only, begin, later)
    return start, count, later, many


@kernel()
def _test_by_counting(world, record, form, step, now, now_only):
    """Do as `_test` does for a job whose nodes can be counted; a start after others come is none."""
    first, begin, later = step
    end = begin + world.records.limit[record]
    ended = ended_by(world, later) if later > 0 else -1
    found = count_usable(world, record, form, first, begin, end, ended) if later > 0 else 0
    if later > 0 and found == 0:
        note_failure(world, record, begin, later, False)
        return -1, 0, 0
    if not world.records.plain[record]:
        start, count, _, many = _test(world, record, begin, now, now_only)
        return start, count, many
    if later == 0:
        usable_nodes(world, record, first, begin, end)
    start, count = find_start(world, record, form, now, begin, ended, found)
    if start < 0 and later > 0:
        note_failure(world, record, begin, later, True)
    return start, count, int(later > 0 or start >= 0)


@kernel()
def _are_ever_many(world, record, now):
    """Tell whether a job that finds no place has enough nodes without a plan at some instant."""
    records, begin, later = world.records, now, 1
    pool = records.partition[record] * world.rules.words
    while later > 0 and begin <= world.slots.begin[0] + world.rules.bf_window:
        later = common_nodes(world, pool, begin, begin + records.limit[record])
        if are_many(world, world.avail, world.jobs.nodes[records.job[record]]):
            return 1
        begin = later
    return 0
