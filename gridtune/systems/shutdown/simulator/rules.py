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

The clairvoyant rule `hindsight` is the same with the actual run times and all submissions, played to the end
of the day: a plan to hold others against, which nobody could follow.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from gridtune.core.compiled import kernel, record_of
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.state import (
    NEVER,
    ON,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    Jobs,
    Records,
    cluster_at,
)
from gridtune.systems.shutdown.simulator.stepping import (
    add_minutes,
    apply,
    candidate_index,
    insert_release,
    most_reserved,
    pass_minute,
    quiet_until,
    select_jobs,
    unheld_nodes,
)

__all__ = [
    "ADAPTIVE",
    "ALWAYS_ON",
    "LOOKAHEAD",
    "ORACLE",
    "RECORDED_ACTIONS",
    "TIMEOUT",
    "AdaptiveRule",
    "LookaheadRule",
    "decide",
    "lookahead_reservation",
    "rule_record",
]

#: Rules: reserve nothing; a timeout; the oracle OR*; an array of actions; the adaptive rule.
ALWAYS_ON, TIMEOUT, ORACLE, RECORDED_ACTIONS, ADAPTIVE, LOOKAHEAD = range(6)


@dataclass(frozen=True)
class AdaptiveRule:
    """Parameters of the adaptive rule: which jobs wait for running ones, and which idle nodes stay on.

    The rule knows requested walltimes and the past, but not how long jobs will run.

    Attributes
    ----------
    timeout
        Idle minutes after which a node may be switched off.
    max_stretch
        Longest wait of a job as a share of its walltime, boot included. With 0 no job waits, and the rule is
        a timeout.
    max_wait
        Longest wait of any job in minutes, boot included.
    eagerness
        A job that could wait starts anyway if at most this share of its cores has to be switched on: with 0
        jobs start only on nodes that are on, with 1 always.
    max_queue
        With more jobs than this in the queue, no job has to wait.
    rush_timeout, rush_jobs, rush_minutes
        Another timeout, if longer, while at least `rush_jobs` were submitted in the last `rush_minutes`.
    pool, pool_from, pool_until
        Idle nodes that stay on from one hour of the day until another (0 to 24).
    """

    timeout: float = 0
    max_stretch: float = 0.5
    max_wait: float = 60
    eagerness: float = 0.6
    max_queue: float = np.inf
    rush_timeout: float = 0
    rush_jobs: float = np.inf
    rush_minutes: float = 10
    pool: float = 0
    pool_from: float = 0
    pool_until: float = 24

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value >= 0:
                raise SimulationError(f"must be at least 0, but got {value}", field=field.name)
        if self.eagerness > 1:
            raise SimulationError(f"must be at most 1, but got {self.eagerness}", field="eagerness")


@dataclass(frozen=True)
class LookaheadRule(AdaptiveRule):
    """Parameters of the rule that plays each choice forward: those of the adaptive rule, and of its guesses.

    Attributes
    ----------
    first_guess
        Share of its walltime that a job is guessed to take if its user has no previous job.
    growth
        Multiple of its age that a job is guessed to take once it has run for longer than guessed.
    margin
        Energy that another choice than the adaptive rule's has to save, as a share of a boot and a shutdown.
    late_cost
        Cost of a job that starts late, in boots and shutdowns.
    run_times
        Whether actual run times are known, instead of guesses.
    hindsight
        Whether all submissions are known, too.
    """

    max_wait: float = np.inf
    first_guess: float = 0.1
    growth: float = 2.0
    margin: float = 0.5
    late_cost: float = 2.0
    run_times: bool = False
    hindsight: bool = False


#: A rule and its parameters. A timeout takes the first of them, the oracle the second.
RULE = np.dtype([("kind", np.int64), *((field.name, np.float64) for field in fields(LookaheadRule))])


def rule_record(kind: int, **parameters: float) -> Records:
    """Return a rule as the kernels take it: shape (1,), `RULE`."""
    record = np.zeros(1, RULE)
    for name, value in {"kind": kind, **parameters}.items():
        record[name] = value
    return record


MINUTES_AN_HOUR, HOURS_A_DAY = 60, 24


@kernel()
def _adaptive_reservation(cluster, jobs, rule):
    """Return the number of nodes to reserve in the coming minute."""
    unheld = unheld_nodes(cluster)
    reserved = _best_reservation(cluster, jobs, rule) if record_of(cluster.memory).candidates > 0 else unheld
    return min(reserved, unheld - _kept_on(cluster, jobs, rule))


@kernel()
def _best_reservation(cluster, jobs, rule):
    """Return the best reservation while jobs wait, without regard to nodes that are kept on."""
    memory, size, awake = record_of(cluster.memory), cluster.cores, 0
    for node in range(cluster.nodes):
        if cluster.state[node] in (ON, SWITCHING_ON):
            awake += cluster.free[node]
    pressing = _pressing_jobs(cluster, jobs, rule)
    best, best_urgent, best_value, best_started = 0, -1, 0.0, 0
    for reserved in range(most_reserved(cluster, jobs), -1, -1):
        select_jobs(cluster, jobs, reserved)
        started, urgent = 0, 0
        for place in range(memory.selected):
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
        if memory.selected == memory.candidates:
            # Every candidate starts: smaller reservations are no better.
            break
    return best


