"""Each rule does what it says, counts it, and nothing happens unasked."""

from __future__ import annotations

import types

import numpy as np
import pytest

from gridtune.errors import WorkloadError
from gridtune.workload import DEFAULT_RULES, clean, cleaning, cleaning_rule, cleaning_rules

from .sample_logs import make_workload

# rule, columns before, columns after, jobs touched
CASES = [
    ("sort_submits", {"submit_time": [5, 3, 5, 4], "run_time": [1, 2, 3, 4]},
     {"submit_time": [3, 4, 5, 5], "run_time": [2, 4, 1, 3]}, 2),
    ("sort_submits", {"submit_time": [1, 1, 2]}, {"submit_time": [1, 1, 2]}, 0),
    ("drop_never_started", {"run_time": [-1, 0, 7]}, {"run_time": [0, 7]}, 1),
    ("missing_walltime", {"requested_time": [-1, 50, 0, 80]}, {"requested_time": [80, 50, 80, 80]}, 2),
    ("missing_walltime", {"requested_time": [-1, -1], "run_time": [30, 9]}, {"requested_time": [30, 30]}, 2),
    ("missing_walltime", {"run_time": [30, 9]}, {"requested_time": [30, 30]}, 2),
    ("missing_walltime", {"run_time": [0, 0]}, {"requested_time": [1, 1]}, 2),
    ("missing_walltime", {"requested_time": [4, 5]}, {"requested_time": [4, 5]}, 0),
    ("drop_zero_run_time", {"run_time": [0, -1, 7]}, {"run_time": [-1, 7]}, 1),
    ("raise_zero_run_time", {"run_time": [0, -1, 7]}, {"run_time": [1, -1, 7]}, 1),
    ("drop_wider", {"requested_processors": [10, 11, 3]}, {"requested_processors": [10, 3]}, 1),
    ("clamp_wider", {"requested_processors": [10, 11, 3]}, {"requested_processors": [10, 10, 3]}, 1),
    ("clamp_wider", {"requested_processors": [10, 11], "allocated_processors": [-1, -1]},
     {"requested_processors": [10, 10]}, 1),
    ("clamp_wider", {"requested_processors": [-1, 3], "allocated_processors": [12, 2]},
     {"requested_processors": [10, 3], "allocated_processors": [12, 2]}, 1),
    ("drop_unknown_processors", {"requested_processors": [-1, 3, -1], "allocated_processors": [-1, -1, 2]},
     {"requested_processors": [3, -1], "allocated_processors": [-1, 2]}, 1),
    ("raise_walltime_to_run_time", {"requested_time": [5, -1, 9], "run_time": [7, 7, 7]},
     {"requested_time": [7, -1, 9]}, 1),
    ("clip_run_time_to_walltime", {"requested_time": [5, -1, 9], "run_time": [7, 7, 7]},
     {"run_time": [5, 7, 7]}, 1),
    ("use_allocated_processors", {"requested_processors": [4, 4, 4], "allocated_processors": [8, -1, 4]},
     {"requested_processors": [8, 4, 4]}, 1),
    ("drop_cancelled", {"status": [0, 1, 5], "run_time": [1, 2, 3]}, {"run_time": [1, 2]}, 1),
    ("start_at_zero", {"submit_time": [7, 9]}, {"submit_time": [0, 2]}, 2),
    ("start_at_zero", {"submit_time": [0, 2]}, {"submit_time": [0, 2]}, 0),
    ("start_at_zero", {"submit_time": [7]}, {"submit_time": [0]}, 1),
    ("unknown_negative_times", {"run_time": [3]}, {"run_time": [3]}, 0),
    ("round_fractions", {"average_cpu_time": [1.5]}, {"average_cpu_time": [1.5]}, 0),
    ("drop_zero_processors", {"run_time": [3]}, {"run_time": [3]}, 0),
    ("drop_negative_submit", {"run_time": [3]}, {"run_time": [3]}, 0),
    # At the edge of each condition.
    ("drop_negative_submit", {"submit_time": [0, 1]}, {"submit_time": [0, 1]}, 0),
    ("drop_wider", {"requested_processors": [0, 3], "allocated_processors": [12, 2]},
     {"requested_processors": [3]}, 1),
    ("unknown_negative_times", {"run_time": [-1, 3], "requested_time": [-1, 5]},
     {"run_time": [-1, 3], "requested_time": [-1, 5]}, 0),
    ("raise_walltime_to_run_time", {"requested_time": [7, 0], "run_time": [7, 7]},
     {"requested_time": [7, 7]}, 1),
    ("clip_run_time_to_walltime", {"requested_time": [7, 0], "run_time": [7, 7]}, {"run_time": [7, 0]}, 1),
    ("use_allocated_processors", {"requested_processors": [4, 4], "allocated_processors": [0, 1]},
     {"requested_processors": [4, 1]}, 1),
]  # fmt: skip

