"""Reservation rules, compiled: the number of nodes to reserve in the coming minute.

`ALWAYS_ON` reserves nothing, `TIMEOUT` nodes that have idled long enough. `ORACLE` is the paper's OR*: a
timeout of 0 that keeps no cores free for jobs that can wait for running ones to end; it reads actual run
times.

`ADAPTIVE` lets jobs wait for nodes that are on, and reads no run times. A job that finds no free cores on
nodes that are on costs a boot and, later, a shutdown. While it waits, a running job may end and free its
cores. So each minute the rule tries every reservation in a dry pass of the scheduler and takes the one that,
in this order,

1. starts the most cores of jobs that may not wait any longer,
2. has the largest `eagerness` · cores started − cores of nodes that have to be switched on for them,
3. starts the most cores,
4. reserves the most nodes.

Unlike the oracle it never keeps a node on for a job that the scheduler would not start, and never switches
one off that a waiting job could use.

`LOOKAHEAD` plays the choices forward on what is known, and takes the cheapest. The adaptive rule lets jobs
wait as long as they may. If two of them wait for one long job, both then start at
once, on two nodes; had the first started earlier, the second could have had its node. So in each minute in
which jobs wait, every reservation that starts other jobs than the adaptive rule's is played forward on a copy
of the cluster until no job waits: from the next minute on the adaptive rule decides, jobs take as long as is
guessed, and no further ones are submitted. Its cost is the energy wasted until then, with the shutdown of
the nodes that are then on, and a fee for each job that becomes late. Of the reservations that start no fewer
cores of jobs that may not wait any longer, the rule takes the cheapest, if it saves more than a margin, and
else the adaptive rule's.

A job is guessed to take as long as the last job of its user that has ended. One that has run for longer, or
whose user has none, is guessed to take a share of its walltime or a multiple of its age, whichever is more.
Nothing in it depends on the future.
"""

from __future__ import annotations

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.shutdown.simulator.state import (
    NEVER,
    ON,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    Jobs,
    cluster_at,
)
from gridtune.systems.shutdown.simulator.stepping import (
    apply,
    candidate_index,
    insert_release,
    most_reserved,
    pass_minute,
    select_jobs,
    unheld_nodes,
)

__all__ = ["ADAPTIVE", "LOOKAHEAD", "RECORDED", "RULE", "RULES", "TIMEOUT", "decide", "lookahead_reservation"]

#: Rules by name; `recorded` takes its actions from an array.
RULES = ("always_on", "timeout", "oracle", "adaptive", "lookahead", "recorded")
ALWAYS_ON, TIMEOUT, ORACLE, ADAPTIVE, LOOKAHEAD, RECORDED = range(len(RULES))
#: A rule and its parameters, see `replay`.
RULE = np.dtype(
    [
        ("kind", np.int64),
        *((name, np.float64) for name in ("timeout", "max_stretch", "max_wait", "eagerness")),
    ]
)
#: Guesses of the rule that looks ahead: a job takes this share of its walltime if its user has no previous
#: job, or this multiple of its age once it has run for longer than guessed.
FIRST_GUESS, GROWTH = 0.1, 2.0
#: Another choice than the adaptive rule's has to save this share of a boot and a shutdown. A job that starts
#: late costs this many of them.
MARGIN, LATE_COST = 0.5, 2.0


@kernel()
def _adaptive_reservation(cluster, jobs, rule):
    """Return the number of nodes to reserve in the coming minute."""
    unheld = unheld_nodes(cluster)
    reserved = _best_reservation(cluster, jobs, rule) if cluster.state.candidates > 0 else unheld
    return min(reserved, unheld - _kept_on(cluster, rule))


@kernel()
def _best_reservation(cluster, jobs, rule):
    """Return the best reservation while jobs wait, without regard to nodes that are kept on."""
    state, size, awake = cluster.state, cluster.cores, 0
    for node in range(cluster.nodes):
        if cluster.power[node] in (ON, SWITCHING_ON):
            awake += cluster.free[node]
    pressing = _pressing_jobs(cluster, jobs, rule)
    best, best_urgent, best_value, best_started = 0, -1, 0.0, 0
    for reserved in range(most_reserved(cluster, jobs), -1, -1):
        select_jobs(cluster, jobs, reserved)
        started, urgent = 0, 0
        for place in range(state.selected):
            job = cluster.selected[place]
            started += jobs.cores[job]
            if pressing >> candidate_index(cluster, job) & 1:
                urgent += jobs.cores[job]
        woken = (max(started - awake, 0) + size - 1) // size
        value = rule.eagerness * started - woken * size
        better = urgent > best_urgent
        if urgent == best_urgent:
            better = value > best_value or (value == best_value and started > best_started)
        if better:
            best, best_urgent, best_value, best_started = reserved, urgent, value, started
        if state.selected == state.candidates:
            # Every candidate starts: smaller reservations are no better.
            break
    return best