@kernel()
def _pressing_jobs(cluster, jobs, rule):
    """Return as bits which candidates would reach their limit if they waited another minute and a boot."""
    memory, marks = record_of(cluster.memory), 0
    crowded = memory.waiting > rule.max_queue
    for place in range(memory.candidates):
        job = cluster.candidates[place]
        limit = min(rule.max_stretch * jobs.walltime[job], rule.max_wait)
        if crowded or memory.now - jobs.submit[job] + 1 + record_of(cluster.settings).on_minutes >= limit:
            marks |= 1 << place
    return marks


@kernel()
def _kept_on(cluster, jobs, rule):
    """Return how many idle nodes to keep on: those that have not reached the timeout, and the pool."""
    memory = record_of(cluster.memory)
    timeout = rule.timeout
    if rule.rush_timeout > timeout:
        recent, job = 0, memory.arrived - 1
        while job >= 0 and jobs.submit[job] > memory.now - rule.rush_minutes:
            recent += 1
            job -= 1
        if recent >= rule.rush_jobs:
            timeout = rule.rush_timeout
    idle, kept = 0, 0
    for node in range(cluster.nodes):
        if cluster.state[node] == ON and cluster.free[node] == cluster.cores:
            idle += 1
            cluster.idle_minutes[node] += 1
            kept += cluster.idle_minutes[node] < timeout
        else:
            cluster.idle_minutes[node] = -1
    hour = memory.now // MINUTES_AN_HOUR % HOURS_A_DAY
    if rule.pool_from <= hour < rule.pool_until:
        kept = max(kept, min(int(rule.pool), idle))
    return kept


@kernel()
def decide(cluster, jobs, rule):
    """Return the action of a rule other than `RECORDED_ACTIONS` and `LOOKAHEAD`."""
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
    memory, candidates, free = record_of(cluster.memory), cluster.candidates, record_of(cluster.memory).free
    opened = True
    for place in range(memory.candidates):
        job = candidates[place]
        width = jobs.cores[job]
        if place == 0:
            opened = memory.promise == 0 or width <= free
            if opened:
                free -= width
        elif width <= free and (opened or jobs.walltime[job] <= memory.promise):
            free -= width
    return free


@kernel()
def _free_beside_urgent(cluster, jobs, max_stretch):
    """Return the same, but jobs that can wait for running ones to end claim no cores."""
    memory, candidates, free = record_of(cluster.memory), cluster.candidates, record_of(cluster.memory).free
    opened, releases = True, 0
    for place in range(memory.running):
        # By actual run times, if none is killed.
        job = cluster.running[place]
        left = cluster.start[job] + jobs.run[job] - memory.now
        releases = insert_release(cluster, releases, left, jobs.cores[job])
    for place in range(memory.candidates):
        job = candidates[place]
        width = jobs.cores[job]
        if place == 0:
            forced = memory.promise == 0
            opened = forced or width <= free
            claims = forced or (opened and not _can_wait(cluster, jobs, job, releases, max_stretch))
        else:
            fits = width <= free and (opened or jobs.walltime[job] <= memory.promise)
            claims = fits and not _can_wait(cluster, jobs, job, releases, max_stretch)
        if claims:
            free -= width
            releases = insert_release(cluster, releases, jobs.walltime[job], width)
    return free


@kernel()
def _can_wait(cluster, jobs, job, releases, max_stretch):
    """Return whether a job can wait until the cores it needs are free, or all of them."""
    waited, walltime = record_of(cluster.memory).now - jobs.submit[job], jobs.walltime[job]
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
        state = cluster.state[node]
        if state == ON and cluster.busy[node] == 0:
            cluster.idle_minutes[node] += 1
        else:
            cluster.idle_minutes[node] = -1
        if cluster.idle_minutes[node] >= timeout or state in (SLEEPING, SWITCHING_OFF):
            reserved += 1
            free -= cluster.cores
    return reserved


@kernel()
def lookahead_reservation(model, arena, jobs, guesses, rule, horizon):
    """Return how many nodes to reserve on cluster 0 of the arena; cluster 1 is memory for its copy.

    `guesses` is memory for the guessed run times of the day's jobs.
    """
    cluster = cluster_at(model, arena, 0)
    memory, most = record_of(cluster.memory), unheld_nodes(cluster) - _kept_on(cluster, jobs, rule)
    if memory.candidates == 0:
        return most
    pressing = _pressing_jobs(cluster, jobs, rule)
    best = _best_reservation(cluster, jobs, rule)
    usual, pressed = _started(cluster, jobs, best, pressing)
    known = jobs
    if rule.hindsight == 0:
        run = jobs.run if rule.run_times != 0 else guesses
        known = Jobs(memory.arrived, jobs.submit, run, jobs.walltime, jobs.cores, jobs.rank, jobs.user)
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
        action = _adaptive_reservation(cluster, jobs, rule)
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
