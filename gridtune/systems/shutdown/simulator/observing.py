"""Observations of an agent, compiled: the authors' (`paper`), and the effects of reservations (`effects`).

`paper` is `FEATURES` numbers, by index, in the authors' scaling: 0–4 shares of the cores that are idle,
switching on, sleeping, switching off, computing; 5 time of day; 6 queue length; 7 promise to the oldest job;
then, for each of the ten candidates, its cores, walltime, wait as a share of the one after which it is late,
and its user's jobs in the system.

`effects` describes the effect of each reservation. Many reservations have the same effect: those above the
maximum are cut to it, and many others start the same jobs and switch off the same nodes. Every reservation
with an effect of its own gets a row that describes it, so that a policy compares effects and need not learn
the meaning of numbers of nodes. Besides the rows there are the state and the past: when jobs were submitted
and ended, how long running jobs have run, and the last run times of their users. Nothing in it depends on the
future.

It is `GLOBALS` numbers, `PER_JOB` numbers for each of the ten candidates, then `PER_ACTION` numbers for each
reservation from 0 to all nodes; the first of them is 1 if the reservation has a row. Of neighbours with the
same effect the largest has the row: it leaves the oldest job's start open.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gridtune.core.compiled import kernel, record_of
from gridtune.systems.shutdown.simulator.state import (
    FEATURES,
    MAX_CANDIDATES,
    ON,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
)
from gridtune.systems.shutdown.simulator.stepping import (
    candidate_index,
    most_reserved,
    select_jobs,
    unheld_nodes,
)
from gridtune.types import Float32Array

__all__ = [
    "GLOBALS",
    "LARGEST",
    "PER_ACTION",
    "PER_JOB",
    "Scales",
    "features_of",
    "has_choice",
    "observation_bounds",
    "observe",
    "observe_effects",
    "scales",
]

#: The queue length, minutes and jobs of a user that the authors scale to 1.
LONGEST_QUEUE, LONGEST_MINUTES, MOST_JOBS = 1500, 4400, 50
MINUTES_A_DAY = 1440


class Scales(NamedTuple):
    """Tables of logarithms: by queue length; by promise, at 1 + its minutes; by walltime."""

    queue: Float32Array
    promise: Float32Array
    walltime: Float32Array


def scales(longest: int) -> Scales:
    """Return the tables for walltimes of up to `longest` minutes."""

    def logarithms(limit: int, shift: int, scale: int) -> Float32Array:
        return np.array([math.log(n + shift) / math.log(scale) for n in range(limit + 1)], np.float32)

    return Scales(
        logarithms(LONGEST_QUEUE, 1, 1 + LONGEST_QUEUE),
        logarithms(longest + 1, 1, 2 + LONGEST_MINUTES),
        logarithms(longest, 1, 1 + LONGEST_MINUTES),
    )


def features_of(view: str, nodes: int) -> int:
    """Return the length of an observation of a cluster with that many nodes."""
    if view == "paper":
        return FEATURES
    return GLOBALS + MAX_CANDIDATES * PER_JOB + (nodes + 1) * PER_ACTION


def observation_bounds(longest: int, view: str, nodes: int) -> Float32Array:
    """Return upper bounds of an observation for walltimes up to `longest` minutes; the lower ones are 0."""
    if view == "effects":
        return np.full(features_of(view, nodes), LARGEST, np.float32)
    tables = scales(longest)
    high = np.ones(FEATURES, np.float32)
    high[7] = max(1.0, tables.promise[-1])
    high[9::4] = max(1.0, tables.walltime[-1])
    return high


@kernel()
def observe(cluster, jobs, scale, row):
    """Write the observation of the cluster into `row`: `FEATURES` floats."""
    memory, in_state, cores = record_of(cluster.memory), cluster.in_state, cluster.cores
    total = cluster.nodes * cores
    row[0] = (cores * in_state[ON] - memory.busy) / total
    row[1] = cores * in_state[SWITCHING_ON] / total
    row[2] = cores * in_state[SLEEPING] / total
    row[3] = cores * in_state[SWITCHING_OFF] / total
    row[4] = memory.busy / total
    row[5] = memory.now % MINUTES_A_DAY / MINUTES_A_DAY
    row[6] = scale.queue[min(memory.waiting, LONGEST_QUEUE)]
    row[7] = scale.promise[memory.promise + 1]
    candidates = memory.candidates
    for place in range(candidates):
        job, at = cluster.candidates[place], 8 + 4 * place
        walltime, wait = jobs.walltime[job], memory.now - jobs.submit[job]
        patience = walltime * record_of(cluster.settings).tau
        row[at] = jobs.cores[job] / total
        row[at + 1] = scale.walltime[walltime]
        # A job that may not wait is late from the start.
        row[at + 2] = min(1.0, wait / patience) if patience > 0 else 1.0
        row[at + 3] = min(1.0, cluster.users[jobs.user[job]] / MOST_JOBS)
    for at in range(8 + 4 * candidates, FEATURES):
        row[at] = 0.0


GLOBALS, PER_JOB, PER_ACTION = 34, 8, 14
#: The largest value in an observation.
LARGEST = 4.0
#: Windows of past submissions, in minutes; age classes of running jobs; horizons, in minutes, for which ends
#: are expected from the run times of the users' previous jobs.
RECENT, AGES, AHEAD = (5, 30, 120), (2, 10, 60), (1, 5, 15, 60)


@kernel()
def _log(number):
    """Return a logarithm that is 0 for 0 and about 1 for the minutes of a day."""
    return min(math.log(1.0 + max(number, 0)) / 7.3, 4.0)


@kernel()
def _urgency(cluster, jobs, job):
    """Return a job's wait as a share of the wait after which it is late; at most 2."""
    wait, patience = (
        record_of(cluster.memory).now - jobs.submit[job],
        jobs.walltime[job] * record_of(cluster.settings).tau,
    )
    return min(wait / patience, 2.0) if patience > 0 else 2.0


