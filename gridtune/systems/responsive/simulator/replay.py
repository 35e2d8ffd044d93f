"""The simple rules, and whole simulations under one of them, compiled; ties go to the job submitted first.

Rules that use run times see the expected ones: the real run time on a site with an oracle, otherwise the
times of completed jobs. `FAIR_INDEX` takes the estimate of the VO and class, the others the median of the
class; see `state`.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.errors import SimulationError
from gridtune.systems.responsive.simulator.site import SiteJobs, SiteModel
from gridtune.systems.responsive.simulator.state import (
    GridSite,
    class_estimate,
    service_of,
    total_service,
)
from gridtune.systems.responsive.simulator.stepping import (
    advance_instant,
    advance_until_decision,
    resize_pool,
    start_job,
)
from gridtune.types import FloatArray, IntArray


class SiteReplay(NamedTuple):
    """Starts of jobs, and F, U and pool at each decision; n jobs, and so n decisions.

    Attributes
    ----------
    start
        Shape (n,), int64, by job: when it started, seconds.
    decision
        Shape (n,), int64, by job: which decision started it.
    time, pool
        Shape (n,), int64, by decision: its second, and the pool's size after it, cores.
    fairness, utilisation
        Shape (n,), float64, by decision: F and U when it was taken.
    cores
        The pool's size before the first decision.
    core_seconds
        Core-seconds of the pool from the first to the last submission.
    boots
        Cores ordered; 0 unless event-driven.
    track
        Shape (r, 5), int64: second, pool, cores that are up, running and waiting jobs over time, see `State`.
    """

    start: IntArray
    decision: IntArray
    time: IntArray
    pool: IntArray
    fairness: FloatArray
    utilisation: FloatArray
    cores: int
    core_seconds: int
    boots: int
    track: IntArray

    @classmethod
    def of(cls, site: GridSite) -> SiteReplay:
        """Return the decisions of a site, once `advance_until_decision` has returned False."""
        state, memory = site.state, site.state.memory[0]
        decided, jobs = memory["decided"], len(state.start)
        if decided != jobs:
            raise SimulationError(f"only {decided} of {jobs} jobs have started: the simulation goes on")
        names = ("time", "pool", "fairness", "utilisation")
        time, pool, fairness, utilisation = (state.decisions[name].copy() for name in names)
        start, number, track = (
            state.start.copy(),
            state.number.copy(),
            state.track[: memory["tracked"]].copy(),
        )
        cores, area, boots = int(site.model["cores"][0]), int(memory["area_at_last"]), int(memory["boots"])
        return cls(start, number, time, pool, fairness, utilisation, cores, area, boots, track)


#: The simple rules, in the order of their numbers.
Rule = Literal[
    "fcfs",
    "sjf",
    "interactive_first",
    "edf",
    "longest_ratio",
    "fair_share",
    "random",
    "lifo",
    "youngest_interactive",
    "fair_index",
    "capped_fcfs",
]


@kernel()
def _replay_site(site, rule, headroom, rng):
    """Simulate a site to its end.

    Parameters
    ----------
    site
        A site at any instant; it is changed.
    rule
        See `choose`.
    headroom
        On an elastic site: the pool is sized to `headroom` times the cores that running and waiting jobs
        need; 0 keeps the pool.
    rng
        A Generator, for the random rule.
    """
    memory = site.state.memory[0]
    while advance_until_decision(site):
        size = demanded(site, headroom) if headroom > 0 else memory.pool
        if memory.tick_due:
            resize_pool(site, size)
            continue
        place = choose(site, rule, rng)
        if place < 0:
            # Every waiting job is one too many of its user: nothing starts before the next event.
            advance_instant(site)
        else:
            start_job(site, place, size)


def replay(
    jobs: SiteJobs,
    model: SiteModel,
    rule: Rule,
    *,
    headroom: float = 0.0,
    rng: np.random.Generator | None = None,
) -> SiteReplay:
    """Simulate all jobs under a simple rule.

    Parameters
    ----------
    jobs, model
        The jobs and the site.
    rule
        `fcfs`; `sjf`, shortest expected run time; `interactive_first`; `edf`, earliest deadline, which is
        submission + 2 · expected run time; `longest_ratio`, longest ratio of wait to expected
        run time; `fair_share`, one queue per VO, the VO with the largest deficit first; `random`; `lifo`,
        last come, first served; `youngest_interactive`, interactive jobs before batch jobs, the youngest of
        each first; `fair_index`, least (expected run time of the VO and class + wait); `capped_fcfs`, `fcfs`
        with at most the model's `user_cap` running jobs of a user. Ties go to the job submitted first.
    headroom
        Elastic: at each decision size the pool to `headroom` times the cores that running and waiting jobs
        need, within `floor` and `largest`; 0 keeps the pool.
    rng
        Random numbers for the random rule.
    """
    rules = get_args(Rule)
    if rule not in rules:
        raise SimulationError(f"no rule is named {rule!r}", hint=f"one of {', '.join(rules)}")
    if rng is None and rule == "random":
        raise SimulationError("the random rule needs a generator", field="rng")
    if model.autoscaler is not None and model.autoscaler.rule == "agent":
        raise SimulationError("an agent sizes this pool: use the environment", field="autoscaler")
    if not 0 <= headroom < np.inf:
        raise SimulationError(f"must be at least 0, but got {headroom}", field="headroom")
    site = jobs.new_site(model)
    _replay_site(site, rules.index(rule), headroom, np.random.default_rng(0) if rng is None else rng)
    return SiteReplay.of(site)


#: First come, first served; shortest job; interactive jobs first; earliest deadline; longest ratio of wait to
#: expected run time; one queue per VO, the VO with the largest deficit first; uniformly random.
FCFS, SJF, INTERACTIVE_FIRST, EDF, LONGEST_RATIO, FAIR_SHARE, RANDOM = range(7)
#: Last come, first served; interactive jobs first, the youngest of each class first; least (expected run time
#: + wait); first come, first served with a limit on each user's running jobs.
LIFO, YOUNGEST_INTERACTIVE, FAIR_INDEX, CAPPED_FCFS = range(7, 11)


@kernel()
def choose(site, rule, rng):
    """Return the place, among the waiting jobs, of the one that a rule starts; -1 for none (`CAPPED_FCFS`).

    Parameters
    ----------
    site
        A decision is due on it.
    rule
        `FCFS` and so on.
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
    if rule == FAIR_INDEX:
        return _by_organisation(site)
    # Read once: every access to the site costs more than the arithmetic.
    jobs, queue, now = site.jobs, site.state.waiting[memory.head : memory.tail], memory.now
    submit, run, kind = jobs.submit, jobs.run, jobs.interactive
    oracle, batch, interactive = site.model[0].oracle, class_estimate(site, 0), class_estimate(site, 1)
    best, least = 0, math.inf
    for place in range(waiting):
        job = queue[place]
        expected = float(run[job]) if oracle else interactive if kind[job] == 1 else batch
        score = _score(rule, expected, kind[job], submit[job], now)
        if score < least:
            best, least = place, score
    return best


