"""One minute of a cluster, compiled: reservation, scheduling pass, allocation, switching, reward, events.

The scheduler starts the oldest job, then the smallest area first, with backfilling. A pass looks at ten
candidates: the oldest waiting job, then the others by requested area. It takes them in order while they fit.
The first that does not fit is promised a start; those behind it may start if by their walltimes they end
before that.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.shutdown.simulator.state import (
    MAX_CANDIDATES,
    NEVER,
    ON,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
)


@kernel()
def _enqueue(cluster, jobs, job):
    """Insert a job into the queue, which is ordered by area."""
    queue, state, rank = cluster.queue, cluster.state, jobs.rank
    place = state.waiting
    state.waiting = place + 1
    while place > 0 and rank[queue[place - 1]] > rank[job]:
        queue[place] = queue[place - 1]
        place -= 1
    queue[place] = job
    cluster.waits[job] = 1
    if state.waiting == 1:
        state.head = job


@kernel()
def _dequeue(cluster, jobs, job):
    """Take a waiting job out of the queue."""
    queue, state = cluster.queue, cluster.state
    count = state.waiting - 1
    state.waiting = count
    place = 0
    while queue[place] != job:
        place += 1
    for later in range(place, count):
        queue[later] = queue[later + 1]
    cluster.waits[job] = 0
    if count > 0:
        # Jobs before the oldest waiting one have left the queue for good.
        while cluster.waits[state.head] == 0:
            state.head += 1


@kernel()
def _refresh_candidates(cluster):
    """List the candidates again after the queue has changed."""
    state, queue, candidates = cluster.state, cluster.queue, cluster.candidates
    state.candidates = 0
    if state.waiting == 0:
        return
    head = state.head
    candidates[0] = head
    count, place = 1, 0
    while count < MAX_CANDIDATES and place < state.waiting:
        if queue[place] != head:
            candidates[count] = queue[place]
            count += 1
        place += 1
    state.candidates = count


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
    state = cluster.state
    extra = 0
    for place in range(state.ready):
        job = cluster.ready[place]
        extra = insert_release(cluster, extra, jobs.walltime[job], jobs.cores[job])
    for place in range(selected):
        job = cluster.selected[place]
        extra = insert_release(cluster, extra, jobs.walltime[job], jobs.cores[job])
    have, promise, one, other = zeros, 0, 0, 0
    while have < needed and (one < extra or other < state.running):
        left = 0
        if other < state.running:
            job = cluster.by_request[other]
            left = cluster.start[job] + jobs.walltime[job] - state.now
        if other == state.running or (one < extra and cluster.release_minutes[one] <= left):
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
    state, candidates, cores = cluster.state, cluster.candidates, jobs.cores
    zeros = state.free - cluster.cores * reserved
    waiting = state.candidates
    count = 0
    while count < waiting and cores[candidates[count]] <= zeros:
        cluster.selected[count] = candidates[count]
        zeros -= cores[candidates[count]]
        count += 1
    state.selected = count
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
        state.selected = count
    return promise if blocked == 0 else 0


@kernel()
def unheld_nodes(cluster):
    """Return the number of nodes that no job holds."""
    vacant = cluster.vacant
    return vacant[ON] + vacant[SWITCHING_ON] + vacant[SLEEPING] + vacant[SWITCHING_OFF]


@kernel()
def most_reserved(cluster, jobs):
    """Return the maximum that larger reservations are cut to: the oldest job keeps the promised nodes."""
    state, most = cluster.state, unheld_nodes(cluster)
    if state.waiting > 0 and state.promise == 0:
        needed = (jobs.cores[state.head] + cluster.cores - 1) // cluster.cores
        most = min(most, cluster.nodes - needed)
    return most


@kernel()
def _set_power(cluster, node, power):
    before = cluster.power[node]
    cluster.in_state[before] -= 1
    cluster.in_state[power] += 1
    if cluster.free[node] == cluster.cores:
        cluster.vacant[before] -= 1
        cluster.vacant[power] += 1
    cluster.power[node] = power


@kernel()
def _set_load(cluster, node, load):
    """Set the floating-point load of the authors' monitor, and count the nodes that it takes for busy."""
    if cluster.load[node] > 0:
        cluster.state.booked -= 1
    cluster.load[node] = load
    if load > 0:
        cluster.state.booked += 1


