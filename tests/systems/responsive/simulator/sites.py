"""Sites for the tests: drawn ones, and the same site compiled and in plain Python."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from gridtune.systems.responsive.simulator.site import SiteJobs, SiteModel
from tests.systems.responsive.simulator.reference import ReferenceJob, ReferenceSite


@st.composite
def site_jobs(draw, most=25):
    """Few jobs, crowded in time, so that queues grow and instants coincide."""
    count = draw(st.integers(1, most))
    vos = draw(st.integers(1, 4))
    times = st.integers(0, 40)
    submit = sorted(draw(st.lists(times, min_size=count, max_size=count)))
    run = draw(st.lists(st.integers(1, 60), min_size=count, max_size=count))
    vo = draw(st.lists(st.integers(0, vos - 1), min_size=count, max_size=count))
    interactive = draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    user = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    weight = np.array(draw(st.lists(st.integers(1, 9), min_size=vos, max_size=vos)), np.float64)
    return SiteJobs(submit, run, vo, interactive, weight / weight.sum(), user)


@st.composite
def site_models(draw):
    """Small sites of every kind."""
    floor = draw(st.integers(1, 3))
    cores = draw(st.integers(floor, 5))
    return SiteModel(
        cores=cores,
        elastic=draw(st.booleans()),
        floor=floor,
        largest=draw(st.integers(cores, 9)),
        step=draw(st.integers(1, 3)),
        period=draw(st.integers(0, 15)),
        charged_after=draw(st.booleans()),
        resized_at_ends=draw(st.booleans()),
        oracle=draw(st.booleans()),
        median_of=draw(st.integers(1, 6)),
        prior_interactive=5.0,
        prior_batch=50.0,
        start_latency=draw(st.sampled_from([0, 0, 3])),
        user_cap=draw(st.integers(1, 3)),
    )


def reference_site(jobs: SiteJobs, model: SiteModel) -> ReferenceSite:
    """The same site in plain Python."""
    columns = [column.tolist() for column in jobs.columns]
    return ReferenceSite(
        [
            ReferenceJob(number, submit, run, vo, bool(interactive), user)
            for number, (submit, run, vo, interactive, user) in enumerate(zip(*columns, strict=True))
        ],
        jobs.shares.tolist(),
        model.cores,
        elastic=model.elastic,
        floor=model.floor,
        largest=model.largest,
        sizes=model.pool_sizes.tolist(),
        period=model.period,
        charged_after=model.charged_after,
        resized_at_ends=model.resized_at_ends,
        oracle=model.oracle,
        median_of=model.median_of,
        prior={True: model.prior_interactive, False: model.prior_batch},
        latency=model.start_latency,
        cap=model.user_cap,
    )


def assert_same_outcome(outcome, reference: ReferenceSite) -> None:
    """Every start, decision, pool size, F and U equal, bit for bit."""
    assert outcome.start.tolist() == [job.start for job in reference.jobs]
    decided = np.argsort(outcome.decision).tolist()
    assert decided == [decision.job for decision in reference.decisions]
    for name in ("time", "pool", "fairness", "utilisation"):
        assert getattr(outcome, name).tolist() == [getattr(one, name) for one in reference.decisions], name


def rigid(model: SiteModel) -> SiteModel:
    """The same site with a pool that stays, and jobs that start at once."""
    return replace(model, elastic=False, start_latency=0)
