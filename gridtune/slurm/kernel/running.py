"""Jobs that start, end, or make room for others, and what limits count of them, compiled.

The rules are stated, in plain Python, in `tests/slurm/reference.py`. Times are seconds.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.slurm.kernel.placing import add_node, has, ones
from gridtune.slurm.kernel.preempting import leave_to
from gridtune.slurm.versions import FREE_COMPONENTS, PLANNED_NODES

#: The first of `AMOUNTS` that are minutes.
MINUTES = 6
#: The place of nodes there.
NODES = 3
#: An instant after all others.
NEVER = 1 << 60

#: Seconds until a job that had to make room may start again: those for which its credential holds, and one.
_BACK = 121


@kernel()
def _insert(order, count, keys, job):
    """Insert a job into an order by keys, then numbers."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        other = order[middle]
        if keys[other] < keys[job] or (keys[other] == keys[job] and other < job):
            low = middle + 1
        else:
            high = middle
    for i in range(count, low, -1):
        order[i] = order[i - 1]
    order[low] = job


@kernel()
def _remove(order, count, job):
    i = 0
    while order[i] != job:
        i += 1
    for k in range(i, count - 1):
        order[k] = order[k + 1]


@kernel()
def _amount(world, record, of, cpus, memory, nodes, seconds):
    """Return what a limit counts of a job that has so much for so long."""
    times, resource = (seconds, of - MINUTES + 1) if of >= MINUTES else (1, of)
    gpus = nodes * world.jobs.gpus[world.records.job[record]]
    if resource == 1:
        return times * cpus
    if resource == 2:
        return times * memory
    if resource < 5:
        return times * (nodes if resource == 3 else gpus)
    weights = world.records.billing
    billing = weights[5 * record] * cpus + weights[5 * record + 1] * memory
    return times * int(billing + weights[5 * record + 2] * nodes + weights[5 * record + 3] * gpus)


@kernel()
def _left(world, job, at):
    """Return how many seconds a job's time limit leaves it at an instant."""
    running = world.running
    return max(0, running.limit[job] - max(0, at - running.start[job]))


@kernel()
def _count(world, job, sign, seconds, first):
    """Add what a job that runs has, for so long, to what its limits count of the amounts from `first` on."""
    limits, running = world.limits, world.running
    record = running.record[job]
    if limits.begin[record] == limits.begin[record + 1]:
        return
    cpus, memory = 0, 0
    for i in range(running.begin[job], running.begin[job] + running.parts[job]):
        cpus += running.cpus[i]
        memory += running.memory[i]
    for entry in range(limits.begin[record], limits.begin[record + 1]):
        of, counter = limits.of[entry], limits.counter[entry]
        if of >= first and limits.row[counter] >= 0:
            row = limits.row[counter] * world.rules.nodes
            limits.known[counter] = 1
            for i in range(running.begin[job], running.begin[job] + running.parts[job]):
                node = row + running.node[i]
                limits.used[counter] += sign * (limits.on[node] == (sign < 0))
                limits.on[node] += sign
        elif 0 >= of >= first:
            limits.used[counter] += sign * limits.each[entry]
        elif of >= first:
            amount = _amount(world, record, of, cpus, memory, running.parts[job], seconds)
            limits.used[counter] += sign * amount


@kernel()
def pass_minutes(world, job, now):
    """Take the time since the last tick from the minutes that limits count of a job that runs."""
    last = world.state.last_tick
    _count(world, job, -1, _left(world, job, last) - _left(world, job, now), MINUTES)


@kernel()
def too_many(world, record, of):
    """Tell whether a job would be one too many or, if `of` is -1, whether licences lack; nodes come later."""
    limits = world.limits
    for entry in range(limits.begin[record], limits.begin[record + 1]):
        used = limits.used[limits.counter[entry]] + limits.each[entry]
        if limits.of[entry] == of and used > limits.most[entry]:
            return True
    return False


