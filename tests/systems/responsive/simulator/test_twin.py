"""The compiled site and the plain one have the same outcomes."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.systems.responsive.simulator.candidates import (
    count_candidates,
    feature_count,
    fill_features,
    start_candidate,
)
from gridtune.systems.responsive.simulator.replay import Rule, SiteReplay, replay
from gridtune.systems.responsive.simulator.stepping import (
    advance_until_decision,
    resize_pool,
    start_job,
)
from tests.conftest import examples
from tests.systems.responsive.simulator.reference import reference_choice
from tests.systems.responsive.simulator.sites import (
    assert_same_outcome,
    reference_site,
    site_jobs,
    site_models,
)

RULES = [rule for rule in get_args(Rule) if rule != "random"]


@examples(150)
@given(site_jobs(), site_models(), st.randoms(use_true_random=False))
def test_random_decisions_lead_to_the_same_outcome(jobs, model, random):
    site, reference = jobs.new_site(model), reference_site(jobs, model)
    rows = np.full((300, feature_count(site)), np.nan)
    while reference.until_decision():
        assert advance_until_decision(site)
        assert site.state.memory["tick_due"][0] == reference.tick_due
        if reference.tick_due:
            size = random.randrange(12)
            reference.resize(size)
            resize_pool(site, size)
            continue
        expected = np.array(reference.rows())
        assert count_candidates(site) == len(expected)
        assert fill_features(site, rows) == len(expected)
        np.testing.assert_allclose(rows[: len(expected)], expected, rtol=1e-12, atol=1e-12)
        candidate = random.randrange(len(expected))
        place, option = divmod(candidate, len(reference.options()))
        reference.begin_job(place, reference.options()[option])
        start_candidate(site, candidate)
    assert not advance_until_decision(site)
    assert_same_outcome(SiteReplay.of(site), reference)
    # Jobs that end together complete in the order of their numbers.
    completed = site.state.decisions["job"][site.state.completed]
    assert completed.tolist() == [job.number for job in reference.done]


@examples(100)
@given(site_jobs(), site_models(), st.lists(st.integers(0, 12), min_size=1, max_size=5))
def test_any_size_may_be_requested(jobs, model, requested):
    site, reference = jobs.new_site(model), reference_site(jobs, model)
    step = 0
    while reference.until_decision():
        assert advance_until_decision(site)
        size, place = requested[step % len(requested)], step % max(len(reference.waiting), 1)
        step += 1
        if reference.tick_due:
            reference.resize(size)
            resize_pool(site, size)
            continue
        reference.begin_job(place, size)
        start_job(site, place, size)
    assert_same_outcome(SiteReplay.of(site), reference)


@pytest.mark.parametrize("rule", RULES)
@examples(60)
@given(site_jobs(), site_models(), st.sampled_from([0.0, 1.0, 1.5]))
def test_rules_start_the_job_they_name(rule, jobs, model, headroom):
    reference = reference_site(jobs, model)
    while reference.until_decision():
        if reference.tick_due:
            reference.resize(math.ceil(headroom * len(reference.running)) if headroom else reference.pool)
            continue
        place = reference_choice(reference, rule)
        if place < 0:
            reference.next_instant()
            continue
        demanded = math.ceil(headroom * (len(reference.running) + len(reference.waiting)))
        size = demanded if headroom else reference.pool
        reference.begin_job(place, size)
    assert_same_outcome(replay(jobs, model, rule, headroom=headroom), reference)
