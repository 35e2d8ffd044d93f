"""The further inputs of candidates, against the plain-Python site."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gridtune.systems.responsive.learners.runs import _fill_relative, _relative_count
from gridtune.systems.responsive.simulator.candidates import count_candidates, start_candidate
from gridtune.systems.responsive.simulator.site import new_site
from gridtune.systems.responsive.simulator.stepping import advance_until_decision
from tests.systems.responsive.learners import twin
from tests.systems.responsive.simulator.sites import reference_site, site_jobs, site_models


@settings(max_examples=40, deadline=None)
@given(site_jobs(), site_models(), st.randoms(use_true_random=False))
def test_relative_inputs_equal_the_twin(jobs, model, random) -> None:
    # Relative inputs compare waiting jobs; at ends that resize the pool none may wait.
    model = replace(model, resized_at_ends=False)
    site, reference = new_site(jobs, model), reference_site(jobs, model)
    width = _relative_count(model.elastic)
    while reference.until_decision():
        assert advance_until_decision(site)
        expected = np.array(twin.relative_rows(reference))
        count = count_candidates(site)
        rows = np.full((count, width + 1), np.nan)
        _fill_relative(site, rows, count, 1)
        np.testing.assert_allclose(rows[:, 1:], expected, rtol=1e-9, atol=1e-12)
        place, option = divmod(random.randrange(count), len(reference.options()))
        start_candidate(site, place * len(reference.options()) + option)
        reference.begin_job(place, reference.options()[option])