@kernel()
def _begin_switch(cluster, node, power, minutes):
    state = cluster.state
    _set_power(cluster, node, power)
    _set_load(cluster, node, 0.0)
    cluster.until[node] = state.now + minutes
    state.next_switch = min(state.next_switch, cluster.until[node])


@kernel()
def _allocate(cluster, jobs, job):
    """Allocate free cores to a waiting job: of nodes that are on first, then of those soonest usable."""
    state, free = cluster.state, cluster.free
    _dequeue(cluster, jobs, job)
    needed = jobs.cores[job]
    state.free -= needed
    last = -1
    for power in range(4):
        if needed == 0:
            break
        if cluster.in_state[power] == 0:
            continue
        for node in range(cluster.nodes):
            if cluster.power[node] != power or free[node] == 0:
                continue
            taken = min(needed, free[node])
            if free[node] == cluster.cores:
                cluster.vacant[power] -= 1
            free[node] -= taken
            needed -= taken
            piece = state.unused
            state.unused = cluster.piece_next[piece]
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
    cluster.ready[state.ready] = job
    state.ready += 1


@kernel()
def _start_ready(cluster, jobs):
    """Start the jobs whose nodes are all on; switch on the sleeping nodes of the others."""
    state, ready = cluster.state, cluster.ready
    left = 0
    for place in range(state.ready):
        job = ready[place]
        if _all_on(cluster, job):
            _start(cluster, jobs, job)
            continue
        _wake(cluster, job)
        ready[left] = job
        left += 1
    state.ready = left


@kernel()
def _all_on(cluster, job):
    piece = cluster.piece[job]
    while piece >= 0:
        if cluster.power[cluster.piece_node[piece]] != ON:
            return False
        piece = cluster.piece_next[piece]
    return True


@kernel()
def _wake(cluster, job):
    piece = cluster.piece[job]
    while piece >= 0:
        node = cluster.piece_node[piece]
        if cluster.power[node] == SLEEPING:
            _begin_switch(cluster, node, SWITCHING_ON, cluster.settings.on_minutes)
            cluster.totals.switched_on += 1
        piece = cluster.piece_next[piece]


@kernel()
def _start(cluster, jobs, job):
    state, walltime = cluster.state, jobs.walltime
    now = state.now
    cluster.start[job] = now
    piece = cluster.piece[job]
    while piece >= 0:
        node, taken = cluster.piece_node[piece], cluster.piece_cores[piece]
        if cluster.busy[node] == 0:
            state.computing += 1
        cluster.busy[node] += taken
        _set_load(cluster, node, cluster.load[node] + taken / cluster.cores)
        piece = cluster.piece_next[piece]
    state.busy += jobs.cores[job]
    place = state.running
    cluster.running[place] = job
    state.running = place + 1
    requested_end, by_request = now + walltime[job], cluster.by_request
    while (
        place > 0 and cluster.start[by_request[place - 1]] + walltime[by_request[place - 1]] > requested_end
    ):
        by_request[place] = by_request[place - 1]
        place -= 1
    by_request[place] = job
    state.next_end = min(state.next_end, now + min(jobs.run[job], walltime[job]))


