"""Outcomes of the alternatives of a decision: several candidates tried from the same instant on.

A run over past jobs can branch at any decision: the whole state is copied, another candidate is started, and
the same policy goes on with the same submissions. Branches differ only by the candidate, so a few of them say
more about it than many runs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.learners.inputs import neediest_of
from gridtune.systems.responsive.learners.networks import advance, describe, score_candidates
from gridtune.systems.responsive.learners.runs import (
    BY_VALUE,
    best_of,
    candidate_by_rule,
    fill_rows,
    run_site,
    with_room,
)
from gridtune.systems.responsive.simulator.candidates import count_candidates, start_candidate
from gridtune.systems.responsive.simulator.state import fairness_now, pool_area, total_service
from gridtune.systems.responsive.simulator.stepping import advance_until_decision
from gridtune.types import IntArray

__all__ = ["BranchingPlan", "copy_site", "run_and_branch", "run_and_weigh", "urgency"]


@kernel()
def copy_site(source, target):
    """Copy the state of one site to another with the same jobs and model."""
    one, other = source.state, target.state
    head, tail = one.memory[0].head, one.memory[0].tail
    other.waiting[head:tail] = one.waiting[head:tail]
    other.memory[:] = one.memory
    other.heap[:] = one.heap
    other.start[:] = one.start
    other.number[:] = one.number
    other.vos[:] = one.vos
    other.classes[:] = one.classes
    other.latest[:] = one.latest
    other.recent[:] = one.recent
    other.ordered[:] = one.ordered
    other.completed_of[:] = one.completed_of
    other.busy[:] = one.busy
    other.options[:] = one.options
    other.decisions[:] = one.decisions
    other.completed[:] = one.completed
    other.booting[:] = one.booting
    other.idle[:] = one.idle
    other.wishes[:] = one.wishes


class BranchingPlan(NamedTuple):
    """The decisions at which a run branches, and the trials.

    Attributes
    ----------
    probes
        Shape (c,), int64, ascending: the decisions.
    branches
        Number of candidates to try at each: the chosen one, and random others, preferably of high value.
    horizon
        Length of a branch, seconds.
    weight, price
        λ, and the price of a core-second, see `_branch_value`.
    """

    probes: IntArray
    branches: int
    horizon: int
    weight: float
    price: float


@kernel()
def _job_value(site, trial, job, end, weight, fairness):
    state, submit, run = trial.state, site.jobs.submit[job], site.jobs.run[job]
    start = state.start[job]
    begun = 0 <= start <= end
    if begun:
        fairness = state.decisions[state.number[job]].fairness
    else:
        start = end
    responsiveness = weight * run / (run + start - submit)
    if site.model[0].elastic:
        return responsiveness
    return responsiveness + (1.0 - weight) * fairness


@kernel()
def _branch_value(site, trial, end, weight, price):
    """Return the value of a branch at an instant: λ W + (1 − λ) F over the jobs that it affected.

    These are the jobs that waited when it branched off and those submitted until `end`. A job that still
    waits then counts as started at that instant. On an elastic site the value is λ W minus the price of the
    pool's core-seconds.

    Parameters
    ----------
    site
        The site where it branched off.
    trial
        The branch, simulated up to `end`.
    end
        The instant, second.
    weight, price
        λ, and the price of a core-second.
    """
    memory, jobs = site.state.memory[0], site.jobs
    fairness, total = fairness_now(trial), 0.0
    for place in range(memory.head, memory.tail):
        total += _job_value(site, trial, site.state.waiting[place], end, weight, fairness)
    job = memory.arrived
    while job < jobs.submit.size and jobs.submit[job] <= end:
        total += _job_value(site, trial, job, end, weight, fairness)
        job += 1
    if site.model[0].elastic:
        now = trial.state.memory[0]
        total -= price * (now.area + now.pool * (end - now.booked) - pool_area(site))
    return total


@kernel()
def run_and_branch(site, learner, trial, plan, epsilon, rng, out):
    """Run to the end by value, and try several candidates at some decisions.

    Parameters
    ----------
    site, learner
        Before their first decision; both are changed.
    trial
        A site and a learner of the same kind, for the branches: overwritten.
    plan
        The `BranchingPlan`.
    epsilon, rng
        See `run_site`; branches have no random decisions.
    out
        Arrays (first, phi, value): shapes (c + 1,), int64; (c · branches, m, p) and (c · branches,),
        float64. Filled in: the branches of probe i are those from first[i] up to first[i + 1].
    """
    first, phi, value = out
    trial_site, trial_learner = trial
    memory = site.state.memory[0]
    rows, q = np.empty((64, learner.arrays.columns.size)), np.empty(64)
    due, filled = 0, 0
    first[0] = 0
    while advance_until_decision(site):
        count = count_candidates(site)
        rows, q = with_room(rows, q, count)
        fill_rows(site, learner, rows, count)
        score_candidates(learner.arrays, learner.state, rows[:count], learner.scratch, q)
        candidate = best_of(q, 0, count, 1)
        if due < plan.probes.size and plan.probes[due] == memory.decided:
            if count > 1:
                drawn = _draw_branches(candidate, min(plan.branches, count), count, q, rng)
                drawn_rows = rows[drawn]
                describe(learner.arrays, learner.state, drawn_rows, learner.scratch, phi[filled:])
                end = memory.now + plan.horizon
                for branch in range(drawn.size):
                    copy_site(site, trial_site)
                    trial_learner.state[:] = learner.state
                    advance(learner.arrays, trial_learner.state, drawn_rows[branch], trial_learner.scratch)
                    start_candidate(trial_site, drawn[branch])
                    run_site(trial_site, trial_learner, BY_VALUE, 0.0, 0.0, site.jobs.submit.size, end, rng)
                    value[filled + branch] = _branch_value(site, trial_site, end, plan.weight, plan.price)
                filled += drawn.size
            due += 1
            first[due] = filled
        if epsilon > 0.0 and rng.random() < epsilon:
            candidate = min(int(rng.random() * count), count - 1)
        advance(learner.arrays, learner.state, rows[candidate], learner.scratch)
        start_candidate(site, candidate)


@kernel()
def urgency(site, job, weight, neediest, served):
    """Return half the logarithm of the value of starting a job now instead of a little later.

    The value is per second of delay and per core-second of the job. Its W = run/(run + wait) falls by
    run/(run + wait)² a second: λ/(run + wait)² for each of its core-seconds. Service to the organisation
    with the largest deficit raises F of all decisions until the job would have started anyway: ν of them a
    second, each by 1/(served · max w) for a core-second, weighted by (1 − λ).

    Parameters
    ----------
    site, job
        A waiting job, whose real run time is known in hindsight.
    weight
        λ.
    neediest, served
        The organisation with the largest deficit, and the core-seconds of all so far.
    """
    memory, jobs = site.state.memory[0], site.jobs
    span = jobs.run[job] + memory.now - jobs.submit[job]
    value = weight / (float(span) * span)
    elapsed = memory.now - jobs.submit[0]
    if not site.model[0].elastic and jobs.vo[job] == neediest and served > 0 and elapsed > 0:
        rate = memory.decided / elapsed
        value += (1.0 - weight) * rate / (served * site.model[0].largest_share)
    # A wait of thirty years stands for no urgency, so that the logarithm is finite.
    return 0.5 * math.log(value + 1e-18)


@kernel()
def run_and_weigh(site, learner, rule, branches, weight, rng, out):
    """Run to the end under a rule, and record the urgency of some candidates of each decision.

    Parameters
    ----------
    site, learner
        Before their first decision; both are changed.
    rule, rng
        See `run_site`.
    branches, weight
        Number of candidates to record, drawn uniformly, and λ.
    out
        As in `run_and_branch`, by decision instead of by probe; and `sizes`, shape (n · branches,), int64:
        the pool sizes of the candidates.
    """
    first, phi, value, sizes = out
    memory = site.state.memory[0]
    rows, q = np.empty((64, learner.arrays.columns.size)), np.empty(64)
    filled = 0
    first[0] = 0
    while advance_until_decision(site):
        count, decision = count_candidates(site), memory.decided
        rows, q = with_room(rows, q, count)
        fill_rows(site, learner, rows, count)
        candidate = candidate_by_rule(site, rule, 1.0, 1.0, rng)
        if count > 1:
            q[:count] = 0.0
            drawn = _draw_branches(candidate, min(branches, count), count, q, rng)
            describe(learner.arrays, learner.state, rows[drawn], learner.scratch, phi[filled:])
            neediest, served = neediest_of(site), total_service(site)
            for other in drawn:
                job = site.state.waiting[memory.head + other // memory.options]
                value[filled] = urgency(site, job, weight, neediest, served)
                sizes[filled] = site.state.options[other % memory.options]
                filled += 1
        first[decision + 1] = filled
        advance(learner.arrays, learner.state, rows[candidate], learner.scratch)
        start_candidate(site, candidate)


@kernel()
def _draw_branches(candidate, number, count, q, rng):
    """Return the chosen candidate and others: of every two that are drawn, the one of higher value."""
    drawn = np.empty(number, np.int64)
    drawn[0], filled = candidate, 1
    while filled < number:
        other = min(int(rng.random() * count), count - 1)
        rival = min(int(rng.random() * count), count - 1)
        if q[rival] > q[other]:
            other = rival
        # If it has been drawn before, the next one that has not.
        while (drawn[:filled] == other).any():
            other = (other + 1) % count
        drawn[filled] = other
        filled += 1
    return drawn
