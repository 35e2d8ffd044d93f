"""What a learned policy does with jobs."""

from __future__ import annotations

import numpy as np

from gridtune.agents.echo_state.inputs import as_seen, new_diary, new_mind
from gridtune.agents.echo_state.loop import BY_VALUE, live
from gridtune.agents.echo_state.policy import QPolicy
from gridtune.errors import PolicyError
from gridtune.simulation.responsive.jobs import SiteJobs
from gridtune.simulation.responsive.site import SiteModel, new_site
from gridtune.simulation.responsive.state import NEVER, Site

__all__ = ["play"]


def play(policy: QPolicy, jobs: SiteJobs, model: SiteModel) -> Site:
    """Live through all jobs, always taking the candidate of the highest value; return the site at its end.

    Among equals the job submitted first is taken. Nothing is drawn at random, and nothing is learned.

    Raises
    ------
    PolicyError
        Where the site is not of the kind that the policy was learned for.
    """
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
    live(site, mind, new_diary(0, policy.arrays), BY_VALUE, 0.0, NEVER, NEVER, np.random.default_rng(0))
    return site