@kernel()
def _pressing_jobs(cluster, jobs, rule):
    """Return as bits which candidates would reach their limit if they waited another minute and a boot."""
    state, marks = cluster.state, 0
    for place in range(state.candidates):
        job = cluster.candidates[place]
        limit = min(rule.max_stretch * jobs.walltime[job], rule.max_wait)
        if state.now - jobs.submit[job] + 1 + cluster.settings.on_minutes >= limit:
            marks |= 1 << place
    return marks


@kernel()
def _kept_on(cluster, rule):
    """Return how many idle nodes to keep on: those that have not reached the timeout."""
    kept = 0
    for node in range(cluster.nodes):
        if cluster.power[node] == ON and cluster.free[node] == cluster.cores:
            cluster.idle_minutes[node] += 1
            kept += cluster.idle_minutes[node] < rule.timeout
        else:
            cluster.idle_minutes[node] = -1
    return kept


@kernel()
def decide(cluster, jobs, rule):
    """Return the action of a rule other than `RECORDED` and `LOOKAHEAD`."""
    if rule.kind == ALWAYS_ON:
        return 0
    if rule.kind == ADAPTIVE:
        return _adaptive_reservation(cluster, jobs, rule)
    if rule.kind == ORACLE:
        return _reservation(cluster, _free_beside_urgent(cluster, jobs, rule.max_stretch), 0.0)
    return _reservation(cluster, _free_beside_starting(cluster, jobs), rule.timeout)


@kernel()
def _free_beside_starting(cluster, jobs):
    """Return the free cores that are left after the candidates that can start have started."""
    state, candidates, free = cluster.state, cluster.candidates, cluster.state.free
    opened = True
    for place in range(state.candidates):
        job = candidates[place]
        width = jobs.cores[job]
        if place == 0:
            opened = state.promise == 0 or width <= free
            if opened:
                free -= width
        elif width <= free and (opened or jobs.walltime[job] <= state.promise):
            free -= width
    return free


@kernel()
def _free_beside_urgent(cluster, jobs, max_stretch):
    """Return the same, but jobs that can wait for running ones to end claim no cores."""
    state, candidates, free = cluster.state, cluster.candidates, cluster.state.free
    opened, releases = True, 0
    for place in range(state.running):
        # By actual run times, if none is killed.
        job = cluster.running[place]
        left = cluster.start[job] + jobs.run[job] - state.now
        releases = insert_release(cluster, releases, left, jobs.cores[job])
    for place in range(state.candidates):
        job = candidates[place]
        width = jobs.cores[job]
        if place == 0:
            forced = state.promise == 0
            opened = forced or width <= free
            claims = forced or (opened and not _can_wait(cluster, jobs, job, releases, max_stretch))
        else:
            fits = width <= free and (opened or jobs.walltime[job] <= state.promise)
            claims = fits and not _can_wait(cluster, jobs, job, releases, max_stretch)
        if claims:
            free -= width
            releases = insert_release(cluster, releases, jobs.walltime[job], width)
    return free


@kernel()
def _can_wait(cluster, jobs, job, releases, max_stretch):
    """Return whether a job can wait until the cores it needs are free, or all of them."""
    waited, walltime = cluster.state.now - jobs.submit[job], jobs.walltime[job]
    if releases == 0 or waited / walltime >= max_stretch:
        return False
    place, have = 0, cluster.release_cores[0]
    while have < jobs.cores[job] and place + 1 < releases:
        place += 1
        have += cluster.release_cores[place]
    return (waited + cluster.release_minutes[place]) / walltime < max_stretch


@kernel()
def _reservation(cluster, free, timeout):
    """Count nodes that are off or have idled for the timeout, as long as free cores are left.

    As in the authors' code, nodes are visited only while free cores are left; the others keep their count of
    idle minutes.
    """
    reserved = 0
    for node in range(cluster.nodes):
        if free < cluster.cores:
            break
        power = cluster.power[node]
        if power == ON and cluster.busy[node] == 0:
            cluster.idle_minutes[node] += 1
        else:
            cluster.idle_minutes[node] = -1
        if cluster.idle_minutes[node] >= timeout or power in (SLEEPING, SWITCHING_OFF):
            reserved += 1
            free -= cluster.cores
    return reserved