@kernel()
def _events(cluster, jobs):
    """Process the events of the current minute: completions, submissions, ends of switches."""
    state, now = cluster.state, cluster.state.now
    if state.next_end == now:
        _complete(cluster, jobs)
    while state.arrived < jobs.number and jobs.submit[state.arrived] <= now:
        job = state.arrived
        state.arrived += 1
        if jobs.cores[job] <= cluster.nodes * cluster.cores:
            _enqueue(cluster, jobs, job)
            cluster.users[jobs.user[job]] += 1
        else:
            state.done += 1
    if state.next_switch == now:
        state.next_switch = NEVER
        for node in range(cluster.nodes):
            if cluster.until[node] == now:
                cluster.until[node] = NEVER
                _set_power(cluster, node, ON if cluster.power[node] == SWITCHING_ON else SLEEPING)
            state.next_switch = min(state.next_switch, cluster.until[node])


@kernel()
def _complete(cluster, jobs):
    state, running = cluster.state, cluster.running
    now, left, following = state.now, 0, NEVER
    for place in range(state.running):
        job = running[place]
        end = cluster.start[job] + min(jobs.run[job], jobs.walltime[job])
        if end == now:
            _release(cluster, jobs, job)
        else:
            running[left] = job
            left += 1
            following = min(following, end)
    remaining = 0
    for place in range(state.running):
        job = cluster.by_request[place]
        if cluster.start[job] + min(jobs.run[job], jobs.walltime[job]) != now:
            cluster.by_request[remaining] = job
            remaining += 1
    state.running = left
    state.next_end = following


@kernel()
def _release(cluster, jobs, job):
    state = cluster.state
    piece = cluster.piece[job]
    while piece >= 0:
        node, taken = cluster.piece_node[piece], cluster.piece_cores[piece]
        cluster.busy[node] -= taken
        if cluster.busy[node] == 0:
            state.computing -= 1
        cluster.free[node] += taken
        if cluster.free[node] == cluster.cores:
            cluster.vacant[cluster.power[node]] += 1
        _set_load(cluster, node, cluster.load[node] - taken / cluster.cores)
        following = cluster.piece_next[piece]
        cluster.piece_next[piece] = state.unused
        state.unused = piece
        piece = following
    state.busy -= jobs.cores[job]
    state.free += jobs.cores[job]
    state.done += 1
    cluster.users[jobs.user[job]] -= 1
    cluster.last_run[jobs.user[job]] = state.now - cluster.start[job]


@kernel()
def reset_cluster(cluster, jobs, day):
    """Begin a day: every node asleep, no jobs."""
    state = cluster.state
    state.now = state.reserved = state.head = state.arrived = state.waiting = state.ready = 0
    state.running = state.done = state.busy = state.computing = state.booked = 0
    state.candidates = state.selected = state.unused = 0
    state.score = 0.0
    totals = cluster.totals
    totals.idle = totals.switching_on = totals.sleeping = totals.switching_off = totals.computing = 0
    totals.reported_idle = totals.core_minutes = totals.switched_on = totals.switched_off = 0
    for power in range(4):
        cluster.in_state[power] = cluster.vacant[power] = cluster.nodes if power == SLEEPING else 0
    for node in range(cluster.nodes):
        cluster.power[node] = SLEEPING
        cluster.until[node] = NEVER
        cluster.free[node] = cluster.cores
        cluster.busy[node] = cluster.idle_minutes[node] = 0
        cluster.load[node] = 0.0
    pieces = cluster.nodes * cluster.cores
    for piece in range(pieces):
        cluster.piece_next[piece] = piece + 1
    for job in range(jobs.number):
        cluster.waits[job] = 0
        cluster.start[job] = cluster.piece[job] = -1
        cluster.users[jobs.user[job]] = 0
        cluster.last_run[jobs.user[job]] = -1
    state.day = day
    state.promise = -1
    state.free = pieces
    state.next_end = state.next_switch = NEVER


@kernel()
def act(cluster, jobs, action):
    """Take the decisions of the minute: reserve, schedule, start; return the reward."""
    apply(cluster, jobs, action)
    reward = _reward(cluster, jobs)
    cluster.state.score += reward
    return reward


