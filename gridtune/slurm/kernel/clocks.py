"""The clocks of Slurm's controller, compiled: jobs come and end, priorities and both passes have their turns.

The rules are stated, in plain Python, in `tests/slurm/reference.py`.
"""

from __future__ import annotations

from gridtune.core.compiled import bare, kernel
from gridtune.slurm.kernel.ordering import sort_waiting
from gridtune.slurm.kernel.passes import backfill_pass, main_pass
from gridtune.slurm.kernel.placing import add_node, room_of, share
from gridtune.slurm.kernel.preempting import take_cores
from gridtune.slurm.kernel.running import NEVER, end_job, follow_use, pass_minutes, put_back, start_job
from gridtune.slurm.versions import REQUEUED_PRIORITY

#: Turns of a replay.
ADVANCE, SETTLE, PRIORITISE = range(3)
#: The latest instant that the clock is set to.
_LATEST = 1 << 59
#: A replay ends when jobs have made room in so many seconds and nothing else has happened.
_CIRCLES = 200


@kernel()
def _settle(world, now):
    """Decay all usage and add that of the jobs that run, as the decay thread does first."""
    state = world.state
    if state.last_tick > -NEVER:
        decay = world.rules.rate ** (now - state.last_tick)
        for assoc in range(world.rules.assocs):
            world.usage[assoc] *= decay
    for i in range(state.running):
        follow_use(world, world.running.by_limit[i], now)
        pass_minutes(world, world.running.by_limit[i], now)
    state.last_tick = now


@kernel()
def _priority(world, record, now):
    """Return the priority of a job as it is stored, at least 1."""
    rules, job = world.rules, world.records.job[record]
    if rules.multifactor == 0:
        return (1 << 32) - job
    age = 0.0
    if rules.max_age > 0:
        age = min(1.0, max(0, now - world.eligible[job]) / rules.max_age)
    share = rules.fair_share * world.factor[world.jobs.assoc[job]]
    nodes, cpus = world.jobs.nodes[job] / rules.nodes, world.sizes[job] / rules.cpus
    size = (1 - nodes + 1 - cpus) / 2 if rules.favor_small else (nodes + cpus) / 2
    size = rules.size * min(1.0, max(0.0, size))
    return max(1, int(rules.age * age + share + size + world.records.fixed[record]))


@kernel()
def _go_to(world, now):
    """Make the pool of the nodes in service now."""
    pool, outages, words = world.pool, world.outages, world.rules.words
    for node in range(world.rules.nodes):
        add_node(pool, node)
    for i in range(world.rules.outages):
        if not outages.planned[i] and outages.start[i] <= now < outages.end[i]:
            for w in range(words):
                pool[w] &= ~outages.nodes[i * words + w]
    world.state.edge = now


@kernel()
def _next_edge(world):
    """Return the next instant at which nodes go out of service or come back."""
    edge, outages = NEVER, world.outages
    for i in range(world.rules.outages):
        for instant in (outages.start[i], outages.end[i]):
            if instant > world.state.edge:
                edge = min(edge, instant)
    return edge


@kernel()
def _before(world, record, other):
    """Tell whether a record stands before another in the queue."""
    records = world.records
    if records.tier[record] != records.tier[other]:
        return records.tier[record] > records.tier[other]
    if world.priority[record] != world.priority[other]:
        return world.priority[record] > world.priority[other]
    return record < other


@kernel()
def _sort_in(world, position):
    """Put the record at a position of the queue where it belongs among those before it.

    An order in place of the priority does so before each pass.
    """
    if world.rules.scored:
        return
    order = world.order
    record = order[position]
    while position > 0 and _before(world, record, order[position - 1]):
        order[position] = order[position - 1]
        position -= 1
    order[position] = record


@kernel()
def _prioritise(world, now):
    """Compute the priorities of all that waits, and sort it."""
    state = world.state
    for position in range(state.waiting):
        world.priority[world.order[position]] = _priority(world, world.order[position], now)
    for position in range(state.waiting):
        _sort_in(world, position)
    if state.back < NEVER:
        for job in range(world.rules.jobs):
            if world.preemption.back[job] < NEVER:
                world.eligible[job] = world.preemption.back[job]
                for record in range(world.jobs.records[job], world.jobs.records[job + 1]):
                    world.priority[record] = _priority(world, record, now)
    state.touched = 1


