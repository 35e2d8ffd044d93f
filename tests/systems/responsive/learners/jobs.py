"""Small sites for tests: bursts of short and long jobs of three organisations."""

from __future__ import annotations

import numpy as np

from gridtune.systems.responsive.simulator.site import SiteJobs, SiteModel

RIGID = SiteModel(cores=5)
ELASTIC = SiteModel(cores=5, elastic=True, floor=2, largest=12, step=5, period=200)


def some_jobs(count=80, seed=0):
    rng = np.random.default_rng(seed)
    bursts = np.repeat(np.arange(-(-count // 16)) * 3000, 16)[:count]
    submit = np.sort(bursts + rng.integers(0, 300, count))
    interactive = rng.integers(0, 2, count)
    run = np.where(interactive == 1, rng.integers(20, 200, count), rng.integers(900, 3000, count))
    return SiteJobs(submit, run, rng.integers(0, 3, count), interactive, np.array([0.5, 0.3, 0.2]))