@kernel()
def observe_effects(cluster, jobs, row):
    """Write the observation into `row`: `GLOBALS` + 10 · `PER_JOB` + (nodes + 1) · `PER_ACTION` floats."""
    _observe_nodes(cluster, jobs, row)
    _observe_past(cluster, jobs, row)
    _observe_running(cluster, jobs, row)
    _observe_candidates(cluster, jobs, row, GLOBALS)
    _observe_actions(cluster, jobs, row, GLOBALS + MAX_CANDIDATES * PER_JOB)


@kernel()
def _observe_nodes(cluster, jobs, row):
    memory, vacant, nodes = record_of(cluster.memory), cluster.vacant, cluster.nodes
    total = nodes * cluster.cores
    angle = 2 * math.pi * memory.now / MINUTES_A_DAY
    left = max(MINUTES_A_DAY - memory.now, 0)
    row[0] = vacant[ON] / nodes
    row[1] = vacant[SWITCHING_ON] / nodes
    row[2] = vacant[SLEEPING] / nodes
    row[3] = vacant[SWITCHING_OFF] / nodes
    row[4] = (memory.free - cluster.cores * unheld_nodes(cluster)) / total
    row[5] = memory.busy / total
    row[6] = memory.computing / nodes
    row[7] = (1 + math.sin(angle)) / 2
    row[8] = (1 + math.cos(angle)) / 2
    row[9] = left / MINUTES_A_DAY
    row[10] = math.exp(-left / 30.0)
    row[11] = _log(memory.waiting)
    row[12] = _log(memory.promise)
    row[13] = 1.0 if memory.waiting > 0 and memory.promise == 0 else 0.0


@kernel()
def _observe_past(cluster, jobs, row):
    """Write when jobs were submitted and ended."""
    memory = record_of(cluster.memory)
    now, last = memory.now, memory.arrived - 1
    row[14] = _log(now - jobs.submit[last]) if last >= 0 else _log(now)
    first, second, third = 0, 0, 0
    place = last
    while place >= 0 and now - jobs.submit[place] < RECENT[2]:
        age = now - jobs.submit[place]
        third += 1
        second += age < RECENT[1]
        first += age < RECENT[0]
        place -= 1
    row[15], row[16], row[17] = _log(first), _log(second), _log(third)
    row[18] = _log(now - memory.last_end)
    row[19] = jobs.cores[last] / (cluster.nodes * cluster.cores) if last >= 0 else 0.0
    row[19] = min(row[19], 1.0)
    row[20] = _log(jobs.walltime[last]) if last >= 0 else 0.0


@kernel()
def _observe_running(cluster, jobs, row):
    """Write the ages of running jobs, and when they end if they take as long as their users' last jobs."""
    memory = record_of(cluster.memory)
    total = cluster.nodes * cluster.cores
    for place in range(21, GLOBALS):
        row[place] = 0.0
    row[21] = _log(memory.running)
    for place in range(memory.running):
        job = cluster.running[place]
        age, share = memory.now - cluster.start[job], jobs.cores[job] / total
        bin_ = 0
        while bin_ < 3 and age >= AGES[bin_]:
            bin_ += 1
        row[22 + bin_] += share
        took = cluster.last_run[jobs.user[job]]
        if took < age:
            # The user has no previous job, or the job takes longer than that one.
            row[30] += share
            continue
        left = min(took, jobs.walltime[job]) - age
        for ahead in range(4):
            if left <= AHEAD[ahead]:
                row[26 + ahead] += share
    demand = 0
    for place in range(memory.candidates):
        demand += jobs.cores[cluster.candidates[place]]
    row[31] = min(demand / total, 4.0)
    row[32] = memory.candidates / MAX_CANDIDATES
    row[33] = 1.0


