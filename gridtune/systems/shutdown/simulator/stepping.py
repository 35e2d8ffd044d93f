"""One minute of a cluster, compiled: reservation, scheduling pass, allocation, switching, reward, events."""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.shutdown.simulator.scheduling import (
    dequeue,
    enqueue,
    refresh_candidates,
    refresh_promise,
    select_jobs,
)
from gridtune.systems.shutdown.simulator.state import (
    ARRIVED,
    BOOKED,
    BUSY,
    CANDIDATES,
    COMPUTERS,
    COMPUTING,
    CORE_MINUTES,
    DAY,
    DONE,
    EVERY_LATE_JOB,
    FREE,
    HEAD,
    LAST_END,
    MEMORY,
    NEVER,
    NEXT_END,
    NEXT_SWITCH,
    NOW,
    ON,
    PROMISE,
    READY,
    REPORTED_IDLE,
    RESERVED,
    RUNNING,
    SELECTED,
    SLEEPING,
    SWITCHED_OFF,
    SWITCHED_ON,
    SWITCHING_OFF,
    SWITCHING_ON,
    TAU,
    TOTALS,
    UNTIL_DONE,
    UNUSED,
    WAITING,
)

__all__ = [
    "act",
    "add_minutes",
    "allocate",
    "apply",
    "events",
    "is_over",
    "pass_minute",
    "quiet_until",
    "reset_cluster",
    "start_ready",
    "step_cluster",
    "switch_off_first",
]


@kernel()
def _set_state(cluster, node, state):
    before = cluster.state[node]
    cluster.in_state[before] -= 1
    cluster.in_state[state] += 1
    if cluster.free[node] == cluster.cores:
        cluster.vacant[before] -= 1
        cluster.vacant[state] += 1
    cluster.state[node] = state


@kernel()
def _set_load(cluster, node, load):
    """Set the floating-point load of the authors' monitor, and count the nodes that it takes for busy."""
    if cluster.load[node] > 0:
        cluster.memory[BOOKED] -= 1
    cluster.load[node] = load
    if load > 0:
        cluster.memory[BOOKED] += 1


@kernel()
def _begin_switch(cluster, node, state, minutes):
    memory = cluster.memory
    _set_state(cluster, node, state)
    _set_load(cluster, node, 0.0)
    cluster.until[node] = memory[NOW] + minutes
    memory[NEXT_SWITCH] = min(memory[NEXT_SWITCH], cluster.until[node])


@kernel()
def switch_off_first(cluster, count):
    """Begin to switch off the first `count` nodes that are on and not allocated."""
    node = 0
    while count > 0:
        if cluster.state[node] == ON and cluster.free[node] == cluster.cores:
            _begin_switch(cluster, node, SWITCHING_OFF, cluster.off_minutes)
            cluster.switched_off[node] += 1
            cluster.totals[SWITCHED_OFF] += 1
            count -= 1
        node += 1


@kernel()
def allocate(cluster, jobs, job):
    """Allocate free cores to a waiting job: of nodes that are on first, then of those soonest usable."""
    memory, free = cluster.memory, cluster.free
    dequeue(cluster, jobs, job)
    needed = jobs.cores[job]
    memory[FREE] -= needed
    last = -1
    for state in range(4):
        if needed == 0:
            break
        if cluster.in_state[state] == 0:
            continue
        for node in range(cluster.nodes):
            if cluster.state[node] != state or free[node] == 0:
                continue
            taken = min(needed, free[node])
            if free[node] == cluster.cores:
                cluster.vacant[state] -= 1
            free[node] -= taken
            needed -= taken
            piece = memory[UNUSED]
            memory[UNUSED] = cluster.piece_next[piece]
            cluster.piece_node[piece] = node
            cluster.piece_cores[piece] = taken
            cluster.piece_next[piece] = -1
            if last < 0:
                cluster.piece[job] = piece
            else:
                cluster.piece_next[last] = piece
            last = piece
            if needed == 0:
                break
    cluster.ready[memory[READY]] = job
    memory[READY] += 1


