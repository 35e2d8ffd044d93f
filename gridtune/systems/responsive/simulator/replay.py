"""A whole simulation under a simple rule, in one compiled call."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.errors import SimulationError
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.outcome import SiteOutcome, outcome_of
from gridtune.systems.responsive.simulator.rules import choose, demanded
from gridtune.systems.responsive.simulator.site import SiteModel, new_site
from gridtune.systems.responsive.simulator.state import POOL
from gridtune.systems.responsive.simulator.stepping import (
    advance_instant,
    advance_until_decision,
    start_job,
)

__all__ = ["Rule", "replay", "replay_site"]

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
def replay_site(site, rule, patience, headroom, rng):
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
    memory = site.state.memory
    while advance_until_decision(site):
        size = demanded(site, headroom) if headroom > 0 else memory[POOL]
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
) -> SiteOutcome:
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
    replay_site(site, rules.index(rule), patience, headroom, np.random.default_rng(0) if rng is None else rng)
    return outcome_of(site)
