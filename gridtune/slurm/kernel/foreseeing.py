"""Predicted starts, compiled: running jobs are taken away in groups, by their limits, until a job fits.

The rules are stated, in plain Python, in `tests/slurm/reference.py`; their source is `_will_run_test` of
`src/plugins/select/cons_common/job_test.c` of Slurm 22.05. Times are seconds.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.slurm.kernel.ahead import FIRST_WINDOW, ended_by, first_horizon, has_some, start_after, widened
from gridtune.slurm.kernel.placing import HEAVIER, are_many, choose, has, measure_node, measure_room, share
from gridtune.slurm.kernel.preempting import fit, free_of_preemptable, goes, is_candidate, leave_to
from gridtune.slurm.versions import DATED_TESTS, ENDED_AT, FRESH_WEIGHTS, OWN_ENDS


@kernel()
def _tell_size(world, free, record, count):
    """Note the processors that a test gave to a job: its size counts them from then on."""
    share(world, free, record, count)
    cpus = 0
    for i in range(count):
        cpus += world.scratch.cpus[i]
    world.sizes[world.records.job[record]] = cpus


@kernel()
def will_run(world, record, avail, now, now_only, begin, later):
    """Return when a job could start, -1 if never, and on how many nodes; they are in `scratch.chosen`.

    It can start now on what is free, over jobs that it suspends, or where others must make room for it. Else
    it starts when running jobs have reached their limits. By later releases a test from a later instant on
    does not look at what is free now.
    """
    job, release = world.records.job[record], world.rules.release
    count, source, going = 0, world.free, 0
    dated = release >= DATED_TESTS
    heavier = HEAVIER if release >= FRESH_WEIGHTS and not (dated and begin > now) else 0
    if release >= FRESH_WEIGHTS:
        for node in range(world.rules.nodes):
            if has(avail, 0, node):
                world.nodes.near[node] = world.nodes.extra[node] = 0
    _weigh_completing(world, avail, heavier)
    measure_room(world, world.free, record, avail)
    if begin <= now or not dated:
        count = choose(world, job)
        if count == 0:
            count = fit(world, world.free, world.suspension.free, 0, record, avail, now)
            source = world.beside if count > 0 else world.free
    if dated:
        _weigh_completing(world, avail, -heavier)
    if count == 0 and now_only and dated:
        return -1, 0
    if count == 0:
        going = free_of_preemptable(world, record, avail, now)
        if going > 0 or world.rules.suspending:
            measure_room(world, world.later, record, avail)
        if going > 0:
            # The start lies later, but now is when the others must go.
            _total_room(world)
            count, source = _choose_later(world, record, avail, now)
    if count > 0:
        _tell_size(world, source, record, count)
        return now, count
    if now_only:
        return -1, 0
    return _start_after_ends(world, record, avail, now, going, begin, later)


@kernel()
def _choose_later(world, record, avail, now):
    """Choose by `scratch.room`, that of `world.later`, or beside others; return how many and what is free."""
    count = choose(world, world.records.job[record]) if _may_do(world, record) else 0
    if count == 0 and world.rules.suspending:
        later = world.suspension.later
        count = fit(world, world.later, later, world.state.tests, record, avail, now)
        if count > 0:
            return count, world.beside
        measure_room(world, world.later, record, avail)
    return count, world.later


@kernel()
def _weigh_completing(world, avail, heavier):
    """Add to the weight of nodes that are completing; others are taken before them."""
    if heavier != 0 and are_many(world, world.completing, 1):
        for node in range(world.rules.nodes):
            if has(avail, 0, node):
                world.nodes.near[node] -= heavier * has(world.completing, 0, node)


@kernel()
def _start_after_ends(world, record, avail, now, going, begin, later):
    """Return when a job could start as running jobs end by their limits, -1 if never, and on how many nodes.

    Jobs are taken away in groups, in the order of their limits, and after each group the job is tried. A
    group ends where no other job ends within its window, which is wider for each group. `scratch.room` and
    `world.later` are what the job could have at first. By later releases jobs that end before `begin` are
    taken away first of all, and those that end after `later`, if not 0, never.
    """
    state, running = world.state, world.running
    _total_room(world)
    window, horizon, place, ends, early = FIRST_WINDOW, 0, 0, state.running, 0
    if world.rules.release >= DATED_TESTS:
        ends = ended_by(world, later) if later > 0 else ends
        early = ended_by(world, begin - int(world.rules.release < ENDED_AT))
        while place < early:
            other = running.by_limit[place]
            place += 1
            if has_some(world, avail, other) and not (going > 0 and goes(world, record, other, now)):
                _take_away(world, record, avail, other)
        # Nodes that are completing weighed more in the test for now.
        if place > 0 or begin > now or are_many(world, world.completing, 1):
            count, source = _choose_later(world, record, avail, now)
            if count > 0:
                _tell_size(world, source, record, count)
                return now, count
    while place < ends:
        last, following = -1, -1
        while place < ends:
            other = running.by_limit[place]
            place += 1
            if not has_some(world, avail, other) or (going > 0 and goes(world, record, other, now)):
                continue
            if horizon == 0:
                end = running.limit_end[other]
                horizon = first_horizon(world, end)
            last = other
            _take_away(world, record, avail, other)
            following = _following(world, record, place, now, going)
            if following < 0 or following > horizon + window:
                break
        if last < 0:
            break
        window = widened(world, window)
        while following > horizon + window:
            window = widened(world, window)
        count, source = _choose_later(world, record, avail, now)
        if count > 0:
            _tell_size(world, source, record, count)
            if world.rules.release >= OWN_ENDS:
                last = _last_on(world, record, (early, place), last, count, now, going)
            return start_after(world, last, now), count
    return -1, 0


@kernel()
def _total_room(world):
    """Sum up `scratch.room`: nodes with some, processors of all, and most of one."""
    room, state = world.scratch.room, world.state
    state.room_nodes = state.room_cpus = state.room_most = 0
    for node in range(world.rules.nodes):
        if room[node] > 0:
            state.room_nodes += 1
            state.room_cpus += room[node]
            state.room_most = max(state.room_most, room[node])


@kernel()
def _may_do(world, record):
    """Tell whether the sums of room do not rule a job out."""
    state, jobs, job = world.state, world.jobs, world.records.job[record]
    cpus, most = jobs.tasks[job] * jobs.cpus_per_task[job], jobs.most_nodes[job]
    enough = state.room_nodes >= jobs.least_nodes[job] and state.room_cpus >= cpus
    return enough and (most == 0 or most * state.room_most >= cpus)


@kernel()
def _take_away(world, record, avail, other):
    """Free what a running job has in `world.later`, and renew the room of its nodes for a record."""
    running, records, later, state = world.running, world.records, world.later, world.state
    room = world.scratch.room
    if world.rules.suspending:
        world.suspension.gone[other] = state.tests
    for k in range(running.begin[other], running.begin[other] + running.parts[other]):
        node = running.node[k]
        if world.rules.suspending:
            leave_to(world, later, world.suspension.later, other, k, state.tests, 0)
        else:
            later.cpus[node] += running.cpus[k]
        later.memory[node] += running.memory[k]
        later.gpus[node] += world.jobs.gpus[other]
        if has(avail, 0, node) and has(records.able, records.kind[record], node):
            before = room[node]
            measure_node(world, later, record, node)
            state.room_cpus += room[node] - before
            state.room_most = max(state.room_most, room[node])
            state.room_nodes += room[node] > 0 and before == 0


@kernel()
def _last_on(world, record, places, last, count, now, going):
    """Return the job that ends last of those taken away that held a node chosen, without those that go.

    They are at the `places` by limits, from one to before the other. Where none held one, it is the `last`.
    """
    running, scratch = world.running, world.scratch
    for i in range(places[1] - 1, places[0] - 1, -1):
        job = running.by_limit[i]
        if going > 0 and goes(world, record, job, now):
            continue
        for k in range(running.begin[job], running.begin[job] + running.parts[job]):
            for c in range(count):
                if scratch.chosen[c] == running.node[k]:
                    return job
    return last


@kernel()
def _following(world, record, place, now, going):
    """Return the end of the next job by limits that is not gone already, -1 without one."""
    running = world.running
    while place < world.state.running:
        other = running.by_limit[place]
        if going == 0 or not is_candidate(world, record, other, now):
            return running.limit_end[other]
        place += 1
    return -1