@kernel()
def lookahead_reservation(model, arena, jobs, guesses, rule, horizon):
    """Return how many nodes to reserve on cluster 0 of the arena; cluster 1 is memory for its copy.

    `guesses` is memory for the guessed run times of the day's jobs.
    """
    cluster = cluster_at(model, arena, 0)
    state, most = cluster.state, unheld_nodes(cluster) - _kept_on(cluster, rule)
    if state.candidates == 0:
        return most
    pressing = _pressing_jobs(cluster, jobs, rule)
    best = _best_reservation(cluster, jobs, rule)
    usual, pressed = _started(cluster, jobs, best, pressing)
    known = Jobs(state.arrived, jobs.submit, guesses, jobs.walltime, jobs.cores, jobs.rank, jobs.user)
    cheapest, before = -1.0, usual
    for reserved in range(most_reserved(cluster, jobs), -1, -1):
        started, urgent = _started(cluster, jobs, reserved, pressing)
        everything = state.selected == state.candidates
        if started not in (before, usual) and urgent >= pressed:
            if cheapest < 0:
                _guess(cluster, jobs, guesses)
                cheapest = _cost(model, arena, known, rule, best, horizon)
                cheapest -= MARGIN * _cycle(cluster)
            cost = _cost(model, arena, known, rule, reserved, horizon)
            if cost < cheapest:
                best, cheapest = reserved, cost
        before = started
        if everything:
            # Smaller reservations start the same jobs.
            break
    return min(best, most)


@kernel()
def _started(cluster, jobs, reserved, pressing):
    """Return as bits which candidates a reservation starts, and the cores of those that may not wait."""
    select_jobs(cluster, jobs, reserved)
    marks, urgent = 0, 0
    for place in range(cluster.state.selected):
        job = cluster.selected[place]
        index = candidate_index(cluster, job)
        marks |= 1 << index
        if pressing >> index & 1:
            urgent += jobs.cores[job]
    return marks, urgent


@kernel()
def _cycle(cluster):
    """Return the energy of a boot and a shutdown, in minutes of the largest wasted power."""
    share = cluster.settings.share
    booting = share[SWITCHING_ON] * cluster.settings.on_minutes
    return booting + share[SWITCHING_OFF] * cluster.settings.off_minutes


@kernel()
def _guess(cluster, jobs, guesses):
    """Fill in the guessed run times of the jobs in the system."""
    state = cluster.state
    for place in range(state.waiting):
        job = cluster.queue[place]
        guesses[job] = _guessed(cluster, jobs, job, 0)
    for place in range(state.ready):
        job = cluster.ready[place]
        guesses[job] = _guessed(cluster, jobs, job, 0)
    for place in range(state.running):
        job = cluster.running[place]
        guesses[job] = _guessed(cluster, jobs, job, state.now - cluster.start[job])


@kernel()
def _guessed(cluster, jobs, job, age):
    walltime, took = jobs.walltime[job], cluster.last_run[jobs.user[job]]
    if took <= age:
        took = max(int(walltime * FIRST_GUESS), int(age * GROWTH))
    return min(max(took, age + 1), walltime)


@kernel()
def _cost(model, arena, jobs, rule, reserved, horizon):
    """Return the cost of a reservation that the adaptive rule follows, in minutes of the largest power."""
    _copy(model, arena, jobs)
    real, cluster = cluster_at(model, arena, 0), cluster_at(model, arena, 1)
    state, totals, in_state = cluster.state, cluster.totals, cluster.in_state
    share = cluster.settings.share
    totals.idle = totals.switching_on = totals.switching_off = 0
    action = reserved
    while state.now < horizon:
        apply(cluster, jobs, action)
        pass_minute(cluster, jobs, horizon)
        if state.waiting + state.ready == 0:
            break
        action = _adaptive_reservation(cluster, jobs, rule)
    ending = (in_state[ON] + in_state[SWITCHING_ON]) * cluster.settings.off_minutes
    for node in range(cluster.nodes):
        if cluster.power[node] == SWITCHING_OFF:
            ending += cluster.until[node] - state.now
    late = 0
    for place in range(real.state.waiting):
        job = real.queue[place]
        patience = real.settings.tau * jobs.walltime[job]
        in_time = real.state.now - jobs.submit[job] < patience
        late += in_time and cluster.start[job] - jobs.submit[job] >= patience
    wasted = share[ON] * totals.idle + share[SWITCHING_ON] * totals.switching_on
    wasted += share[SWITCHING_OFF] * (totals.switching_off + ending)
    return wasted + late * LATE_COST * _cycle(cluster)


@kernel()
def _copy(model, arena, jobs):
    """Make cluster 1 of the arena a copy of cluster 0 in which jobs end as guessed."""
    words = model.settings[0].words
    for word in range(words):
        arena.words[words + word] = arena.words[word]
    arena.states[1], arena.totals[1] = arena.states[0], arena.totals[0]
    cluster = cluster_at(model, arena, 1)
    state = cluster.state
    state.next_end = NEVER
    for place in range(state.running):
        job = cluster.running[place]
        state.next_end = min(state.next_end, cluster.start[job] + min(jobs.run[job], jobs.walltime[job]))