@kernel()
def too_much(world, record, count, planned, limit):
    """Tell whether a job would take too much by its shares of nodes or, without any, by what it asks for.

    Nodes that others under a limit have count once: those of its shares, of its list or, by later releases,
    the first ones chosen that are `planned`.
    """
    limits, jobs, scratch, job = world.limits, world.jobs, world.scratch, world.records.job[record]
    if limits.begin[record] == limits.begin[record + 1]:
        return False
    cpus, per_node = world.sizes[job], max(jobs.memory[job], 0)
    nodes = planned if planned > 0 else jobs.least_nodes[job]
    charged = cpus
    if count > 0:
        cpus, charged, nodes = 0, 0, count
    memory = per_node * nodes
    for i in range(count):
        cpus += scratch.cpus[i]
        charged += scratch.charged[i]
        if jobs.memory[job] < 0:
            memory += world.nodes.memory[scratch.chosen[i]]
    if jobs.memory[job] == 0:
        memory = charged * world.records.per_cpu[record]
    for entry in range(limits.begin[record], limits.begin[record + 1]):
        of, counter = limits.of[entry], limits.counter[entry]
        if of > 0:
            used = limits.used[counter]
            amount = _amount(world, record, of, cpus, memory, nodes, limit)
            if limits.row[counter] >= 0:
                amount -= _nodes_on(world, job, limits.row[counter] * world.rules.nodes, count, planned)
            if used + amount > limits.most[entry]:
                return True
    return False


@kernel()
def _nodes_on(world, job, row, count, planned):
    """Return how many nodes of a job others under a limit have, by the row of that limit."""
    on, listed, known = world.limits.on, world.jobs.listed[job], 0
    if count == 0 and listed >= 0:
        for node in range(world.rules.nodes):
            known += has(world.jobs.named, listed, node) and on[row + node] > 0
        return known
    if count == 0 and world.rules.release >= PLANNED_NODES:
        count = planned
    for i in range(count):
        known += on[row + world.scratch.chosen[i]] > 0
    return known


@kernel()
def may_all_start(world, first, now):
    """Tell whether the job of a component, the first seen of it, may start: all are planned for now.

    Together they must be within the limits, by what they ask for.
    """
    plans, state = world.plans, world.state
    job, ready = plans.whole[plans.seen[first]], 0
    for place in range(first):
        if plans.whole[plans.seen[place]] == job:
            return False
    for place in range(first, state.components):
        one = plans.seen[place]
        ready += plans.whole[one] == job and world.waiting[one] and plans.earliest[one] <= now
    if ready < plans.parts[job]:
        return False
    counted, fits = first, True
    while fits and counted < state.components:
        if plans.whole[plans.seen[counted]] == job:
            nodes, record = _planned(world, counted), plans.record[plans.seen[counted]]
            fits = not too_many(world, record, 0)
            fits = fits and not too_much(world, record, 0, nodes, world.records.full[record])
            if not fits:
                break
            _count_asked(world, record, nodes, 1)
        counted += 1
    for place in range(first, counted):
        if plans.whole[plans.seen[place]] == job:
            _count_asked(world, plans.record[plans.seen[place]], _planned(world, place), -1)
    return fits


@kernel()
def _planned(world, place):
    """Write the numbers of the nodes planned last for a component; return how many they are."""
    plans, count = world.plans, 0
    for node in range(world.rules.nodes):
        if has(plans.places, plans.seen[place] * world.rules.words, node):
            world.scratch.chosen[count] = node
            count += 1
    return count


@kernel()
def _count_asked(world, record, nodes, sign):
    """Add what a job asks for on so many nodes to what limits count, or take it away; nodes do not count."""
    limits, job, per_cpu = world.limits, world.records.job[record], world.records.per_cpu[record]
    cpus, memory = world.sizes[job], max(world.jobs.memory[job], 0) * nodes
    if world.jobs.memory[job] == 0:
        memory = cpus * per_cpu
    for entry in range(limits.begin[record], limits.begin[record + 1]):
        of, counter = limits.of[entry], limits.counter[entry]
        if of == 0:
            limits.used[counter] += sign * limits.each[entry]
        elif of > 0 and limits.row[counter] < 0:
            amount = _amount(world, record, of, cpus, memory, nodes, world.records.full[record])
            limits.used[counter] += sign * amount


