"""The simple rules, compiled; ties go to the job submitted first.

Rules that use run times see the expected ones: the real run time on a site with an oracle, otherwise the
median of the class.
"""

from __future__ import annotations

import math

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.accounts import service_of, total_service
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

#: First come, first served; shortest job; interactive jobs first; earliest deadline; longest ratio of wait to
#: expected run time; one queue per VO, the VO with the largest deficit first; uniformly random.
FCFS, SJF, INTERACTIVE_FIRST, EDF, LONGEST_RATIO, FAIR_SHARE, RANDOM = range(7)


@kernel()
def choose(site, rule, patience, rng):
    """Return the place, among the waiting jobs, of the one that a rule starts.

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
    memory = site.state.memory
    waiting = memory[TAIL] - memory[HEAD]
    if rule == FCFS or waiting == 1:
        return 0
    if rule == RANDOM:
        return min(int(rng.random() * waiting), waiting - 1)
    if rule == FAIR_SHARE:
        return _of_neediest(site)
    # Read once: every access to the site costs more than the arithmetic.
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
    """Return the score that a rule minimises."""
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
    memory, total = state.memory, total_service(site)
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
    """Return `headroom` times the cores that running and waiting jobs need: the simple elastic rule."""
    memory = site.state.memory
    return math.ceil(headroom * (memory[RUNNING] + memory[TAIL] - memory[HEAD]))