@kernel()
def start_ready(cluster, jobs):
    """Start the jobs whose nodes are all on; switch on the sleeping nodes of the others."""
    memory, ready = cluster.memory, cluster.ready
    left = 0
    for place in range(memory[READY]):
        job = ready[place]
        if _all_on(cluster, job):
            _start(cluster, jobs, job)
            continue
        _wake(cluster, job)
        ready[left] = job
        left += 1
    memory[READY] = left


@kernel()
def _all_on(cluster, job):
    piece = cluster.piece[job]
    while piece >= 0:
        if cluster.state[cluster.piece_node[piece]] != ON:
            return False
        piece = cluster.piece_next[piece]
    return True


@kernel()
def _wake(cluster, job):
    piece = cluster.piece[job]
    while piece >= 0:
        node = cluster.piece_node[piece]
        if cluster.state[node] == SLEEPING:
            _begin_switch(cluster, node, SWITCHING_ON, cluster.on_minutes)
            cluster.switched_on[node] += 1
            cluster.totals[SWITCHED_ON] += 1
        piece = cluster.piece_next[piece]


@kernel()
def _start(cluster, jobs, job):
    memory, walltime = cluster.memory, jobs.walltime
    now = memory[NOW]
    cluster.start[job] = now
    piece = cluster.piece[job]
    while piece >= 0:
        node, taken = cluster.piece_node[piece], cluster.piece_cores[piece]
        if cluster.busy[node] == 0:
            memory[COMPUTERS] += 1
        cluster.busy[node] += taken
        _set_load(cluster, node, cluster.load[node] + taken / cluster.cores)
        piece = cluster.piece_next[piece]
    memory[BUSY] += jobs.cores[job]
    place = memory[RUNNING]
    cluster.running[place] = job
    memory[RUNNING] = place + 1
    requested_end, by_request = now + walltime[job], cluster.by_request
    while (
        place > 0 and cluster.start[by_request[place - 1]] + walltime[by_request[place - 1]] > requested_end
    ):
        by_request[place] = by_request[place - 1]
        place -= 1
    by_request[place] = job
    memory[NEXT_END] = min(memory[NEXT_END], now + min(jobs.run[job], walltime[job]))


@kernel()
def events(cluster, jobs):
    """Process the events of the current minute: completions, submissions, ends of switches."""
    memory, now = cluster.memory, cluster.memory[NOW]
    if memory[NEXT_END] == now:
        _complete(cluster, jobs)
    while memory[ARRIVED] < jobs.number and jobs.submit[memory[ARRIVED]] <= now:
        job = memory[ARRIVED]
        memory[ARRIVED] += 1
        if jobs.cores[job] <= cluster.nodes * cluster.cores:
            enqueue(cluster, jobs, job)
            cluster.users[jobs.user[job]] += 1
        else:
            memory[DONE] += 1
    if memory[NEXT_SWITCH] == now:
        _end_switches(cluster)


@kernel()
def _complete(cluster, jobs):
    memory, running = cluster.memory, cluster.running
    now, left, following = memory[NOW], 0, NEVER
    for place in range(memory[RUNNING]):
        job = running[place]
        end = cluster.start[job] + min(jobs.run[job], jobs.walltime[job])
        if end == now:
            _release(cluster, jobs, job)
        else:
            running[left] = job
            left += 1
            following = min(following, end)
    remaining = 0
    for place in range(memory[RUNNING]):
        job = cluster.by_request[place]
        if cluster.start[job] + min(jobs.run[job], jobs.walltime[job]) != now:
            cluster.by_request[remaining] = job
            remaining += 1
    memory[RUNNING] = left
    memory[NEXT_END] = following
    memory[LAST_END] = now


