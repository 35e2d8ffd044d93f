"""What a learned policy does with jobs."""

from __future__ import annotations

import numpy as np

from gridtune.errors import PolicyError
from gridtune.systems.responsive.learners.inputs import as_seen, new_diary, new_mind
from gridtune.systems.responsive.learners.loop import BY_VALUE, live, live_on_demanded_pool
from gridtune.systems.responsive.learners.policy import QPolicy
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.site import SiteModel, new_site
from gridtune.systems.responsive.simulator.state import NEVER, Site

__all__ = ["play"]


def play(policy: QPolicy, jobs: SiteJobs, model: SiteModel, *, headroom: float = 0.0) -> Site:
    """Live through all jobs, always taking the candidate of the highest value; return the site at its end.

    Among equals the job submitted first is taken. Nothing is drawn at random, and nothing is learned.

    Parameters
    ----------
    policy
        What was learned.
    jobs, model
        What to live through, and where.
    headroom
        Elastic: values choose the job alone, and the pool asked for is so many times the cores that running
        and waiting jobs need. 0: values choose both.

    Raises
    ------
    PolicyError
        Where the site is not of the kind that the policy was learned for, or headroom is not for it.
    """
    if not 0 <= headroom < np.inf or (headroom and not model.elastic):
        raise PolicyError(f"a pool cannot follow demand with {headroom}", field="headroom")
    found = len(jobs.shares), model.elastic
    if found != (policy.organisations, policy.elastic):
        kinds = [
            f"{vos} organisations, {'elastic' if sized else 'rigid'}"
            for vos, sized in ((policy.organisations, policy.elastic), found)
        ]
        raise PolicyError(f"the policy is for a site of {kinds[0]}, but this one is of {kinds[1]}")
    inputs = policy.settings.inputs
    site = new_site(jobs, as_seen(model, inputs))
    mind = new_mind(policy.arrays, policy.organisations, inputs)
    if headroom:
        live_on_demanded_pool(site, mind, headroom)
        return site
    live(site, mind, new_diary(0, policy.arrays), BY_VALUE, 0.0, NEVER, NEVER, np.random.default_rng(0))
    return site