@kernel()
def _compact(world):
    """Take the jobs that have started out of the queue."""
    state, kept = world.state, 0
    for position in range(state.waiting):
        record = world.order[position]
        if world.waiting[world.records.job[record]]:
            world.order[kept] = record
            kept += 1
    state.waiting = kept


@kernel()
def _goes_in_circles(world, requeued, edge, now):
    """Tell whether jobs have only made room in many seconds, and for twice as long as any job left would run.

    They do it for a job that a limit keeps from starting in the room that it then has.
    """
    state, running, jobs = world.state, world.running, world.jobs
    ended = state.started - state.requeued - state.running
    if ended > state.ended or edge < NEVER or now <= jobs.submit[world.rules.jobs - 1]:
        state.ended, state.circles, state.since = ended, 0, now
        return False
    state.circles += state.requeued > requeued
    if state.circles < _CIRCLES or state.requeued == requeued:
        return False
    for job in range(world.rules.jobs):
        left = running.start[job] == NEVER or running.real_end[job] > now
        lasts = min(jobs.run[job], world.records.full[jobs.records[job]])
        if left and now - max(state.since, jobs.begin[job]) < 2 * lasts:
            return False
    for i in range(state.running):
        running.start[running.by_limit[i]] = NEVER
    return True


@kernel()
def _follow_pass(world, now):
    """Take the jobs that have started out of the queue; those that had to go for good have failed."""
    state = world.state
    _compact(world)
    for i in range(state.gone):
        _settle_dependencies(world, world.preemption.gone[i], now)
    state.gone = 0


@kernel()
def resume(world, record, nodes, began, now):
    """Put a job that has begun on its nodes; return whether they can hold it.

    `scratch.most` has the most processors that it may have on each.
    """
    world = bare(world)
    scratch, free, jobs, job = world.scratch, world.free, world.jobs, world.records.job[record]
    for i in range(len(nodes)):
        scratch.chosen[i] = nodes[i]
        if room_of(world, free, record, nodes[i]) == 0:
            return False
    if len(nodes) > world.running.begin[job + 1] - world.running.begin[job]:
        return False
    share(world, free, record, len(nodes))
    if world.rules.suspending:
        take_cores(world, world.suspension.free, len(nodes))
    start_job(world, record, len(nodes), began, now, world.records.full[record])
    given = 0
    for i in range(len(nodes)):
        given += scratch.cpus[i]
        if free.memory[nodes[i]] < 0:
            return False
    return given >= jobs.tasks[job] * jobs.cpus_per_task[job]


@kernel()
def _settle_dependencies(world, job, now):
    """Let jobs wait for nodes that have waited for the end of one."""
    dependencies = world.dependencies
    running = world.running
    began = running.start[job] + world.suspension.seconds[job]
    failed = world.jobs.failed[job] or running.real_end[job] - began < world.jobs.run[job]
    for i in range(dependencies.begin[job], dependencies.begin[job + 1]):
        condition = dependencies.of[i]
        kind, child = dependencies.kind[condition], dependencies.job[condition]
        if (kind == 1 and failed) or (kind == 2 and not failed):
            continue  # it is never met
        dependencies.left[condition] -= 1
        if dependencies.left[condition] == 0 and dependencies.unmet[child] > 0:
            dependencies.unmet[child] -= 1
            if dependencies.unmet[child] == 0 and child < world.state.arrived:
                world.eligible[child] = now
                _submit(world, child, now)


@kernel()
def _submit(world, job, now):
    if world.running.start[job] != NEVER or world.dependencies.unmet[job] > 0:
        return
    later = world.jobs.begin[job]
    if later > now:
        world.eligible[job] = later
    for record in range(world.jobs.records[job], world.jobs.records[job + 1]):
        world.priority[record] = _priority(world, record, now)
    if later > now:
        world.preemption.back[job] = later
        world.state.back = min(world.state.back, later)
        return
    _let_wait(world, job)


@kernel()
def _let_wait(world, job):
    """Put a job into the queue, with the priority it has."""
    state = world.state
    world.waiting[job] = 1
    for record in range(world.jobs.records[job], world.jobs.records[job + 1]):
        world.order[state.waiting] = record
        state.waiting += 1
        _sort_in(world, state.waiting - 1)


