"""One minute of a cluster, compiled: reservation, scheduling pass, allocation, switching, reward, events.

The scheduler starts the oldest job, then the smallest area first, with backfilling. A pass looks at ten
candidates: the oldest waiting job, then the others by requested area. It takes them in order while they fit.
The first that does not fit is promised a start; those behind it may start if by their walltimes they end
before that.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel, record_of
from gridtune.systems.shutdown.simulator.state import (
    MAX_CANDIDATES,
    NEVER,
    ON,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
)

__all__ = [
    "act",
    "add_minutes",
    "apply",
    "candidate_index",
    "insert_release",
    "is_over",
    "most_reserved",
    "pass_minute",
    "quiet_until",
    "reset_cluster",
    "select_jobs",
    "unheld_nodes",
]


@kernel()
def _enqueue(cluster, jobs, job):
    """Insert a job into the queue, which is ordered by area."""
    queue, memory, rank = cluster.queue, record_of(cluster.memory), jobs.rank
    place = memory.waiting
    memory.waiting = place + 1
    while place > 0 and rank[queue[place - 1]] > rank[job]:
        queue[place] = queue[place - 1]
        place -= 1
    queue[place] = job
    cluster.waits[job] = 1
    if memory.waiting == 1:
        memory.head = job


@kernel()
def _dequeue(cluster, jobs, job):
    """Take a waiting job out of the queue."""
    queue, memory = cluster.queue, record_of(cluster.memory)
    count = memory.waiting - 1
    memory.waiting = count
    place = 0
    while queue[place] != job:
        place += 1
    for later in range(place, count):
        queue[later] = queue[later + 1]
    cluster.waits[job] = 0
    if count > 0:
        # Jobs before the oldest waiting one have left the queue for good.
        while cluster.waits[memory.head] == 0:
            memory.head += 1


@kernel()
def _refresh_candidates(cluster):
    """List the candidates again after the queue has changed."""
    memory, queue, candidates = record_of(cluster.memory), cluster.queue, cluster.candidates
    memory.candidates = 0
    if memory.waiting == 0:
        return
    head = memory.head
    candidates[0] = head
    count, place = 1, 0
    while count < MAX_CANDIDATES and place < memory.waiting:
        if queue[place] != head:
            candidates[count] = queue[place]
            count += 1
        place += 1
    memory.candidates = count


@kernel()
def candidate_index(cluster, job):
    """Return a job's index among the candidates."""
    index = 0
    while cluster.candidates[index] != job:
        index += 1
    return index


@kernel()
def insert_release(cluster, count, minutes, cores):
    """Insert a release of cores into the `count` sorted pairs of the scratch columns."""
    place = count
    while place > 0 and cluster.release_minutes[place - 1] > minutes:
        cluster.release_minutes[place] = cluster.release_minutes[place - 1]
        cluster.release_cores[place] = cluster.release_cores[place - 1]
        place -= 1
    cluster.release_minutes[place] = minutes
    cluster.release_cores[place] = cores
    return count + 1


@kernel()
def _promised(cluster, jobs, needed, zeros, selected):
    """Return after how many minutes `needed` visible cores are free by the jobs' walltimes.

    If there are fewer visible cores: after how many minutes all of them are free.
    """
    memory = record_of(cluster.memory)
    extra = 0
    for place in range(memory.ready):
        job = cluster.ready[place]
        extra = insert_release(cluster, extra, jobs.walltime[job], jobs.cores[job])
    for place in range(selected):
        job = cluster.selected[place]
        extra = insert_release(cluster, extra, jobs.walltime[job], jobs.cores[job])
    have, promise, one, other = zeros, 0, 0, 0
    while have < needed and (one < extra or other < memory.running):
        left = 0
        if other < memory.running:
            job = cluster.by_request[other]
            left = cluster.start[job] + jobs.walltime[job] - memory.now
        if other == memory.running or (one < extra and cluster.release_minutes[one] <= left):
            promise = cluster.release_minutes[one]
            have += cluster.release_cores[one]
            one += 1
        else:
            promise = left
            have += jobs.cores[job]
            other += 1
    return promise


