"""Whole simulations: under a simple rule, in one compiled call, or as the log records them."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.errors import SimulationError
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.rules import choose, demanded
from gridtune.systems.responsive.simulator.site import SiteModel, new_site
from gridtune.systems.responsive.simulator.state import Site
from gridtune.systems.responsive.simulator.stepping import (
    advance_instant,
    advance_until_decision,
    resize_pool,
    start_job,
)
from gridtune.types import BoolArray, FloatArray, IntArray

__all__ = ["Rule", "SiteReplay", "replay"]


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
    def of(cls, site: Site) -> SiteReplay:
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

    @classmethod
    def recorded(cls, jobs: SiteJobs, wait: IntArray, cores: int) -> SiteReplay:
        """Return the replay that the recorded waits describe, with F and U as of any other.

        The real site may have had another number of cores, and may have left some idle, so waits are not
        checked against `cores`.

        Parameters
        ----------
        jobs
            The jobs.
        wait
            Shape (n,), int64: recorded waits, seconds; a negative one is unknown and an error.
        cores
            Cores that the utilisation counts.
        """
        if len(wait) and wait.min() < 0:
            raise SimulationError(
                f"the log records no wait for {int((wait < 0).sum())} of {len(wait)} jobs", field="wait_time"
            )
        start = jobs.submit + wait
        order = np.argsort(start, kind="stable")
        decision = np.empty(len(jobs), np.int64)
        decision[order] = np.arange(len(jobs))
        time, end = start[order], start + jobs.run
        fairness, utilisation = np.ones(len(jobs)), np.zeros(len(jobs))
        begin = int(jobs.submit[0]) if len(jobs) else 0
        finished = np.concatenate([[0], np.cumsum(jobs.run[np.argsort(end, kind="stable")])])
        done = finished[np.searchsorted(np.sort(end), time, side="right")]
        area = cores * (time - begin)
        np.divide(done, area, out=utilisation, where=area > 0)
        received = np.stack(
            [_service(start, end, jobs.vo == vo, time) for vo in range(len(jobs.shares))], axis=1
        ).reshape(len(jobs), len(jobs.shares))
        total = received.sum(axis=1)
        served = total > 0
        deficit = jobs.shares - received[served] / total[served, None]
        fairness[served] = 1.0 - np.maximum(deficit.max(axis=1), 0.0) / jobs.shares.max()
        pool = np.full(len(jobs), cores, np.int64)
        paid = cores * (int(jobs.submit[-1]) - begin) if len(jobs) else 0
        track = np.zeros((0, 5), np.int64)
        return cls(start, decision, time, pool, fairness, utilisation, cores, paid, 0, track)


#: The simple rules, in the order of their numbers in `rules`.
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
    "gittins",
    "linear",
    "capped_fcfs",
]


@kernel()
def _replay_site(site, rule, patience, headroom, rng):
    """Simulate a site to its end.

    Parameters
    ----------
    site
        A site at any instant; it is changed.
    rule, patience
        See `gridtune.systems.responsive.simulator.rules.choose`.
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
        place = choose(site, rule, patience, rng)
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
    patience: float = 1.0,
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
        submission + (1 + `patience`) · expected run time; `longest_ratio`, longest ratio of wait to expected
        run time; `fair_share`, one queue per VO, the VO with the largest deficit first; `random`; `lifo`,
        last come, first served; `youngest_interactive`, interactive jobs before batch jobs, the youngest of
        each first; `fair_index`, least (expected run time of the VO and class + wait); `gittins`, largest
        expected loss of W per core-second; `linear`, largest sum with the model's weights; `capped_fcfs`,
        `fcfs` with at most the model's `user_cap` running jobs of a user. Ties go to the job submitted first.
    patience
        See `rule`.
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
    for name, value in {"patience": patience, "headroom": headroom}.items():
        if not 0 <= value < np.inf:
            raise SimulationError(f"must be at least 0, but got {value}", field=name)
    site = new_site(jobs, model)
    _replay_site(
        site, rules.index(rule), patience, headroom, np.random.default_rng(0) if rng is None else rng
    )
    return SiteReplay.of(site)


def _service(start: IntArray, end: IntArray, mine: BoolArray, time: IntArray) -> IntArray:
    """Return the core-seconds that some jobs have received by each instant: Σ min(t, end) − min(t, start)."""

    def capped(moments: IntArray) -> IntArray:
        ordered = np.sort(moments)
        sums = np.concatenate([[0], np.cumsum(ordered)])
        before = np.searchsorted(ordered, time, side="right")
        return np.asarray(sums[before] + (len(ordered) - before) * time, np.int64)

    return capped(end[mine]) - capped(start[mine])