@kernel()
def _release(cluster, jobs, job):
    memory = cluster.memory
    piece = cluster.piece[job]
    while piece >= 0:
        node, taken = cluster.piece_node[piece], cluster.piece_cores[piece]
        cluster.busy[node] -= taken
        if cluster.busy[node] == 0:
            memory[COMPUTERS] -= 1
        cluster.free[node] += taken
        if cluster.free[node] == cluster.cores:
            cluster.vacant[cluster.state[node]] += 1
        _set_load(cluster, node, cluster.load[node] - taken / cluster.cores)
        following = cluster.piece_next[piece]
        cluster.piece_next[piece] = memory[UNUSED]
        memory[UNUSED] = piece
        piece = following
    memory[BUSY] -= jobs.cores[job]
    memory[FREE] += jobs.cores[job]
    memory[DONE] += 1
    cluster.users[jobs.user[job]] -= 1
    cluster.last_run[jobs.user[job]] = memory[NOW] - cluster.start[job]


@kernel()
def _end_switches(cluster):
    memory, following = cluster.memory, NEVER
    for node in range(cluster.nodes):
        if cluster.until[node] == memory[NOW]:
            cluster.until[node] = NEVER
            _set_state(cluster, node, ON if cluster.state[node] == SWITCHING_ON else SLEEPING)
        following = min(following, cluster.until[node])
    memory[NEXT_SWITCH] = following


@kernel()
def reset_cluster(cluster, jobs, day):
    """Begin a day: every node asleep, no jobs."""
    memory = cluster.memory
    for place in range(MEMORY):
        memory[place] = 0
    for place in range(TOTALS):
        cluster.totals[place] = 0
    for state in range(4):
        cluster.in_state[state] = cluster.vacant[state] = cluster.nodes if state == SLEEPING else 0
    for node in range(cluster.nodes):
        cluster.state[node] = SLEEPING
        cluster.until[node] = NEVER
        cluster.free[node] = cluster.cores
        cluster.busy[node] = cluster.idle_minutes[node] = 0
        cluster.switched_on[node] = cluster.switched_off[node] = 0
        cluster.load[node] = 0.0
    pieces = cluster.nodes * cluster.cores
    for piece in range(pieces):
        cluster.piece_next[piece] = piece + 1
    for job in range(jobs.number):
        cluster.waits[job] = 0
        cluster.start[job] = cluster.piece[job] = -1
        cluster.users[jobs.user[job]] = 0
        cluster.last_run[jobs.user[job]] = -1
    cluster.score[0] = 0.0
    memory[DAY] = day
    memory[PROMISE] = -1
    memory[FREE] = pieces
    memory[NEXT_END] = memory[NEXT_SWITCH] = NEVER


@kernel()
def step_cluster(cluster, jobs, horizon, action):
    """Reserve `action` nodes for the next minute; return the reward."""
    reward = act(cluster, jobs, action)
    pass_minute(cluster, jobs, horizon)
    return reward


@kernel()
def act(cluster, jobs, action):
    """Take the decisions of the minute: reserve, schedule, start; return the reward."""
    apply(cluster, jobs, action)
    reward = _reward(cluster, jobs)
    cluster.score[0] += reward
    return reward


@kernel()
def apply(cluster, jobs, action):
    """Reserve, schedule and start, without the reward."""
    memory = cluster.memory
    _reserve(cluster, jobs, action)
    if memory[CANDIDATES] > 0:
        select_jobs(cluster, jobs, memory[RESERVED])
        if memory[SELECTED] > 0:
            for place in range(memory[SELECTED]):
                allocate(cluster, jobs, cluster.selected[place])
            start_ready(cluster, jobs)
            refresh_candidates(cluster)


@kernel()
def pass_minute(cluster, jobs, horizon):
    """Advance the clock by a minute and process the events at its end."""
    memory = cluster.memory
    add_minutes(cluster, 1)
    events(cluster, jobs)
    # No job starts after the end of the day.
    if memory[READY] > 0 and memory[NOW] < horizon:
        start_ready(cluster, jobs)
    refresh_promise(cluster, jobs, memory[RESERVED])