@kernel()
def _observe_candidates(cluster, jobs, row, at):
    memory = record_of(cluster.memory)
    total = cluster.nodes * cluster.cores
    for place in range(memory.candidates):
        job = cluster.candidates[place]
        wait, patience = memory.now - jobs.submit[job], jobs.walltime[job] * record_of(cluster.settings).tau
        took = cluster.last_run[jobs.user[job]]
        row[at] = jobs.cores[job] / total
        row[at + 1] = _log(jobs.walltime[job])
        row[at + 2] = _urgency(cluster, jobs, job)
        row[at + 3] = _log(patience - wait)
        row[at + 4] = _log(wait)
        row[at + 5] = _log(cluster.users[jobs.user[job]])
        row[at + 6] = 1.0 if took >= 0 else 0.0
        row[at + 7] = _log(took)
        at += PER_JOB
    for place in range(at, GLOBALS + MAX_CANDIDATES * PER_JOB):
        row[place] = 0.0


@kernel()
def _marks(cluster, jobs, reserved):
    """Return as bits which candidates a pass starts with that reservation."""
    select_jobs(cluster, jobs, reserved)
    marks = 0
    for place in range(record_of(cluster.memory).selected):
        marks |= 1 << candidate_index(cluster, cluster.selected[place])
    return marks


@kernel()
def has_choice(cluster, jobs):
    """Return whether there are reservations with different effects."""
    memory, vacant = record_of(cluster.memory), cluster.vacant
    if memory.candidates == 0:
        return vacant[ON] > 0
    most = most_reserved(cluster, jobs)
    if most > vacant[SLEEPING] + vacant[SWITCHING_OFF]:
        return True
    marks = _marks(cluster, jobs, most)
    for reserved in range(most):  # noqa: SIM110 (compiled)
        if _marks(cluster, jobs, reserved) != marks:
            return True
    return False


@kernel()
def _observe_actions(cluster, jobs, row, at):
    """Write a row for each reservation; zeros for those with the same effect as another."""
    memory, vacant = record_of(cluster.memory), cluster.vacant
    for place in range(at, at + (cluster.nodes + 1) * PER_ACTION):
        row[place] = 0.0
    asleep = vacant[SLEEPING] + vacant[SWITCHING_OFF]
    off_before, marks_before = -1, -1
    reserved = most_reserved(cluster, jobs)
    while reserved >= 0:
        off = max(reserved - asleep, 0)
        marks = _marks(cluster, jobs, reserved) if memory.candidates > 0 else 0
        if off != off_before or marks != marks_before:
            _observe_effect(cluster, jobs, row, at + reserved * PER_ACTION, reserved, off, marks)
        off_before, marks_before = off, marks
        reserved -= 1


@kernel()
def _observe_effect(cluster, jobs, row, at, reserved, off, marks):
    """Write the effect of starting these candidates and switching so many nodes off."""
    memory, vacant, nodes, size = record_of(cluster.memory), cluster.vacant, cluster.nodes, cluster.cores
    total = nodes * size
    started, cores, walltimes, past_runs = 0, 0, 0.0, 0.0
    pressing, left_pressing, late_left, with_past = 0.0, 0.0, 0, 0
    for place in range(memory.candidates):
        job = cluster.candidates[place]
        urgency = _urgency(cluster, jobs, job)
        if marks >> place & 1:
            started += 1
            cores += jobs.cores[job]
            walltimes += _log(jobs.walltime[job])
            pressing = max(pressing, urgency)
            took = cluster.last_run[jobs.user[job]]
            if took >= 0:
                with_past += 1
                past_runs += _log(took)
        else:
            left_pressing = max(left_pressing, urgency)
            if urgency >= 1:
                late_left += jobs.cores[job]
    partly_free = memory.free - size * unheld_nodes(cluster)
    whole = max(cores - partly_free + size - 1, 0) // size
    awake = vacant[ON] + vacant[SWITCHING_ON] - off
    row[at] = 1.0
    row[at + 1] = reserved / nodes
    row[at + 2] = started / MAX_CANDIDATES
    row[at + 3] = cores / total
    row[at + 4] = max(whole - awake, 0) / nodes
    row[at + 5] = off / nodes
    row[at + 6] = max(awake - whole, 0) / nodes
    row[at + 7] = pressing
    row[at + 8] = left_pressing
    row[at + 9] = min(late_left / total, 4.0)
    row[at + 10] = walltimes / max(started, 1)
    row[at + 11] = past_runs / max(with_past, 1)
    row[at + 12] = with_past / max(started, 1)
    row[at + 13] = 1.0 if whole > awake else 0.0