@kernel()
def select_jobs(cluster, jobs, reserved):
    """Run a pass without the reserved nodes: list the jobs it starts, return the oldest job's promise.

    Reserved cores are free ones: a reservation is never larger than the nodes that no job holds.
    """
    memory, candidates, cores = record_of(cluster.memory), cluster.candidates, jobs.cores
    zeros = memory.free - cluster.cores * reserved
    waiting = memory.candidates
    count = 0
    while count < waiting and cores[candidates[count]] <= zeros:
        cluster.selected[count] = candidates[count]
        zeros -= cores[candidates[count]]
        count += 1
    memory.selected = count
    if count == waiting:
        return 0
    blocked = count
    promise = _promised(cluster, jobs, cores[candidates[blocked]], zeros, count)
    if promise > 0:
        for place in range(blocked + 1, waiting):
            job = candidates[place]
            if zeros == 0:
                break
            if cores[job] <= zeros and jobs.walltime[job] <= promise:
                cluster.selected[count] = job
                zeros -= cores[job]
                count += 1
        memory.selected = count
    return promise if blocked == 0 else 0


@kernel()
def unheld_nodes(cluster):
    """Return the number of nodes that no job holds."""
    vacant = cluster.vacant
    return vacant[ON] + vacant[SWITCHING_ON] + vacant[SLEEPING] + vacant[SWITCHING_OFF]


@kernel()
def most_reserved(cluster, jobs):
    """Return the maximum that larger reservations are cut to: the oldest job keeps the promised nodes."""
    memory, most = record_of(cluster.memory), unheld_nodes(cluster)
    if memory.waiting > 0 and memory.promise == 0:
        needed = (jobs.cores[memory.head] + cluster.cores - 1) // cluster.cores
        most = min(most, cluster.nodes - needed)
    return most


@kernel()
def _refresh_promise(cluster, jobs):
    """Run a pass that starts no job, for the promise to the oldest one."""
    memory = record_of(cluster.memory)
    _refresh_candidates(cluster)
    memory.promise = select_jobs(cluster, jobs, memory.reserved) if memory.candidates > 0 else -1


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
        record_of(cluster.memory).booked -= 1
    cluster.load[node] = load
    if load > 0:
        record_of(cluster.memory).booked += 1


@kernel()
def _begin_switch(cluster, node, state, minutes):
    memory = record_of(cluster.memory)
    _set_state(cluster, node, state)
    _set_load(cluster, node, 0.0)
    cluster.until[node] = memory.now + minutes
    memory.next_switch = min(memory.next_switch, cluster.until[node])


@kernel()
def _switch_off_first(cluster, count):
    """Begin to switch off the first `count` nodes that are on and not allocated."""
    node = 0
    while count > 0:
        if cluster.state[node] == ON and cluster.free[node] == cluster.cores:
            _begin_switch(cluster, node, SWITCHING_OFF, record_of(cluster.settings).off_minutes)
            cluster.switched_off[node] += 1
            record_of(cluster.totals).switched_off += 1
            count -= 1
        node += 1


@kernel()
def _allocate(cluster, jobs, job):
    """Allocate free cores to a waiting job: of nodes that are on first, then of those soonest usable."""
    memory, free = record_of(cluster.memory), cluster.free
    _dequeue(cluster, jobs, job)
    needed = jobs.cores[job]
    memory.free -= needed
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
            piece = memory.unused
            memory.unused = cluster.piece_next[piece]
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
    cluster.ready[memory.ready] = job
    memory.ready += 1


@kernel()
def _start_ready(cluster, jobs):
    """Start the jobs whose nodes are all on; switch on the sleeping nodes of the others."""
    memory, ready = record_of(cluster.memory), cluster.ready
    left = 0
    for place in range(memory.ready):
        job = ready[place]
        if _all_on(cluster, job):
            _start(cluster, jobs, job)
            continue
        _wake(cluster, job)
        ready[left] = job
        left += 1
    memory.ready = left


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
            _begin_switch(cluster, node, SWITCHING_ON, record_of(cluster.settings).on_minutes)
            cluster.switched_on[node] += 1
            record_of(cluster.totals).switched_on += 1
        piece = cluster.piece_next[piece]