@kernel()
def _reserve(cluster, jobs, action):
    memory, vacant = cluster.memory, cluster.vacant
    memory[RESERVED] = action
    if action <= 0:
        return
    reserved = min(action, vacant[ON] + vacant[SWITCHING_ON] + vacant[SLEEPING] + vacant[SWITCHING_OFF])
    if memory[WAITING] > 0 and memory[PROMISE] == 0:
        needed = (jobs.cores[memory[HEAD]] + cluster.cores - 1) // cluster.cores
        reserved = min(reserved, cluster.nodes - needed)
    memory[RESERVED] = reserved
    switch_off_first(cluster, reserved - vacant[SLEEPING] - vacant[SWITCHING_OFF])


@kernel()
def _reward(cluster, jobs):
    """Return minus the minute's waste, as a share of the largest possible, minus the late requests.

    Summed node by node in the authors' order: the last bits depend on it.
    """
    share, wasted = cluster.share, 0.0
    if cluster.in_state[SLEEPING] + cluster.memory[COMPUTERS] < cluster.nodes:
        for node in range(cluster.nodes):
            if cluster.busy[node] == 0:
                wasted += share[cluster.state[node]]
    return -(wasted / cluster.nodes + _lateness(cluster, jobs))


@kernel()
def _lateness(cluster, jobs):
    memory, tau, late = cluster.memory, cluster.share[TAU], 0.0
    if memory[CANDIDATES] == 0:
        return late
    total = cluster.nodes * cluster.cores
    if cluster.flags & EVERY_LATE_JOB:
        requests = 0
        for place in range(memory[WAITING]):
            job = cluster.queue[place]
            if (memory[NOW] - jobs.submit[job]) / jobs.walltime[job] >= tau:
                requests += jobs.cores[job]
        return requests / total
    if memory[RESERVED] > 0:
        select_jobs(cluster, jobs, 0)
        for place in range(memory[SELECTED]):
            job = cluster.selected[place]
            if (memory[NOW] - jobs.submit[job]) / jobs.walltime[job] >= tau:
                late += jobs.cores[job] / total
    return late


@kernel()
def add_minutes(cluster, minutes):
    """Advance the clock by minutes without events, and account for them."""
    memory, totals, in_state = cluster.memory, cluster.totals, cluster.in_state
    memory[NOW] += minutes
    totals[ON] += minutes * (in_state[ON] - memory[COMPUTERS])
    totals[SWITCHING_ON] += minutes * in_state[SWITCHING_ON]
    totals[SLEEPING] += minutes * in_state[SLEEPING]
    totals[SWITCHING_OFF] += minutes * in_state[SWITCHING_OFF]
    totals[COMPUTING] += minutes * memory[COMPUTERS]
    totals[REPORTED_IDLE] += minutes * (in_state[ON] - memory[BOOKED])
    totals[CORE_MINUTES] += minutes * memory[BUSY]


@kernel()
def quiet_until(cluster, jobs, horizon):
    """Return the minute before the next event if nothing can change until then, else -1.

    That is so if no job waits and every node sleeps or computes: nothing to switch, to start or to waste.
    """
    memory = cluster.memory
    if memory[WAITING] + memory[READY] > 0 or cluster.in_state[SLEEPING] + memory[COMPUTERS] < cluster.nodes:
        return -1
    following = memory[NEXT_END]
    if memory[ARRIVED] < jobs.number:
        following = min(following, jobs.submit[memory[ARRIVED]])
    return min(following, horizon) - 1


@kernel()
def is_over(cluster, jobs, horizon):
    """Return whether the day has ended."""
    memory = cluster.memory
    if memory[NOW] >= horizon:
        return True
    return cluster.flags & UNTIL_DONE != 0 and memory[DONE] == jobs.number
