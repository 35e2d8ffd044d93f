"""What else a decision could have come to: the same moment lived through again with other candidates.

A run over past jobs can be taken up at any decision: everything that changes is copied, another candidate is
started, and the same policy goes on with the same submissions. What the branches come to differs by the
candidate alone, so a few of them say more about it than many runs would.
"""

from __future__ import annotations

import math

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.learners.kernels import advance, describe, score_candidates
from gridtune.systems.responsive.learners.loop import BY_VALUE, best_of, candidate_by_rule, fill_rows, live
from gridtune.systems.responsive.learners.relative import neediest_of
from gridtune.systems.responsive.simulator.accounts import fairness_now, pool_area, service_of
from gridtune.systems.responsive.simulator.candidates import count_candidates, start_candidate
from gridtune.systems.responsive.simulator.state import (
    AREA,
    ARRIVED,
    BOOKED,
    DECIDED,
    ELASTIC,
    HEAD,
    LARGEST_SHARE,
    NOW,
    OPTIONS,
    POOL,
    TAIL,
)
from gridtune.systems.responsive.simulator.stepping import advance_until_decision

__all__ = ["copy_mind", "copy_site", "live_and_branch", "live_and_weigh", "urgency", "worth"]


@kernel()
def copy_site(source, target):
    """Make one site's state that of another with the same jobs and settings."""
    one, other = source.state, target.state
    other.memory[:] = one.memory
    head, tail = one.memory[HEAD], one.memory[TAIL]
    other.waiting[head:tail] = one.waiting[head:tail]
    other.heap[:] = one.heap
    other.start[:] = one.start
    other.service[:] = one.service
    other.running[:] = one.running
    other.begun[:] = one.begun
    other.queued[:] = one.queued
    other.recent[:] = one.recent
    other.ordered[:] = one.ordered
    other.options[:] = one.options
    other.decided[:] = one.decided
    other.time[:] = one.time
    other.pool[:] = one.pool
    other.fairness[:] = one.fairness
    other.utilisation[:] = one.utilisation
    other.number[:] = one.number
    other.completed[:] = one.completed


@kernel()
def copy_mind(source, target):
    """Make what changes of one scheduler that of another with the same networks."""
    target.state[:] = source.state
    target.lore.logs[:] = source.lore.logs
    target.lore.weights[:] = source.lore.weights
    target.lore.known[:] = source.lore.known


@kernel()
def _worth_of(site, trial, job, end, weight, fairness):
    state, submit, run = trial.state, site.jobs.submit[job], site.jobs.run[job]
    start = state.start[job]
    begun = 0 <= start <= end
    if begun:
        fairness = state.fairness[state.number[job]]
    else:
        start = end
    responsiveness = weight * run / (run + start - submit)
    if site.settings.whole[ELASTIC] == 1:
        return responsiveness
    return responsiveness + (1.0 - weight) * fairness


@kernel()
def worth(site, trial, end, weight, price):
    """Return what a branch came to by a moment: λ W + (1 − λ) F over the jobs that it was about.

    They are those that waited when it branched off and those that came until `end`. Who still waits then
    counts as if started at that moment. On an elastic site λ W, less the price of the pool's core-seconds.

    Parameters
    ----------
    site
        Where it branched off.
    trial
        The branch, which has lived up to `end`.
    end
        The moment, second.
    weight, price
        λ, and what a core-second costs.
    """
    memory, jobs = site.state.memory, site.jobs
    fairness, total = fairness_now(trial), 0.0
    for place in range(memory[HEAD], memory[TAIL]):
        total += _worth_of(site, trial, site.state.waiting[place], end, weight, fairness)
    job = memory[ARRIVED]
    while job < jobs.submit.size and jobs.submit[job] <= end:
        total += _worth_of(site, trial, job, end, weight, fairness)
        job += 1
    if site.settings.whole[ELASTIC] == 1:
        now = trial.state.memory
        total -= price * (now[AREA] + now[POOL] * (end - now[BOOKED]) - pool_area(site))
    return total