@kernel()
def start_job(world, record, count, began, now, limit):
    """Put a job that began at an instant, mostly now, on its shares of the nodes in `scratch.chosen`."""
    jobs, running, free, scratch = world.jobs, world.running, world.free, world.scratch
    state = world.state
    job = world.records.job[record]
    begin = running.begin[job]
    for i in range(count):
        node, cpus = scratch.chosen[i], scratch.cpus[i]
        memory = jobs.memory[job]
        if memory == 0:
            memory = scratch.charged[i] * world.records.per_cpu[record]
        if jobs.memory[job] < 0:
            memory = world.nodes.memory[node]
        running.node[begin + i], running.cpus[begin + i], running.memory[begin + i] = node, cpus, memory
        free.cpus[node] -= cpus
        free.memory[node] -= memory
        free.gpus[node] -= jobs.gpus[job]
    running.record[job], running.start[job], running.parts[job] = record, began, count
    running.limit[job] = limit
    world.suspension.seconds[job] = 0
    _set_ends(world, job, now)
    _count(world, job, 1, _left(world, job, state.last_tick), -1)
    _insert(running.by_limit, state.running, running.limit_end, job)
    _insert(running.by_end, state.running, running.real_end, job)
    state.running += 1
    world.waiting[job] = 0
    state.started += 1
    if world.rules.suspending:
        _take_cores(world, job, count, now)


@kernel(apart=True)
def _take_cores(world, job, count, now):
    """Give a job that has started the processors in `suspension.taken`."""
    running, shared, free, words = world.running, world.suspension, world.free, world.rules.core_words
    for i in range(count):
        part = running.begin[job] + i
        node = running.node[part]
        shared.held[node] += running.cpus[part]
        free.cpus[node] = 0
        for w in range(words):
            shared.part[part * words + w] = shared.taken[i * words + w]
            shared.free[node * words + w] &= ~shared.taken[i * words + w]
            free.cpus[node] += ones(shared.free[node * words + w])
    _follow(world, now)


@kernel()
def _set_ends(world, job, now):
    """Set the ends of a job that starts or is resumed; earlier suspensions do not count."""
    running, rules = world.running, world.rules
    began = running.start[job] + world.suspension.seconds[job]
    limit_end = began + running.limit[job]
    running.limit_end[job] = limit_end
    running.real_end[job] = began + world.jobs.run[job]
    overdue = max(limit_end + rules.overtime, now)
    # Time limits are looked at every 30 s.
    killed = overdue + (rules.timeout_phase - overdue) % 30
    if running.real_end[job] > overdue:
        running.real_end[job] = min(running.real_end[job], killed)


@kernel(apart=True)
def _follow(world, now):
    """Suspend and resume jobs: one stands still while one of a higher tier runs on some of its processors."""
    running, shared, state, words = world.running, world.suspension, world.state, world.rules.core_words
    shares = state.paused
    for node in range(world.rules.nodes):
        shares += shared.held[node] - (world.nodes.cpus[node] - world.free.cpus[node])
    if shares == 0:
        return
    for w in range(world.rules.nodes * words):
        shared.active[w] = 0
    before = NEVER
    while True:
        tier = -NEVER
        for i in range(state.running):
            own = world.records.tier[running.record[running.by_limit[i]]]
            if tier < own < before:
                tier = own
        if tier == -NEVER:
            break
        for i in range(state.running):
            job = running.by_limit[i]
            if world.records.tier[running.record[job]] == tier:
                shared.below[job] = 0
                for k in range(running.begin[job], running.begin[job] + running.parts[job]):
                    for w in range(words):
                        both = shared.part[k * words + w] & shared.active[running.node[k] * words + w]
                        shared.below[job] |= int(both != 0)
        for i in range(state.running):
            job = running.by_limit[i]
            if world.records.tier[running.record[job]] == tier and not shared.below[job]:
                for k in range(running.begin[job], running.begin[job] + running.parts[job]):
                    for w in range(words):
                        shared.active[running.node[k] * words + w] |= shared.part[k * words + w]
        before = tier
    place = 0
    while place < state.running:
        job = running.by_limit[place]
        place += 1
        if shared.below[job] != (shared.since[job] < NEVER):
            _turn(world, job, now)
            place = 0


@kernel()
def _turn(world, job, now):
    """Suspend a job that runs, or resume one that is suspended."""
    running, shared, state = world.running, world.suspension, world.state
    _remove(running.by_end, state.running, job)
    if shared.below[job]:
        shared.since[job] = now
        running.real_end[job] = NEVER
        state.paused += 1
    else:
        since = shared.since[job]
        if now > since:
            place = 3 * state.pauses
            shared.over[place], shared.over[place + 1], shared.over[place + 2] = job, since, now
            state.pauses += 1
        shared.seconds[job] += now - since
        shared.since[job] = NEVER
        state.paused -= 1
        _remove(running.by_limit, state.running, job)
        _set_ends(world, job, now)
        _insert(running.by_limit, state.running - 1, running.limit_end, job)
    _insert(running.by_end, state.running - 1, running.real_end, job)


