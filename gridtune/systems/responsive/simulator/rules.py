"""The simple rules, compiled; ties go to the job submitted first.

Rules that use run times see the expected ones: the real run time on a site with an oracle, otherwise what
completed jobs let expect. `FAIR_INDEX`, `GITTINS` and `LINEAR` take the estimate of the VO and class, the
others the median of the class; see `state`.
"""

from __future__ import annotations

import math

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.state import (
    KEPT,
    PRIOR_WEIGHT,
    class_estimate,
    fill_expected,
    service_of,
    total_service,
)

__all__ = ["EDF", "choose", "demanded"]

#: First come, first served; shortest job; interactive jobs first; earliest deadline; longest ratio of wait to
#: expected run time; one queue per VO, the VO with the largest deficit first; uniformly random.
FCFS, SJF, INTERACTIVE_FIRST, EDF, LONGEST_RATIO, FAIR_SHARE, RANDOM = range(7)
#: Last come, first served; interactive jobs first, the youngest of each class first; least (expected run time
#: + wait); largest expected loss of W per core-second; largest weighted sum; first come, first served with a
#: limit on each user's running jobs.
LIFO, YOUNGEST_INTERACTIVE, FAIR_INDEX, GITTINS, LINEAR, CAPPED_FCFS = range(7, 13)


@kernel()
def choose(site, rule, patience, rng):
    """Return the place, among the waiting jobs, of the one that a rule starts; -1 for none (`CAPPED_FCFS`).

    Parameters
    ----------
    site
        A decision is due on it.
    rule
        `FCFS` and so on.
    patience
        For `EDF`: the deadline is submission + (1 + `patience`) · expected run time.
    rng
        A Generator: one number is drawn for `RANDOM`, none otherwise.
    """
    memory = site.state.memory[0]
    waiting = memory.tail - memory.head
    if rule == CAPPED_FCFS:
        return _first_below_cap(site)
    if rule == FCFS or waiting == 1:
        return 0
    if rule == RANDOM:
        return min(int(rng.random() * waiting), waiting - 1)
    if rule == FAIR_SHARE:
        return _of_neediest(site)
    if rule >= FAIR_INDEX:
        return _by_organisation(site, rule)
    # Read once: every access to the site costs more than the arithmetic.
    jobs, queue, now = site.jobs, site.state.waiting[memory.head : memory.tail], memory.now
    submit, run, kind = jobs.submit, jobs.run, jobs.interactive
    oracle, batch, interactive = site.model[0].oracle, class_estimate(site, 0), class_estimate(site, 1)
    best, least = 0, math.inf
    for place in range(waiting):
        job = queue[place]
        expected = float(run[job]) if oracle else interactive if kind[job] == 1 else batch
        score = _score(rule, expected, kind[job], submit[job], now, patience)
        if score < least:
            best, least = place, score
    return best


@kernel()
def _score(rule, expected, interactive, submit, now, patience):
    """Return the score that a rule minimises."""
    if rule == INTERACTIVE_FIRST:
        return 1.0 - interactive
    if rule == SJF:
        return expected
    if rule == EDF:
        return submit + (1.0 + patience) * expected
    if rule == LONGEST_RATIO:
        return -(now - submit) / expected
    if rule == LIFO:
        return float(now - submit)
    # The youngest of its class: a wait of 30 years is less than the difference between the classes.
    return now - submit + 1e9 * (1.0 - interactive)


#: Scores are compared in steps of 1e-9.
SCORE_STEPS = 1e9


@kernel()
def _by_organisation(site, rule):
    """Return the waiting job with the least score of a rule that expects run times by VO and class."""
    state, jobs, memory = site.state, site.jobs, site.state.memory[0]
    oracle, total = site.model[0].oracle, total_service(site)
    fill_expected(site)
    best, least = 0, math.inf
    for place in range(memory.tail - memory.head):
        job = state.waiting[memory.head + place]
        vo, kind, wait = jobs.vo[job], jobs.interactive[job], memory.now - jobs.submit[job]
        expected = float(jobs.run[job]) if oracle else state.classes[vo, kind].expected
        if rule == FAIR_INDEX or (rule == GITTINS and oracle):
            score = expected + wait
        elif rule == GITTINS:
            score = -_expected_loss(site, vo, kind, wait)
        else:
            score = -_weighted_sum(site, vo, kind, expected, wait, total)
        # Equal scores that were summed in another order differ in their last bits.
        score = np.floor(score * SCORE_STEPS + 0.5)
        if score < least:
            best, least = place, score
    return best


@kernel()
def _expected_loss(site, vo, kind, wait):
    """Return E[S/(S + w)²]/E[S] over the last run times S of a VO and class: the loss of W per core-second.

    W = S/(S + w) falls by S/(S + w)² in a second. The median of the class counts as `PRIOR_WEIGHT` run times.
    """
    state = site.state
    prior = class_estimate(site, kind)
    loss, work = PRIOR_WEIGHT * prior / (prior + wait) ** 2, PRIOR_WEIGHT * prior
    for place in range(min(state.classes[vo, kind].seen, KEPT)):
        run = float(state.latest[vo, kind, place])
        loss += run / (run + wait) ** 2
        work += run
    return loss / work


@kernel()
def _weighted_sum(site, vo, kind, expected, wait, total):
    """Return the priority of a job under the linear rule, see `LinearWeights`."""
    model = site.model[0]
    share = service_of(site, vo) / total if total > 0 else 0.0
    return (
        model.run_weight * math.log(expected)
        + model.wait_weight * math.log1p(wait)
        + model.span_weight * math.log(expected + wait)
        + model.interactive_weight * kind
        + model.deficit_weight * (site.shares[vo] - share) / model.largest_share
    )


@kernel()
def _first_below_cap(site):
    """Return the first waiting job of a user with fewer running jobs than the cap; -1 without any."""
    state, memory = site.state, site.state.memory[0]
    for place in range(memory.tail - memory.head):
        if state.busy[site.jobs.user[state.waiting[memory.head + place]]] < site.model[0].user_cap:
            return place
    return -1


@kernel()
def _of_neediest(site):
    """Return the first waiting job of the VO that lacks most of its target share."""
    state, shares = site.state, site.shares
    memory, total = state.memory[0], total_service(site)
    neediest, most = -1, -math.inf
    for vo in range(shares.size):
        deficit = shares[vo] - service_of(site, vo) / total if total > 0 else shares[vo]
        if state.vos[vo].queued > 0 and deficit > most:
            neediest, most = vo, deficit
    place = 0
    while site.jobs.vo[state.waiting[memory.head + place]] != neediest:
        place += 1
    return place


@kernel()
def demanded(site, headroom):
    """Return `headroom` times the cores that running and waiting jobs need: the simple elastic rule."""
    memory = site.state.memory[0]
    return math.ceil(headroom * (memory.running + memory.tail - memory.head))