@kernel()
def _start(cluster, jobs, job):
    memory, walltime = record_of(cluster.memory), jobs.walltime
    now = memory.now
    cluster.start[job] = now
    piece = cluster.piece[job]
    while piece >= 0:
        node, taken = cluster.piece_node[piece], cluster.piece_cores[piece]
        if cluster.busy[node] == 0:
            memory.computing += 1
        cluster.busy[node] += taken
        _set_load(cluster, node, cluster.load[node] + taken / cluster.cores)
        piece = cluster.piece_next[piece]
    memory.busy += jobs.cores[job]
    place = memory.running
    cluster.running[place] = job
    memory.running = place + 1
    requested_end, by_request = now + walltime[job], cluster.by_request
    while (
        place > 0 and cluster.start[by_request[place - 1]] + walltime[by_request[place - 1]] > requested_end
    ):
        by_request[place] = by_request[place - 1]
        place -= 1
    by_request[place] = job
    memory.next_end = min(memory.next_end, now + min(jobs.run[job], walltime[job]))


@kernel()
def events(cluster, jobs):
    """Process the events of the current minute: completions, submissions, ends of switches."""
    memory, now = record_of(cluster.memory), record_of(cluster.memory).now
    if memory.next_end == now:
        _complete(cluster, jobs)
    while memory.arrived < jobs.number and jobs.submit[memory.arrived] <= now:
        job = memory.arrived
        memory.arrived += 1
        if jobs.cores[job] <= cluster.nodes * cluster.cores:
            _enqueue(cluster, jobs, job)
            cluster.users[jobs.user[job]] += 1
        else:
            memory.done += 1
    if memory.next_switch == now:
        _end_switches(cluster)


@kernel()
def _complete(cluster, jobs):
    memory, running = record_of(cluster.memory), cluster.running
    now, left, following = memory.now, 0, NEVER
    for place in range(memory.running):
        job = running[place]
        end = cluster.start[job] + min(jobs.run[job], jobs.walltime[job])
        if end == now:
            _release(cluster, jobs, job)
        else:
            running[left] = job
            left += 1
            following = min(following, end)
    remaining = 0
    for place in range(memory.running):
        job = cluster.by_request[place]
        if cluster.start[job] + min(jobs.run[job], jobs.walltime[job]) != now:
            cluster.by_request[remaining] = job
            remaining += 1
    memory.running = left
    memory.next_end = following
    memory.last_end = now


@kernel()
def _release(cluster, jobs, job):
    memory = record_of(cluster.memory)
    piece = cluster.piece[job]
    while piece >= 0:
        node, taken = cluster.piece_node[piece], cluster.piece_cores[piece]
        cluster.busy[node] -= taken
        if cluster.busy[node] == 0:
            memory.computing -= 1
        cluster.free[node] += taken
        if cluster.free[node] == cluster.cores:
            cluster.vacant[cluster.state[node]] += 1
        _set_load(cluster, node, cluster.load[node] - taken / cluster.cores)
        following = cluster.piece_next[piece]
        cluster.piece_next[piece] = memory.unused
        memory.unused = piece
        piece = following
    memory.busy -= jobs.cores[job]
    memory.free += jobs.cores[job]
    memory.done += 1
    cluster.users[jobs.user[job]] -= 1
    cluster.last_run[jobs.user[job]] = memory.now - cluster.start[job]


@kernel()
def _end_switches(cluster):
    memory, following = record_of(cluster.memory), NEVER
    for node in range(cluster.nodes):
        if cluster.until[node] == memory.now:
            cluster.until[node] = NEVER
            _set_state(cluster, node, ON if cluster.state[node] == SWITCHING_ON else SLEEPING)
        following = min(following, cluster.until[node])
    memory.next_switch = following


@kernel()
def reset_cluster(cluster, jobs, day):
    """Begin a day: every node asleep, no jobs."""
    memory = record_of(cluster.memory)
    memory.now = memory.reserved = memory.head = memory.arrived = memory.waiting = memory.ready = 0
    memory.running = memory.done = memory.busy = memory.computing = memory.booked = 0
    memory.candidates = memory.selected = memory.unused = memory.last_end = 0
    memory.score = 0.0
    totals = record_of(cluster.totals)
    totals.idle = totals.switching_on = totals.sleeping = totals.switching_off = totals.computing = 0
    totals.reported_idle = totals.core_minutes = totals.switched_on = totals.switched_off = 0
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
    memory.day = day
    memory.promise = -1
    memory.free = pieces
    memory.next_end = memory.next_switch = NEVER


