"""The rule `lookahead`, compiled: play the choices forward on what is known, and take the cheapest.

The adaptive rule lets jobs wait as long as they may. If two of them wait for one long job, both then start at
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

The clairvoyant rule `hindsight` is the same with the actual run times and all submissions, played to the end
of the day: a plan to hold others against, which nobody could follow.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel, record_of
from gridtune.systems.shutdown.simulator.rules import (
    adaptive_reservation,
    best_reservation,
    kept_on,
    pressing_jobs,
)
from gridtune.systems.shutdown.simulator.scheduling import (
    candidate_index,
    most_reserved,
    select_jobs,
    unheld_nodes,
)
from gridtune.systems.shutdown.simulator.state import (
    NEVER,
    ON,
    SWITCHING_OFF,
    SWITCHING_ON,
    Jobs,
    cluster_at,
)
from gridtune.systems.shutdown.simulator.stepping import add_minutes, apply, pass_minute, quiet_until

__all__ = ["lookahead_reservation"]


@kernel()
def lookahead_reservation(model, arena, jobs, guesses, rule, horizon):
    """Return how many nodes to reserve on cluster 0 of the arena; cluster 1 is memory for its copy.

    `guesses` is memory for the guessed run times of the day's jobs.
    """
    cluster = cluster_at(model, arena, 0)
    memory, most = record_of(cluster.memory), unheld_nodes(cluster) - kept_on(cluster, jobs, rule)
    if memory.candidates == 0:
        return most
    pressing = pressing_jobs(cluster, jobs, rule)
    best = best_reservation(cluster, jobs, rule)
    usual, pressed = _started(cluster, jobs, best, pressing)
    known = jobs
    if rule.hindsight == 0:
        known = Jobs(memory.arrived, jobs.submit, guesses, jobs.walltime, jobs.cores, jobs.rank, jobs.user)
    cheapest, before = -1.0, usual
    for reserved in range(most_reserved(cluster, jobs), -1, -1):
        started, urgent = _started(cluster, jobs, reserved, pressing)
        everything = memory.selected == memory.candidates
        if started not in (before, usual) and urgent >= pressed:
            if cheapest < 0:
                _guess(cluster, jobs, guesses, rule)
                cheapest = _cost(model, arena, known, rule, best, horizon)
                cheapest -= rule.margin * _cycle(cluster)
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
    for place in range(record_of(cluster.memory).selected):
        job = cluster.selected[place]
        index = candidate_index(cluster, job)
        marks |= 1 << index
        if pressing >> index & 1:
            urgent += jobs.cores[job]
    return marks, urgent


@kernel()
def _cycle(cluster):
    """Return the energy of a boot and a shutdown, in minutes of the largest wasted power."""
    share = record_of(cluster.settings).share
    booting = share[SWITCHING_ON] * record_of(cluster.settings).on_minutes
    return booting + share[SWITCHING_OFF] * record_of(cluster.settings).off_minutes


@kernel()
def _guess(cluster, jobs, guesses, rule):
    """Fill in the guessed run times of the jobs in the system."""
    memory = record_of(cluster.memory)
    for place in range(memory.waiting):
        job = cluster.queue[place]
        guesses[job] = _guessed(cluster, jobs, job, 0, rule)
    for place in range(memory.ready):
        job = cluster.ready[place]
        guesses[job] = _guessed(cluster, jobs, job, 0, rule)
    for place in range(memory.running):
        job = cluster.running[place]
        guesses[job] = _guessed(cluster, jobs, job, memory.now - cluster.start[job], rule)


@kernel()
def _guessed(cluster, jobs, job, age, rule):
    walltime, took = jobs.walltime[job], cluster.last_run[jobs.user[job]]
    if took <= age:
        took = max(int(walltime * rule.first_guess), int(age * rule.growth))
    return min(max(took, age + 1), walltime)


@kernel()
def _cost(model, arena, jobs, rule, reserved, horizon):
    """Return the cost of a reservation that the adaptive rule follows, in minutes of the largest power."""
    real, cluster = cluster_at(model, arena, 0), _copied(model, arena, jobs)
    memory, totals, in_state = record_of(cluster.memory), record_of(cluster.totals), cluster.in_state
    share = record_of(cluster.settings).share
    totals.idle = totals.switching_on = totals.switching_off = 0
    action = reserved
    while memory.now < horizon:
        apply(cluster, jobs, action)
        pass_minute(cluster, jobs, horizon)
        if memory.waiting + memory.ready == 0:
            if rule.hindsight == 0 or memory.done == jobs.number:
                break
            until = quiet_until(cluster, jobs, horizon)
            if until > memory.now:
                add_minutes(cluster, until - memory.now)
        action = adaptive_reservation(cluster, jobs, rule)
    ending = (in_state[ON] + in_state[SWITCHING_ON]) * record_of(cluster.settings).off_minutes
    for node in range(cluster.nodes):
        if cluster.state[node] == SWITCHING_OFF:
            ending += cluster.until[node] - memory.now
    late = 0
    for place in range(record_of(real.memory).waiting):
        late += _becomes_late(real, cluster, jobs, real.queue[place])
    # Empty but for the clairvoyant rule.
    for job in range(record_of(real.memory).arrived, jobs.number):
        late += _becomes_late(real, cluster, jobs, job)
    wasted = share[ON] * totals.idle + share[SWITCHING_ON] * totals.switching_on
    wasted += share[SWITCHING_OFF] * (totals.switching_off + ending)
    return wasted + late * rule.late_cost * _cycle(cluster)


@kernel()
def _becomes_late(real, played, jobs, job):
    patience = record_of(real.settings).tau * jobs.walltime[job]
    in_time = record_of(real.memory).now - jobs.submit[job] < patience
    return in_time and played.start[job] - jobs.submit[job] >= patience


@kernel()
def _copied(model, arena, jobs):
    """Return cluster 1 of the arena as a copy of cluster 0 in which jobs end as guessed."""
    words = model.settings[0].words
    for word in range(words):
        arena.words[words + word] = arena.words[word]
    arena.memory[1], arena.totals[1] = arena.memory[0], arena.totals[0]
    cluster = cluster_at(model, arena, 1)
    memory = record_of(cluster.memory)
    memory.next_end = NEVER
    for place in range(memory.running):
        job = cluster.running[place]
        memory.next_end = min(memory.next_end, cluster.start[job] + min(jobs.run[job], jobs.walltime[job]))
    return cluster
