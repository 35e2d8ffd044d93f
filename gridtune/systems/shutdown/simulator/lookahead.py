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

from gridtune.core.compiled import kernel
from gridtune.systems.shutdown.simulator.observing import most_reserved
from gridtune.systems.shutdown.simulator.rules import (
    FIRST_GUESS,
    GROWTH,
    HINDSIGHT,
    LATE_COST,
    MARGIN,
    adaptive_reservation,
    best_reservation,
    kept_on,
    pressing_jobs,
)
from gridtune.systems.shutdown.simulator.scheduling import candidate_index, select_jobs
from gridtune.systems.shutdown.simulator.state import (
    ARRIVED,
    CANDIDATES,
    DONE,
    NEVER,
    NEXT_END,
    NODES,
    NOW,
    ON,
    READY,
    RUNNING,
    SELECTED,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    TAU,
    WAITING,
    Jobs,
    cluster_at,
)
from gridtune.systems.shutdown.simulator.stepping import add_minutes, apply, pass_minute, quiet_until

__all__ = ["lookahead_reservation"]


@kernel()
def lookahead_reservation(settings, arena, jobs, guesses, numbers, horizon):
    """Return how many nodes to reserve on cluster 0 of the arena; cluster 1 is memory for its copy.

    `guesses` is memory for the guessed run times of the day's jobs.
    """
    cluster = cluster_at(settings, arena, 0)
    memory, vacant = cluster.memory, cluster.vacant
    unallocated = vacant[ON] + vacant[SWITCHING_ON] + vacant[SLEEPING] + vacant[SWITCHING_OFF]
    most = unallocated - kept_on(cluster, jobs, numbers)
    if memory[CANDIDATES] == 0:
        return most
    pressing = pressing_jobs(cluster, jobs, numbers)
    best = best_reservation(cluster, jobs, numbers, unallocated)
    usual, pressed = _started(cluster, jobs, best, pressing)
    known = jobs
    if numbers[HINDSIGHT] == 0:
        known = Jobs(memory[ARRIVED], jobs.submit, guesses, jobs.walltime, jobs.cores, jobs.rank, jobs.user)
    cheapest, before = -1.0, usual
    for reserved in range(most_reserved(cluster, jobs), -1, -1):
        started, urgent = _started(cluster, jobs, reserved, pressing)
        everything = memory[SELECTED] == memory[CANDIDATES]
        if started not in (before, usual) and urgent >= pressed:
            if cheapest < 0:
                _guess(cluster, jobs, guesses, numbers)
                cheapest = _cost(settings, arena, known, numbers, best, horizon)
                cheapest -= numbers[MARGIN] * _cycle(cluster)
            cost = _cost(settings, arena, known, numbers, reserved, horizon)
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
    for place in range(cluster.memory[SELECTED]):
        job = cluster.selected[place]
        index = candidate_index(cluster, job)
        marks |= 1 << index
        if pressing >> index & 1:
            urgent += jobs.cores[job]
    return marks, urgent


@kernel()
def _cycle(cluster):
    """Return the energy of a boot and a shutdown, in minutes of the largest wasted power."""
    share = cluster.share
    return share[SWITCHING_ON] * cluster.on_minutes + share[SWITCHING_OFF] * cluster.off_minutes


@kernel()
def _guess(cluster, jobs, guesses, numbers):
    """Fill in the guessed run times of the jobs in the system."""
    memory = cluster.memory
    for place in range(memory[WAITING]):
        job = cluster.queue[place]
        guesses[job] = _guessed(cluster, jobs, job, 0, numbers)
    for place in range(memory[READY]):
        job = cluster.ready[place]
        guesses[job] = _guessed(cluster, jobs, job, 0, numbers)
    for place in range(memory[RUNNING]):
        job = cluster.running[place]
        guesses[job] = _guessed(cluster, jobs, job, memory[NOW] - cluster.start[job], numbers)


@kernel()
def _guessed(cluster, jobs, job, age, numbers):
    walltime, took = jobs.walltime[job], cluster.last_run[jobs.user[job]]
    if took <= age:
        took = max(int(walltime * numbers[FIRST_GUESS]), int(age * numbers[GROWTH]))
    return min(max(took, age + 1), walltime)


@kernel()
def _cost(settings, arena, jobs, numbers, reserved, horizon):
    """Return the cost of a reservation that the adaptive rule follows, in minutes of the largest power."""
    real, cluster = cluster_at(settings, arena, 0), _copied(settings, arena, jobs)
    memory, totals, share, in_state = cluster.memory, cluster.totals, cluster.share, cluster.in_state
    totals[ON] = totals[SWITCHING_ON] = totals[SWITCHING_OFF] = 0
    action = reserved
    while memory[NOW] < horizon:
        apply(cluster, jobs, action)
        pass_minute(cluster, jobs, horizon)
        if memory[WAITING] + memory[READY] == 0:
            if numbers[HINDSIGHT] == 0 or memory[DONE] == jobs.number:
                break
            until = quiet_until(cluster, jobs, horizon)
            if until > memory[NOW]:
                add_minutes(cluster, until - memory[NOW])
        action = adaptive_reservation(cluster, jobs, numbers)
    ending = (in_state[ON] + in_state[SWITCHING_ON]) * cluster.off_minutes
    for node in range(cluster.nodes):
        if cluster.state[node] == SWITCHING_OFF:
            ending += cluster.until[node] - memory[NOW]
    late = 0
    for place in range(real.memory[WAITING]):
        late += _becomes_late(real, cluster, jobs, real.queue[place])
    # Empty but for the clairvoyant rule.
    for job in range(real.memory[ARRIVED], jobs.number):
        late += _becomes_late(real, cluster, jobs, job)
    wasted = share[ON] * totals[ON] + share[SWITCHING_ON] * totals[SWITCHING_ON]
    wasted += share[SWITCHING_OFF] * (totals[SWITCHING_OFF] + ending)
    return wasted + late * numbers[LATE_COST] * _cycle(cluster)


@kernel()
def _becomes_late(real, played, jobs, job):
    patience = real.share[TAU] * jobs.walltime[job]
    in_time = real.memory[NOW] - jobs.submit[job] < patience
    return in_time and played.start[job] - jobs.submit[job] >= patience


@kernel()
def _copied(settings, arena, jobs):
    """Return cluster 1 of the arena as a copy of cluster 0 in which jobs end as guessed."""
    words, reals = settings.starts[-1], settings.whole[NODES] + 1
    for word in range(words):
        arena.whole[words + word] = arena.whole[word]
    for place in range(reals):
        arena.real[reals + place] = arena.real[place]
    cluster = cluster_at(settings, arena, 1)
    memory = cluster.memory
    memory[NEXT_END] = NEVER
    for place in range(memory[RUNNING]):
        job = cluster.running[place]
        memory[NEXT_END] = min(memory[NEXT_END], cluster.start[job] + min(jobs.run[job], jobs.walltime[job]))
    return cluster