@kernel()
def act(cluster, jobs, action):
    """Take the decisions of the minute: reserve, schedule, start; return the reward."""
    apply(cluster, jobs, action)
    reward = _reward(cluster, jobs)
    record_of(cluster.memory).score += reward
    return reward


@kernel()
def apply(cluster, jobs, action):
    """Reserve, schedule and start, without the reward."""
    memory = record_of(cluster.memory)
    _reserve(cluster, jobs, action)
    if memory.candidates > 0:
        select_jobs(cluster, jobs, memory.reserved)
        if memory.selected > 0:
            for place in range(memory.selected):
                _allocate(cluster, jobs, cluster.selected[place])
            _start_ready(cluster, jobs)
            _refresh_candidates(cluster)


@kernel()
def pass_minute(cluster, jobs, horizon):
    """Advance the clock by a minute and process the events at its end."""
    memory = record_of(cluster.memory)
    add_minutes(cluster, 1)
    events(cluster, jobs)
    # No job starts after the end of the day.
    if memory.ready > 0 and memory.now < horizon:
        _start_ready(cluster, jobs)
    _refresh_promise(cluster, jobs)


@kernel()
def _reserve(cluster, jobs, action):
    memory, vacant = record_of(cluster.memory), cluster.vacant
    memory.reserved = action
    if action > 0:
        memory.reserved = min(action, most_reserved(cluster, jobs))
        _switch_off_first(cluster, memory.reserved - vacant[SLEEPING] - vacant[SWITCHING_OFF])


@kernel()
def _reward(cluster, jobs):
    """Return minus the minute's waste, as a share of the largest possible, minus the late requests.

    Summed node by node in the authors' order: the last bits depend on it.
    """
    share, wasted = record_of(cluster.settings).share, 0.0
    if cluster.in_state[SLEEPING] + record_of(cluster.memory).computing < cluster.nodes:
        for node in range(cluster.nodes):
            if cluster.busy[node] == 0:
                wasted += share[cluster.state[node]]
    return -(wasted / cluster.nodes + _lateness(cluster, jobs))


@kernel()
def _lateness(cluster, jobs):
    memory, tau, late = record_of(cluster.memory), record_of(cluster.settings).tau, 0.0
    if memory.candidates == 0:
        return late
    total = cluster.nodes * cluster.cores
    if record_of(cluster.settings).every_late_job:
        requests = 0
        for place in range(memory.waiting):
            job = cluster.queue[place]
            if (memory.now - jobs.submit[job]) / jobs.walltime[job] >= tau:
                requests += jobs.cores[job]
        return requests / total
    if memory.reserved > 0:
        select_jobs(cluster, jobs, 0)
        for place in range(memory.selected):
            job = cluster.selected[place]
            if (memory.now - jobs.submit[job]) / jobs.walltime[job] >= tau:
                late += jobs.cores[job] / total
    return late


@kernel()
def add_minutes(cluster, minutes):
    """Advance the clock by minutes without events, and account for them."""
    memory, totals, in_state = record_of(cluster.memory), record_of(cluster.totals), cluster.in_state
    memory.now += minutes
    totals.idle += minutes * (in_state[ON] - memory.computing)
    totals.switching_on += minutes * in_state[SWITCHING_ON]
    totals.sleeping += minutes * in_state[SLEEPING]
    totals.switching_off += minutes * in_state[SWITCHING_OFF]
    totals.computing += minutes * memory.computing
    totals.reported_idle += minutes * (in_state[ON] - memory.booked)
    totals.core_minutes += minutes * memory.busy


@kernel()
def quiet_until(cluster, jobs, horizon):
    """Return the minute before the next event if nothing can change until then, else -1.

    That is so if no job waits and every node sleeps or computes: nothing to switch, to start or to waste.
    """
    memory = record_of(cluster.memory)
    if memory.waiting + memory.ready > 0 or cluster.in_state[SLEEPING] + memory.computing < cluster.nodes:
        return -1
    following = memory.next_end
    if memory.arrived < jobs.number:
        following = min(following, jobs.submit[memory.arrived])
    return min(following, horizon) - 1


@kernel()
def is_over(cluster, jobs, horizon):
    """Return whether the day has ended."""
    memory = record_of(cluster.memory)
    if memory.now >= horizon:
        return True
    return record_of(cluster.settings).until_done and memory.done == jobs.number