@kernel()
def apply(cluster, jobs, action):
    """Reserve, schedule and start, without the reward."""
    state, vacant = cluster.state, cluster.vacant
    state.reserved = action
    if action > 0:
        state.reserved = min(action, most_reserved(cluster, jobs))
        count, node = state.reserved - vacant[SLEEPING] - vacant[SWITCHING_OFF], 0
        while count > 0:
            if cluster.power[node] == ON and cluster.free[node] == cluster.cores:
                _begin_switch(cluster, node, SWITCHING_OFF, cluster.settings.off_minutes)
                cluster.totals.switched_off += 1
                count -= 1
            node += 1
    if state.candidates > 0:
        select_jobs(cluster, jobs, state.reserved)
        if state.selected > 0:
            for place in range(state.selected):
                _allocate(cluster, jobs, cluster.selected[place])
            _start_ready(cluster, jobs)
            _refresh_candidates(cluster)


@kernel()
def pass_minute(cluster, jobs, horizon):
    """Advance the clock by a minute and process the events at its end."""
    state = cluster.state
    add_minutes(cluster, 1)
    _events(cluster, jobs)
    # No job starts after the end of the day.
    if state.ready > 0 and state.now < horizon:
        _start_ready(cluster, jobs)
    # A pass that starts no job, for the promise to the oldest one.
    _refresh_candidates(cluster)
    state.promise = select_jobs(cluster, jobs, state.reserved) if state.candidates > 0 else -1


@kernel()
def _reward(cluster, jobs):
    """Return minus the minute's waste, as a share of the largest possible, minus the late requests.

    Summed node by node in the authors' order: the last bits depend on it.
    """
    share, wasted = cluster.settings.share, 0.0
    if cluster.in_state[SLEEPING] + cluster.state.computing < cluster.nodes:
        for node in range(cluster.nodes):
            if cluster.busy[node] == 0:
                wasted += share[cluster.power[node]]
    return -(wasted / cluster.nodes + _lateness(cluster, jobs))


@kernel()
def _lateness(cluster, jobs):
    state, tau, late = cluster.state, cluster.settings.tau, 0.0
    if state.candidates == 0:
        return late
    total = cluster.nodes * cluster.cores
    if cluster.settings.every_late_job:
        requests = 0
        for place in range(state.waiting):
            job = cluster.queue[place]
            if (state.now - jobs.submit[job]) / jobs.walltime[job] >= tau:
                requests += jobs.cores[job]
        return requests / total
    if state.reserved > 0:
        select_jobs(cluster, jobs, 0)
        for place in range(state.selected):
            job = cluster.selected[place]
            if (state.now - jobs.submit[job]) / jobs.walltime[job] >= tau:
                late += jobs.cores[job] / total
    return late


@kernel()
def add_minutes(cluster, minutes):
    """Advance the clock by minutes without events, and account for them."""
    state, totals, in_state = cluster.state, cluster.totals, cluster.in_state
    state.now += minutes
    totals.idle += minutes * (in_state[ON] - state.computing)
    totals.switching_on += minutes * in_state[SWITCHING_ON]
    totals.sleeping += minutes * in_state[SLEEPING]
    totals.switching_off += minutes * in_state[SWITCHING_OFF]
    totals.computing += minutes * state.computing
    totals.reported_idle += minutes * (in_state[ON] - state.booked)
    totals.core_minutes += minutes * state.busy


@kernel()
def quiet_until(cluster, jobs, horizon):
    """Return the minute before the next event if nothing can change until then, else -1.

    That is so if no job waits and every node sleeps or computes: nothing to switch, to start or to waste.
    """
    state = cluster.state
    if state.waiting + state.ready > 0 or cluster.in_state[SLEEPING] + state.computing < cluster.nodes:
        return -1
    following = state.next_end
    if state.arrived < jobs.number:
        following = min(following, jobs.submit[state.arrived])
    return min(following, horizon) - 1


@kernel()
def is_over(cluster, jobs, horizon):
    """Return whether the day has ended."""
    state = cluster.state
    if state.now >= horizon:
        return True
    return cluster.settings.until_done and state.done == jobs.number
