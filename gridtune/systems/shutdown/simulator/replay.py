"""`replay`: simulate whole days under a rule, compiled; the rule sets the nodes to reserve each minute.

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

from typing import Literal, NamedTuple

import numpy as np

from gridtune.core.compiled import bare, kernel
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.state import (
    COMPUTING,
    NEVER,
    ON,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    TOTALS,
    DayJobs,
    Records,
    Variant,
    build_model,
    cluster_at,
    jobs_of,
)
from gridtune.systems.shutdown.simulator.stepping import (
    act,
    add_minutes,
    apply,
    candidate_index,
    insert_release,
    is_over,
    most_reserved,
    pass_minute,
    quiet_until,
    reset_cluster,
    select_jobs,
    unheld_nodes,
)
from gridtune.types import FloatArray, Int8Array, IntArray

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
def _decide(cluster, jobs, rule):
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
def _lookahead_reservation(model, arena, jobs, guesses, rule, horizon):
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
    known = DayJobs(state.arrived, jobs.submit, guesses, jobs.walltime, jobs.cores, jobs.rank, jobs.user)
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


Rule = Literal["always_on", "timeout", "oracle", "adaptive", "lookahead"]

#: A recorded minute: action and nodes reserved; then, at the minute's end, nodes by state, waiting jobs, and
#: the promise to the oldest one (-1: none).
_STATES = ("idle", "switching_on", "sleeping", "switching_off", "computing")
MINUTE = np.dtype([(name, np.int32) for name in ("action", "reserved", *_STATES, "waiting", "promise")])


class DayResults(NamedTuple):
    """The results of `n` replayed days.

    Attributes
    ----------
    totals
        Shape (n,), `state.TOTALS`: node-minutes `idle`, `switching_on`, `sleeping`, `switching_off`,
        `computing`; idle ones as the authors' monitor counts them, `reported_idle`; `core_minutes` of
        computing; nodes `switched_on` and `switched_off`.
    score
        Shape (n,): sum of rewards.
    minutes
        Shape (n,): length of the day.
    start
        Shape (jobs of all days,): minute of each job's start, -1 where it did not start or was not replayed.
    """

    totals: Records
    score: FloatArray
    minutes: IntArray
    start: IntArray


class _DayRecord(NamedTuple):
    """Days minute by minute.

    Attributes
    ----------
    minutes
        Shape (n, minutes), `MINUTE`: `action`, nodes `reserved`; then, at the minute's end, nodes `idle`,
        `switching_on`, `sleeping`, `switching_off` and `computing`, jobs `waiting`, and the `promise` to the
        oldest one (-1: none).
    rewards
        Shape (n, minutes).
    states
        Shape (n, minutes, nodes): each node's state during the minute: 0 idle, 1 switching on,
        2 sleeping, 3 switching off, 4 computing.
    """

    minutes: Records
    rewards: FloatArray
    states: Int8Array


def replay(
    days: Days,
    platform: Platform | None = None,
    *,
    rule: Rule | IntArray = "timeout",
    timeout: int | None = None,
    max_stretch: float = 0.5,
    max_wait: float | None = None,
    eagerness: float = 0.6,
    tau: float = 0.5,
    variant: Variant = "paper",
    until_done: bool = False,
    record: bool = False,
) -> tuple[DayResults, _DayRecord]:
    """Simulate days under a rule without leaving the compiled code.

    Parameters
    ----------
    days
        The days.
    platform
        The cluster; by default the paper's Taurus.
    rule
        `always_on` reserves nothing. `timeout` reserves sleeping nodes and those that have idled for
        `timeout` minutes. `oracle` is the paper's OR*: a timeout of 0 that keeps no cores free for jobs that
        can wait for running ones to end without waiting for `max_stretch` of their walltime; it reads actual
        run times. `adaptive` lets jobs wait for nodes that are on; it knows requested walltimes and the past.
        `lookahead` plays its choices forward. An array of shape (days, minutes), int64, holds the actions.
    timeout
        Idle minutes after which a node may be switched off; by default 1 with `timeout`, else 0.
    max_stretch
        Longest wait of a job as a share of its walltime, boot included. With 0 no job waits.
    max_wait
        Longest wait of a job in minutes, boot included; by default 60 with `adaptive`, else without limit.
    eagerness
        A job that could wait starts anyway if at most this share of its cores has to be switched on: with 0
        jobs start only on nodes that are on, with 1 always.
    tau, variant
        See `build_model`.
    until_done
        End a day as soon as all its jobs have ended.
    record
        Keep every minute; otherwise the record is empty.

    Returns
    -------
    DayResults, DayRecord
        The results, and the recorded minutes.
    """
    if until_done and record:
        raise SimulationError("days that last until all jobs are done cannot be recorded")
    cluster = platform or Platform()
    model = build_model(days, cluster, tau, variant, until_done)
    count, longest = len(days), int(days.minutes.max(initial=0))
    chosen, actions = np.zeros(1, RULE), np.zeros((0, 0), np.int64)
    if isinstance(rule, str):
        if rule not in RULES:
            raise SimulationError(f"no rule is named {rule!r}", hint=f"one of {', '.join(RULES[:RECORDED])}")
        kind = RULES.index(rule)
        timeout = int(kind == TIMEOUT) if timeout is None else timeout
        max_wait = (60 if kind == ADAPTIVE else np.inf) if max_wait is None else max_wait
        chosen[0] = (kind, timeout, max_stretch, max_wait, eagerness)
    else:
        if rule.shape != (count, longest):
            raise SimulationError(f"actions must have the shape {(count, longest)}, but have {rule.shape}")
        if rule.size and rule.min() < 0:
            raise SimulationError("an action is a number of nodes, but one is below 0")
        chosen["kind"], actions = RECORDED, np.ascontiguousarray(rule, np.int64)
    results = DayResults(
        np.zeros(count, TOTALS),
        np.zeros(count),
        np.zeros(count, np.int64),
        np.full(len(days.submit), -1, np.int64),
    )
    shape = (count if record else 0, longest)
    recorded = _DayRecord(
        np.zeros(shape, MINUTE), np.zeros(shape), np.zeros((*shape, cluster.nodes), np.int8)
    )
    _replay_days(model, model.new_arena(2), chosen, actions, results, recorded)
    return results, recorded


@kernel()
def _replay_days(model, arena, rules, actions, results, record):
    """Simulate all days of a model under a rule, on one cluster, and write their results.

    Minutes in which nothing can happen are skipped, unless the days are recorded.

    Parameters
    ----------
    model, arena
        The days on a platform, and memory for two clusters.
    rules
        Shape (1,), `RULE`.
    actions
        Under the rule `RECORDED`: shape (n, minutes), int64. Else anything of two dimensions.
    results
        The `DayResults` to fill in, a row for each day.
    record
        The `_DayRecord` to fill in, of shape (n, minutes, …), or with n = 0 for none.
    """
    cluster, rule = cluster_at(model, arena, 0), rules[0]
    state, guesses = cluster.state, np.zeros(model.first[-1] + 1, np.int64)
    recording = record.minutes.shape[0] > 0
    for day in range(model.minutes.size):
        jobs, horizon = jobs_of(model, day), model.minutes[day]
        reset_cluster(cluster, jobs, day)
        while not is_over(cluster, jobs, horizon):
            # No rule can do anything before that.
            until = -1 if recording else quiet_until(cluster, jobs, horizon)
            if until > state.now:
                add_minutes(cluster, until - state.now)
            now = state.now
            if rule.kind == RECORDED:
                action = actions[day, now]
            elif rule.kind == LOOKAHEAD:
                action = _lookahead_reservation(model, arena, jobs, bare(guesses), rule, horizon)
            else:
                action = _decide(cluster, jobs, rule)
            reward = act(cluster, jobs, action)
            if recording:
                record.rewards[day, now] = reward
                for node in range(cluster.nodes):
                    computing = cluster.busy[node] > 0
                    record.states[day, now, node] = COMPUTING if computing else cluster.power[node]
            pass_minute(cluster, jobs, horizon)
            if recording:
                _record_minute(cluster, action, record.minutes[day, now])
        results.totals[day] = cluster.totals
        results.score[day], results.minutes[day] = state.score, state.now
        for job in range(jobs.number):
            results.start[model.first[day] + job] = cluster.start[job]


@kernel()
def _record_minute(cluster, action, minute):
    state, in_state, idle = cluster.state, cluster.in_state, 0
    for node in range(cluster.nodes):
        if cluster.power[node] == ON and cluster.busy[node] == 0:
            idle += 1
    minute.action, minute.reserved = action, state.reserved
    minute.idle, minute.computing = idle, in_state[ON] - idle
    minute.switching_on, minute.sleeping = in_state[SWITCHING_ON], in_state[SLEEPING]
    minute.switching_off = in_state[SWITCHING_OFF]
    minute.waiting, minute.promise = state.waiting, state.promise