# Rules for what a workload can never hold: raw columns before and after.
LENIENT = [
    ("drop_negative_submit", {"submit_time": [-3, 0]}, {"submit_time": [0]}, 1),
    ("unknown_negative_times", {"run_time": [-3, 5], "requested_time": [-2, -7]},
     {"run_time": [-1, 5], "requested_time": [-1, -1]}, 2),
    ("round_fractions", {"run_time": [0.5, 1.5, 2.0]}, {"run_time": [0, 2, 2]}, 2),
    ("drop_zero_processors", {"requested_processors": [0, 0, -1, 2], "allocated_processors": [3, -1, 0, 0]},
     {"requested_processors": [0, 2]}, 2),
    ("drop_unknown_processors", {"requested_processors": [0, -1], "allocated_processors": [0, -1]},
     {"requested_processors": [0]}, 1),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "before", "after", "touched"), CASES)
def test_rules(rule, before, after, touched):
    workload = make_workload(**before)
    checksum = workload.checksum
    cleaned, report = clean(workload, [rule], processors=10)
    for name, values in after.items():
        assert cleaned.column(name).tolist() == values
    assert report.counts == {rule: touched}
    assert workload.checksum == checksum
    assert (cleaned.checksum == checksum) == (touched == 0)
    again, second = clean(cleaned, [rule], processors=10)
    assert second.counts == {rule: 0}
    assert again.checksum == cleaned.checksum


@pytest.mark.parametrize(("rule", "before", "after", "touched"), LENIENT)
def test_lenient_rules(rule, before, after, touched):
    columns = {name: np.asarray(values) for name, values in before.items()}
    jobs = len(next(iter(columns.values())))
    columns.setdefault("submit_time", np.arange(jobs))
    columns.setdefault("run_time", np.ones(jobs, dtype=np.int64))
    cleaned, report = cleaning.apply_rules(cleaning.Jobs(columns, 10), [rule])
    for name, values in after.items():
        assert cleaned.columns[name].tolist() == values
        assert cleaned.columns[name].dtype == np.int64
    assert report.counts == {rule: touched}


def test_every_rule_is_tested_and_described():
    tested = {case[0] for case in CASES} | {case[0] for case in LENIENT}
    assert tested == set(cleaning_rules())
    for name, rule in cleaning_rules().items():
        assert rule.name == name
        assert rule.summary.endswith((".", "."))


def test_default_rules_make_a_log_fit_for_simulation():
    workload = make_workload(
        submit_time=[9, 3, 4], run_time=[5, -1, 8], requested_time=[-1, 20, 30], user=[1, 2, 3]
    )
    cleaned, report = clean(workload)
    assert cleaned.submit_time.tolist() == [4, 9]
    assert cleaned.requested_time.tolist() == [30, 30]
    assert cleaned.user.tolist() == [3, 1]
    expected = {"sort_submits": 2, "drop_never_started": 1, "missing_walltime": 1}
    assert report.as_dict() == {"jobs_before": 3, "jobs_after": 2, "counts": expected}
    assert tuple(report.counts) == DEFAULT_RULES


def test_what_was_done_adds_up_on_the_workload():
    workload = make_workload(submit_time=[3, 1], run_time=[0, 5])
    once, _ = clean(workload, ["sort_submits"])
    twice, _ = clean(once, ["sort_submits", "raise_zero_run_time"])
    assert workload.cleaning == {}
    assert twice.cleaning == {"sort_submits": 1, "raise_zero_run_time": 1}
    assert twice.first(1).cleaning == twice.cleaning


def test_rules_apply_in_the_order_given():
    workload = make_workload(run_time=[10], requested_time=[-1])
    cut, _ = clean(workload, ["raise_zero_run_time", "missing_walltime", "clip_run_time_to_walltime"])
    assert cut.requested_time.tolist() == [10]
    late = make_workload(submit_time=[0, 1], run_time=[-1, 4], requested_time=[90, -1])
    assert clean(late)[0].requested_time.tolist() == [4]
    assert clean(late, reversed(DEFAULT_RULES))[0].requested_time.tolist() == [90]


def test_bad_arguments():
    workload = make_workload(run_time=[1])
    with pytest.raises(WorkloadError, match=r"no cleaning rule is named 'sort_submit'(.|\n)*'sort_submits'"):
        clean(workload, ["sort_submit"])
    with pytest.raises(WorkloadError, match="the rule 'drop_wider' needs the machine's size"):
        clean(workload, ["drop_wider"])


@pytest.mark.usefixtures("registrations")
def test_a_rule_of_ones_own():
    @cleaning_rule
    def drop_night_jobs(jobs):
        """Drop jobs submitted before six in the morning."""
        night = jobs.columns["submit_time"] % 86400 < 6 * 3600
        return jobs.take(~night), int(night.sum())

    cleaned, report = clean(make_workload(submit_time=[0, 30_000, 90_000]), ["drop_night_jobs"])
    assert (cleaned.submit_time.tolist(), report.counts) == ([30_000], {"drop_night_jobs": 2})
    other = types.FunctionType(drop_night_jobs.__code__, globals(), "drop_night_jobs")
    other.__doc__, other.__module__ = "Another rule of that name, in another file.", "pytest"
    with pytest.raises(WorkloadError, match="registered already"):
        cleaning_rule(other)
    with pytest.raises(WorkloadError, match="needs a docstring"):
        cleaning_rule(lambda jobs: (jobs, 0))
