"""Running a learned policy."""

from __future__ import annotations

import numpy as np

from gridtune.errors import PolicyError
from gridtune.systems.responsive.learners.inputs import new_learner_state, new_log, observed_model
from gridtune.systems.responsive.learners.loop import BY_VALUE, run_on_demanded_pool, run_site
from gridtune.systems.responsive.learners.policy import QPolicy
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.site import SiteModel, new_site
from gridtune.systems.responsive.simulator.state import NEVER, Site

__all__ = ["play"]


def play(policy: QPolicy, jobs: SiteJobs, model: SiteModel, *, headroom: float = 0.0) -> Site:
    """Simulate all jobs, always starting the candidate of the highest value; return the site at its end.

    Ties go to the job submitted first. Nothing is random, and nothing is learned.

    Parameters
    ----------
    policy
        The learned policy.
    jobs, model
        The jobs and the site.
    headroom
        Elastic: values choose only the job, and the pool is sized to `headroom` times the cores that running
        and waiting jobs need. 0: values choose both.

    Raises
    ------
    PolicyError
        If the policy was learned for another kind of site, or `headroom` does not fit the site.
    """
    if not 0 <= headroom < np.inf or (headroom and not model.elastic):
        raise PolicyError(
            f"must be finite and at least 0, and 0 on a rigid site, but got {headroom}", field="headroom"
        )
    expected, actual = (policy.organisations, policy.elastic), (len(jobs.shares), model.elastic)
    if actual != expected:
        kinds = [
            f"{'an elastic' if elastic else 'a rigid'} site of {organisations} organisations"
            for organisations, elastic in (expected, actual)
        ]
        raise PolicyError(f"the policy was learned for {kinds[0]}, but got {kinds[1]}")
    inputs = policy.settings.inputs
    site = new_site(jobs, observed_model(model, inputs))
    learner = new_learner_state(policy.arrays, policy.organisations, inputs)
    if headroom:
        run_on_demanded_pool(site, learner, headroom)
        return site
    run_site(site, learner, new_log(0, policy.arrays), BY_VALUE, 0.0, NEVER, NEVER, np.random.default_rng(0))
    return site