@kernel()
def follow_use(world, job, now):
    """Add what a job has used since priorities were last computed to its user."""
    state, running = world.state, world.running
    run = now - max(running.start[job], state.last_tick)
    if run <= 0:
        return
    cpus, memory, parts, weights = 0, 0, running.parts[job], 5 * running.record[job]
    for i in range(running.begin[job], running.begin[job] + parts):
        cpus += running.cpus[i]
        memory += running.memory[i]
    if world.plans.whole[job] >= 0:
        # Its bill is made before it starts, by its last test, maybe in another partition.
        cpus = 0 if world.rules.release >= FREE_COMPONENTS else world.sizes[job]
    billing, gpus = world.records.billing, world.jobs.gpus[job] * parts
    billed = billing[weights] * cpus + billing[weights + 1] * memory + billing[weights + 2] * parts
    billed = (billed + billing[weights + 3] * gpus) * billing[weights + 4]
    world.usage[world.jobs.assoc[job]] += billed * run * world.rules.rate**run


@kernel()
def end_job(world, job, now):
    """Give back what a job holds; the nodes of one that was killed are not usable until the next second."""
    running, free, state = world.running, world.free, world.state
    follow_use(world, job, now)
    _remove(running.by_limit, state.running, job)
    _remove(running.by_end, state.running, job)
    state.running -= 1
    _count(world, job, -1, _left(world, job, state.last_tick), -1)
    killed = now - running.start[job] - world.suspension.seconds[job] < world.jobs.run[job]
    for i in range(running.begin[job], running.begin[job] + running.parts[job]):
        node = running.node[i]
        if world.rules.suspending:
            leave_to(world, free, world.suspension.free, job, i, 0, 0)
            world.suspension.held[node] -= running.cpus[i]
        else:
            free.cpus[node] += running.cpus[i]
        free.memory[node] += running.memory[i]
        free.gpus[node] += world.jobs.gpus[job]
        if killed:
            add_node(world.completing, node)
    if world.rules.suspending:
        if world.suspension.since[job] < NEVER:
            world.suspension.since[job] = NEVER
            state.paused -= 1
        _follow(world, now)
    if killed:
        state.direct = min(state.direct, now + 1)


@kernel()
def put_back(world, job, now):
    """Put a job that had to make room back for a while; return whether it may start again.

    So does a component that started where others of its job had no place.
    """
    running, state, preemption = world.running, world.state, world.preemption
    requeued = world.plans.whole[job] >= 0
    if not requeued:
        group = world.records.group[running.record[job]]
        requeued = preemption.mode[group] == 2 and world.jobs.requeue[job] != 0
    preemption.warned[job] = 0
    if requeued:
        running.start[job] = NEVER
        preemption.back[job] = now + _BACK
        state.back = min(state.back, now + _BACK)
        state.requeued += 1
    return requeued


@kernel()
def preempt(world, job, now):
    """Make a job go, now or once its grace has passed; `preemption.gone` has those that do not come back."""
    running, state, preemption = world.running, world.state, world.preemption
    grace = preemption.grace[world.records.group[running.record[job]]]
    if grace > 0 and not preemption.warned[job]:
        preemption.warned[job] = 1
        _remove(running.by_limit, state.running, job)
        running.limit_end[job] = min(running.limit_end[job], now + grace)
        _insert(running.by_limit, state.running - 1, running.limit_end, job)
        # `OverTimeLimit` lets a job run past its limit: from now on it does not.
        overdue = max(running.limit_end[job], now + 1)
        _remove(running.by_end, state.running, job)
        killed = overdue + (world.rules.timeout_phase - overdue) % 30
        running.real_end[job] = min(running.real_end[job], killed)
        _insert(running.by_end, state.running - 1, running.real_end, job)
        return
    if grace > 0 and now < running.limit_end[job]:
        return
    end_job(world, job, now)
    running.real_end[job] = now
    if not put_back(world, job, now):
        preemption.gone[state.gone] = job
        state.gone += 1