@kernel()
def _bring_back(world, now):
    """Queue jobs that had to make room or have a time to begin; their age counts from now."""
    state, back = world.state, world.preemption.back
    state.back = NEVER
    for job in range(world.rules.jobs):
        if back[job] <= now:
            asks = back[job] > world.jobs.begin[job]
            back[job], world.eligible[job] = NEVER, now
            if world.rules.release >= REQUEUED_PRIORITY:
                for record in range(world.jobs.records[job], world.jobs.records[job + 1]):
                    world.priority[record] = _priority(world, record, now)
            _let_wait(world, job)
            if asks:
                _ask(world, now)
        elif back[job] < state.back:
            state.back = back[job]


@kernel()
def _ask(world, now):
    """Ask for a main pass: the scheduler's loop has its next turn for one some seconds after the last."""
    state, rules = world.state, world.rules
    grid = now - (now - rules.full_phase) % rules.sched_interval
    state.due = min(state.due, max(now, max(state.last_pass, grid) + rules.batch_sched_delay))
    state.touched = 1


@kernel()
def _end(world, now):
    """End the jobs that are due."""
    state, running = world.state, world.running
    while state.running > 0 and running.real_end[running.by_end[0]] <= now:
        job = running.by_end[0]
        warned = world.preemption.warned[job] and now - running.start[job] < world.jobs.run[job]
        end_job(world, job, now)
        # The loop has had its turn in this second.
        _ask(world, now + 1)
        if not (warned and put_back(world, job, now)):
            _settle_dependencies(world, job, now)


@kernel(nogil=True)
def take_turn(world, ordering, turn, instant):
    """Advance to an instant, before its events, or do at it what another turn says.

    Without an ordering Slurm's priority orders the queue: kernels are compiled for either. All turns are one
    kernel: taking apart so many arrays takes 3 s to compile.
    """
    if turn == SETTLE:
        _settle(bare(world), instant)
    elif turn == PRIORITISE:
        _prioritise(bare(world), instant)
    else:
        _advance(bare(world), bare(ordering), instant)


@kernel()
def _advance(world, ordering, until):
    state, rules, jobs, running = world.state, world.rules, world.jobs, world.running
    while state.pauses <= rules.jobs:
        now = min(state.due, state.direct, state.back)
        if state.arrived < rules.jobs:
            now = min(now, jobs.submit[state.arrived])
        if state.running > 0:
            now = min(now, running.real_end[running.by_end[0]])
        if state.waiting > 0 or state.due < NEVER:
            # A full pass takes the place of one that was asked for, whoever waits.
            last = state.last_pass
            after = max(last + 1, state.clock)
            now = min(now, after + (rules.full_phase - after) % rules.sched_interval)
        if rules.backfill and state.touched and (state.waiting > 0 or state.running > 0):
            now = min(now, max(state.next_backfill, state.clock))
        edge = _next_edge(world)
        now = max(min(now, edge), state.clock)
        if now >= until:
            state.clock = max(state.clock, min(until, _LATEST))
            return
        state.clock = now
        if edge <= now:
            _go_to(world, now)
            state.touched = 1
        for w in range(rules.words):
            world.completing[w] = 0
        requeued = state.requeued
        _end(world, now)
        if state.back <= now:
            _bring_back(world, now)
        while state.arrived < rules.jobs and jobs.submit[state.arrived] <= now:
            _submit(world, state.arrived, now)
            state.arrived += 1
            _ask(world, now)
        started = state.started
        full = (now - rules.full_phase) % rules.sched_interval == 0
        if full or now >= min(state.due, state.direct):
            if full or now >= state.due:
                state.due, state.last_pass = NEVER, now
            if now >= state.direct:
                state.direct, state.touched = NEVER, 1
            if ordering is not None:
                sort_waiting(ordering, state.waiting, now)
            main_pass(world, now, NEVER if full else rules.default_queue_depth)
            _follow_pass(world, now)
        if state.started > started:
            state.touched = 1
        elif full and min(edge, state.back, state.direct) == NEVER and not (state.touched and rules.backfill):
            # Nothing will ever change again: limits hold what is left.
            state.stuck = state.running == 0 and state.arrived == rules.jobs
            if state.stuck:
                return
        busy = state.waiting > 0 or state.running > 0
        if rules.backfill and state.touched and busy and now >= state.next_backfill:
            started = state.started
            if ordering is not None:
                sort_waiting(ordering, state.waiting, now)
            backfill_pass(world, now)
            _follow_pass(world, now)
            state.touched = int(state.started > started)
            state.next_backfill = now + rules.bf_interval
        state.stuck = _goes_in_circles(world, requeued, edge, now)
        if state.stuck:
            return