@kernel()
def _score(rule, expected, interactive, submit, now):
    """Return the score that a rule minimises."""
    if rule == INTERACTIVE_FIRST:
        return 1.0 - interactive
    if rule == SJF:
        return expected
    if rule == EDF:
        return submit + 2.0 * expected
    if rule == LONGEST_RATIO:
        return -(now - submit) / expected
    if rule == LIFO:
        return float(now - submit)
    # The youngest of its class: a wait of 30 years is less than the difference between the classes.
    return now - submit + 1e9 * (1.0 - interactive)


#: Scores are compared in steps of 1e-9.
SCORE_STEPS = 1e9
#: Weight of the median of the class in the run time to expect of a VO's jobs, in jobs.
_PRIOR_WEIGHT = 3.0


@kernel()
def _by_organisation(site):
    """Return the waiting job with the least sum of wait and run time to expect of its VO and class."""
    state, jobs, memory = site.state, site.jobs, site.state.memory[0]
    oracle = site.model[0].oracle
    for kind in range(2):
        prior = _PRIOR_WEIGHT * math.log(class_estimate(site, kind))
        for vo in range(state.vos.size):
            past = state.classes[vo, kind]
            past.expected = math.exp((prior + past.log) / (_PRIOR_WEIGHT + past.weight))
    best, least = 0, math.inf
    for place in range(memory.tail - memory.head):
        job = state.waiting[memory.head + place]
        wait = memory.now - jobs.submit[job]
        expected = state.classes[jobs.vo[job], jobs.interactive[job]].expected
        # Equal scores that were summed in another order differ in their last bits.
        score = np.floor(((float(jobs.run[job]) if oracle else expected) + wait) * SCORE_STEPS + 0.5)
        if score < least:
            best, least = place, score
    return best


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
