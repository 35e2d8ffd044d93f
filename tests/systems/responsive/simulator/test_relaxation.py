"""The bound of W holds for every order of small sites, and is reached where nothing has to wait."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gridtune.systems.responsive.simulator.relaxation import responsiveness_bound
from gridtune.systems.responsive.simulator.site import SiteJobs
from tests.conftest import examples

ALL = slice(None)


def jobs_of(submit, run) -> SiteJobs:
    none = [0] * len(run)
    return SiteJobs(sorted(submit), run, none, none, np.ones(1))


def best_of_all_orders(jobs: SiteJobs, cores: int) -> float:
    """The largest mean W of any list schedule; delays on purpose would only lower it on one core per job."""
    best = 0.0
    for order in permutations(range(len(jobs))):
        free, total = [0] * cores, 0.0
        for job in order:
            core = free.index(min(free))
            start = max(free[core], int(jobs.submit[job]))
            free[core] = start + int(jobs.run[job])
            total += jobs.run[job] / (free[core] - jobs.submit[job])
        best = max(best, total / len(jobs))
    return best


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 3000)), min_size=1, max_size=5), st.integers(1, 2)
)
def test_no_order_exceeds_the_bound(rows, cores):
    jobs = jobs_of(*zip(*rows, strict=True))
    best = best_of_all_orders(jobs, cores)
    assert responsiveness_bound(jobs, cores, ALL, best, steps=60) >= best - 1e-9


def test_a_crowd_has_a_bound_below_one():
    """Twenty jobs of an hour at once on one core: W of the k-th is 1/k at best, 0.18 on average."""
    jobs = jobs_of([0] * 20, [3600] * 20)
    best = sum(1 / k for k in range(1, 21)) / 20
    assert best <= responsiveness_bound(jobs, 1, ALL, best) < 0.6


def test_who_need_not_wait_need_not():
    jobs = jobs_of([0, 100, 200], [50, 5000, 5000])
    assert responsiveness_bound(jobs, 2, ALL, 1.0) == 1.0
    assert np.isnan(responsiveness_bound(jobs, 2, slice(0, 0), 1.0))
