"""Bounds of changing scores: lines below and above them, close together, and none where there can be none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.batch.policies import JobView
from gridtune.batch.policies.expression import read_expression
from gridtune.batch.simulator.grouping import score_bounds

JOBS = {
    "submit_time": np.array([0, 5, 1_000_000, 40_000_000]),
    "walltime": np.array([1, 60, 3600, 1_000_000]),
    "processors": np.array([1, 2, 77, 4096]),
    "user": np.array([-1, 0, 5, 5]),
}
LINES = [
    "-processors * (wait / max(walltime, 1)) ** 3",
    "-wait / (max(log2(processors), 1) * walltime)",
    "-(wait + walltime) / walltime",
    "processors - 2 * wait / 3600",
    "walltime / 7 - now + log(walltime + 2) ** 2.5",
    "user_usage / 1e6 - (processors > 8) * wait",
    "-sqrt(wait + 10) * exp(processors / 4096)",
    "3 * group_usage",
    "abs(user) + submit_time",
]


@pytest.mark.parametrize("text", LINES)
@given(wait=st.integers(0, 10**8), use=st.floats(0, 1e12))
def test_the_score_is_between_the_lines(text, wait, use):
    expression = read_expression(text)
    bounds = score_bounds(expression, JOBS, 4)
    for job, line in enumerate(bounds.lines):
        fields = {name: int(column[job]) for name, column in JOBS.items()}
        now = fields["submit_time"] + wait
        rest = {"group": 0, "queue": 0, "partition": 0, "lot": 0.0}
        score = expression(JobView(**fields, **rest, wait=wait, now=now, user_usage=use, group_usage=use))
        y = math.copysign(abs(score) ** bounds.root, score)
        low, high = line[:3] @ [wait, use, 1], line[3:] @ [wait, use, 1]
        assert low <= y <= high
        assert high - low <= 1e-6 * (abs(line[:3]) @ [wait, use, 1]) + 1e-6 * fields["submit_time"]


@pytest.mark.parametrize(
    "text",
    [
        "wait * wait",
        "log(wait)",
        "max(wait, 60)",
        "2 ** wait",
        "walltime / wait",
        "prediction - wait",
        "user_usage - group_usage",
        "user_usage * processors",
        "3 * wait - 2 * wait",  # rounding errors could let it fall
        "(processors - 2) * wait ** 2",  # for some jobs it rises, for others it falls
        "(wait - walltime) ** 2",
        "wait ** 100",
        "wait / (processors - 1)",  # infinite
        "wait * (log(walltime) > 2)",  # a last bit decides
    ],
)
def test_other_scores_have_none(text):
    assert score_bounds(read_expression(text), JOBS, 4) is None
