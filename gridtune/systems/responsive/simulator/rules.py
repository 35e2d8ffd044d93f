"""Whom the simple rules take, compiled; ties go to the job submitted first.

`SJF` and the others that look at execution times see what is expected (`expected_time`): the truth on a site
with an oracle, else the median of the class.
"""

from __future__ import annotations

import math

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.accounts import service_of
from gridtune.systems.responsive.simulator.estimates import class_estimate
from gridtune.systems.responsive.simulator.state import HEAD, NOW, ORACLE, RUNNING, TAIL

__all__ = [
    "EDF",
    "FAIR_SHARE",
    "FCFS",
    "INTERACTIVE_FIRST",
    "LONGEST_RATIO",
    "RANDOM",
    "SJF",
    "choose",
    "demanded",
]

#: First come; shortest expected; interactive ones first; earliest deadline; longest wait as a ratio of the
#: expected time; one queue per VO, the VO that lacks most of its share first; any, each as likely.
FCFS, SJF, INTERACTIVE_FIRST, EDF, LONGEST_RATIO, FAIR_SHARE, RANDOM = range(7)


@kernel()
def choose(site, rule, patience, rng):
    """Return the place, among the waiting jobs, of the one that a rule takes.

    Parameters
    ----------
    site
        A decision is due on it.
    rule
        `FCFS` and so on.
    patience
        For `EDF`: a job is due when it has waited `patience` times its expected execution time and run.
    rng
        A Generator: one number is drawn for `RANDOM`, none otherwise.
    """
    memory = site.state.memory
    waiting = memory[TAIL] - memory[HEAD]
    if rule == FCFS or waiting == 1:
        return 0
    if rule == RANDOM:
        return min(int(rng.random() * waiting), waiting - 1)
    if rule == FAIR_SHARE:
        return _of_neediest(site)
    # Taken out of the site once: each look into it costs more than what is done with it.
    jobs, queue, now = site.jobs, site.state.waiting[memory[HEAD] : memory[TAIL]], memory[NOW]
    submit, run, kind = jobs.submit, jobs.run, jobs.interactive
    oracle, batch, interactive = (
        site.settings.whole[ORACLE] == 1,
        class_estimate(site, 0),
        class_estimate(site, 1),
    )
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
    """Return what a rule takes the least of."""
    if rule == INTERACTIVE_FIRST:
        return 1.0 - interactive
    if rule == SJF:
        return expected
    if rule == EDF:
        return submit + (1.0 + patience) * expected
    return -(now - submit) / expected


@kernel()
def _of_neediest(site):
    """Return the first waiting job of the VO that lacks most of its target share."""
    state, shares = site.state, site.settings.shares
    memory = state.memory
    total = 0
    for vo in range(shares.size):
        total += service_of(site, vo)
    neediest, most = -1, -math.inf
    for vo in range(shares.size):
        deficit = shares[vo] - service_of(site, vo) / total if total > 0 else shares[vo]
        if state.queued[vo] > 0 and deficit > most:
            neediest, most = vo, deficit
    place = 0
    while site.jobs.vo[state.waiting[memory[HEAD] + place]] != neediest:
        place += 1
    return place


@kernel()
def demanded(site, headroom):
    """Return the cores that running and waiting jobs need, with some to spare: the simple elastic rule."""
    memory = site.state.memory
    return math.ceil(headroom * (memory[RUNNING] + memory[TAIL] - memory[HEAD]))