@kernel()
def live_and_branch(
    site, mind, trial, thought, none, rule, epsilon, probes, branches, horizon, weight, price, rng, out
):
    """Live on to the end, and at some decisions try several candidates.

    Parameters
    ----------
    site, mind
        Before their first decision; both move on.
    trial, thought
        A site and a scheduler of the same kind, for the branches: overwritten.
    none
        A `Diary` of no decisions.
    rule, epsilon, rng
        As of `live`; branches go on by the rule, and draw nothing at random.
    probes
        Shape (c,), int64, ascending: decisions to branch off at.
    branches
        Candidates to try at each: the one that is taken, and others drawn, those of higher value likelier.
    horizon
        How long branches go on, seconds.
    weight, price
        As of `worth`.
    out
        Arrays (first, seen, value): shapes (c + 1,), int64; (c · branches, m, p) and (c · branches,),
        float64. Filled in: the branches of probe i stand from first[i] up to first[i + 1].
    """
    first, seen, value = out
    memory = site.state.memory
    rows, q = _room(mind, 64)
    due, filled = 0, 0
    first[0] = 0
    while advance_until_decision(site):
        count = count_candidates(site)
        if count > q.size:
            rows, q = _room(mind, 2 * count)
        fill_rows(site, mind, rows, count)
        if rule == BY_VALUE:
            score_candidates(mind.arrays, mind.state, rows[:count], mind.scratch, q)
            candidate = best_of(q, count)
        else:
            candidate = candidate_by_rule(site, rule, 1.0, 1.0, rng)
            q[:count] = 0.0
        if due < probes.size and probes[due] == memory[DECIDED]:
            if count > 1:
                chosen = _draw_branches(candidate, min(branches, count), count, q, rng)
                tried = rows[chosen]
                describe(mind.arrays, mind.state, tried, mind.scratch, seen[filled:])
                end = memory[NOW] + horizon
                for each in range(chosen.size):
                    copy_site(site, trial)
                    copy_mind(mind, thought)
                    advance(thought.arrays, thought.state, tried[each], thought.scratch)
                    start_candidate(trial, chosen[each])
                    live(trial, thought, none, rule, 0.0, site.jobs.submit.size, end, rng)
                    value[filled + each] = worth(site, trial, end, weight, price)
                filled += chosen.size
            due += 1
            first[due] = filled
        if epsilon > 0.0 and rng.random() < epsilon:
            candidate = min(int(rng.random() * count), count - 1)
        advance(mind.arrays, mind.state, rows[candidate], mind.scratch)
        start_candidate(site, candidate)


@kernel()
def urgency(site, job, weight, neediest, served):
    """Return half the logarithm of what starting a job now instead of a moment later is worth.

    Per second of that moment and per core-second that the job takes. Its W = run/(run + wait) falls by
    run/(run + wait)² a second: λ/(run + wait)² for each of its core-seconds. Service to the organisation
    that lacks most lifts F of all decisions until the job would have started anyway: ν of them a second,
    each by 1/(served · max w) for a core-second, (1 − λ) of which counts.

    Parameters
    ----------
    site, job
        A waiting job, whose real run time is known in hindsight.
    weight
        λ.
    neediest, served
        The organisation that lacks most, and the core-seconds of all so far.
    """
    memory, jobs = site.state.memory, site.jobs
    span = jobs.run[job] + memory[NOW] - jobs.submit[job]
    worth_of_it = weight / (float(span) * span)
    elapsed = memory[NOW] - jobs.submit[0]
    if site.settings.whole[ELASTIC] == 0 and jobs.vo[job] == neediest and served > 0 and elapsed > 0:
        rate = memory[DECIDED] / elapsed
        worth_of_it += (1.0 - weight) * rate / (served * site.settings.real[LARGEST_SHARE])
    # Nobody's urgency is nothing: a wait of thirty years stands for it.
    return 0.5 * math.log(worth_of_it + 1e-18)


@kernel()
def live_and_weigh(site, mind, rule, branches, weight, rng, out):
    """Live to the end under a rule, and note how urgent some candidates of each decision were.

    Parameters
    ----------
    site, mind
        Before their first decision; both move on.
    rule, branches, weight, rng
        As of `live_and_branch`; all candidates are as likely to be noted.
    out
        As of `live_and_branch`, by decision instead of by probe; and `asked`, shape (n · branches,), int64:
        the pool sizes of the candidates.
    """
    first, seen, value, asked = out
    memory = site.state.memory
    rows, q = _room(mind, 64)
    filled = 0
    first[0] = 0
    while advance_until_decision(site):
        count, decision = count_candidates(site), memory[DECIDED]
        if count > q.size:
            rows, q = _room(mind, 2 * count)
        fill_rows(site, mind, rows, count)
        candidate = candidate_by_rule(site, rule, 1.0, 1.0, rng)
        if count > 1:
            q[:count] = 0.0
            chosen = _draw_branches(candidate, min(branches, count), count, q, rng)
            describe(mind.arrays, mind.state, rows[chosen], mind.scratch, seen[filled:])
            neediest, served = neediest_of(site), 0
            for vo in range(site.settings.shares.size):
                served += service_of(site, vo)
            for each in chosen:
                job = site.state.waiting[memory[HEAD] + each // memory[OPTIONS]]
                value[filled] = urgency(site, job, weight, neediest, served)
                asked[filled] = site.state.options[each % memory[OPTIONS]]
                filled += 1
        first[decision + 1] = filled
        advance(mind.arrays, mind.state, rows[candidate], mind.scratch)
        start_candidate(site, candidate)


@kernel()
def _draw_branches(taken, number, count, q, rng):
    """Return the candidate that is taken and others: of each two that are drawn the one of higher value."""
    chosen = np.empty(number, np.int64)
    chosen[0], drawn = taken, 1
    while drawn < number:
        other = min(int(rng.random() * count), count - 1)
        rival = min(int(rng.random() * count), count - 1)
        if q[rival] > q[other]:
            other = rival
        known = False
        for place in range(drawn):
            known = known or chosen[place] == other
        # Where the best are drawn out, whoever is next to the one drawn.
        while known:
            other = (other + 1) % count
            known = False
            for place in range(drawn):
                known = known or chosen[place] == other
        chosen[drawn] = other
        drawn += 1
    return chosen


@kernel()
def _room(mind, candidates):
    return np.empty((candidates, mind.arrays.columns.size)), np.empty(candidates)
