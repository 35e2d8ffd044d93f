"""Orders that do not score a job: by a division by zero, an exception, an overflow."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import gridtune as gt
from gridtune.batch.checks import check_policy
from gridtune.batch.policies import get_queue_order, queue_order
from gridtune.core.user_code.plugins import load_plugins
from gridtune.errors import PolicyError, SimulationError

FORMULA = "walltime * processors / max(wait - 5000, 0)"


@queue_order("test-by-wait")
def by_wait(job):
    """The same formula as a function."""
    return job.walltime * job.processors / max(job.wait - 5000, 0)


@queue_order("test-raises")
def raises(job):
    """Fail for a job that has waited."""
    if job.wait > 0:
        raise ValueError("too late")
    return job.walltime


@queue_order("test-branches-to-nan")
def branches_to_nan(job):
    """Take the logarithm of a negative number, for a job that has waited."""
    if job.wait > 0:
        return math.log(-job.wait)
    return job.walltime


@queue_order("test-power")
def power(job):
    """Overflow 64-bit integers, but no floating-point number."""
    return job.walltime**5 + job.wait


@queue_order("test-of-whole-numbers")
def of_whole_numbers(job):
    """Need whole numbers, and divide them by zero."""
    return (job.processors & 3) // max(job.wait - 5000, 0)


@pytest.fixture(scope="module")
def busy():
    """A log in which jobs wait, and end before their walltime."""
    log = gt.generate_workload("poisson", jobs=200, seed=1).scale_load(3)
    return replace(log, columns={**log.columns, "requested_time": 2 * log.run_time})


def fault(log, order, backfill):
    with pytest.raises(PolicyError) as failed:
        gt.simulate(log, order=order, backfill=backfill)
    return failed.value.message


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_a_formula_fails_alike_as_expression_function_and_plugin(busy, tmp_path, backfill):
    plugin = tmp_path / "by_wait.py"
    plugin.write_text(
        "import gridtune as gt\n@gt.queue_order('test-by-wait-plugin')\ndef f(job):\n"
        "    return job.walltime * job.processors / max(job.wait - 5000, 0)\n"
    )
    load_plugins([plugin])
    faults = [fault(busy, order, backfill) for order in (FORMULA, "test-by-wait", "test-by-wait-plugin")]
    assert len({text[text.index(" at second ") :] for text in faults}) == 1
    assert "gives inf and no finite number" in faults[0]
    assert "by zero" in faults[1]
    assert "test_undefined_scores.py, line" in faults[1]
    assert f"{plugin.name}, line 4" in faults[2]
    last = [
        gt.simulate(busy, order=order, backfill=backfill, undefined_scores="last").start_time
        for order in (FORMULA, "test-by-wait", "test-by-wait-plugin")
    ]
    np.testing.assert_array_equal(last[0], last[1])
    np.testing.assert_array_equal(last[0], last[2])


def test_the_fault_names_the_job_and_the_instant(busy):
    message = fault(busy, "test-raises", "easy")
    job = int(message.rpartition(" for job ")[2])
    second = int(message.partition(" at second ")[2].partition(", for")[0].replace(",", ""))
    row = int(np.flatnonzero(busy.job_id == job)[0])
    assert second > busy.submit_time[row] - busy.submit_time[0]
    assert message.startswith("queue order 'test-raises' fails: too late (")


@pytest.mark.parametrize("order", ["test-raises", "test-of-whole-numbers"])
def test_an_exception_always_fails(busy, order):
    with pytest.raises(PolicyError, match="fails"):
        gt.simulate(busy, order=order, undefined_scores="last")


def test_a_score_that_is_not_a_number_fails(busy):
    assert "'test-branches-to-nan' fails: " in fault(busy, "test-branches-to-nan", "easy")


def test_products_of_whole_numbers_do_not_overflow(busy):
    functions = gt.simulate(busy, order="test-power").start_time
    expressions = gt.simulate(busy, order="walltime ** 5 + wait").start_time
    np.testing.assert_array_equal(functions, expressions)
    assert busy.requested_time.max() ** 5.0 > 2.0**63


def test_a_static_formula_fails_before_anything_runs(busy):
    assert "for job" in fault(busy, "log(walltime - walltime)", "easy")


@pytest.mark.parametrize("value", ["nan", "inf", "1e999"])
def test_a_parameter_is_a_finite_number(value):
    with pytest.raises(PolicyError, match="must be a number"):
        get_queue_order(f"wfp3(exponent={value})")


def test_an_order_by_users_needs_a_log_with_users(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("submit_time,run_time,requested_processors\n0,10,1\n")
    with pytest.raises(SimulationError, match="'fair-user' goes by the user of jobs"):
        check_policy(get_queue_order("fair-user"), gt.read_workload(log))
    check_policy(get_queue_order("fcfs"), gt.read_workload(log))


def test_an_order_that_calls_a_plain_helper_is_refused_with_its_line(busy, tmp_path):
    plugin = tmp_path / "helped.py"
    plugin.write_text(
        "import gridtune as gt\n\ndef helper(x):\n    return 2 * x\n\n"
        "@gt.queue_order('test-helped')\ndef f(job):\n    return helper(job.wait)\n"
    )
    load_plugins([plugin])
    with pytest.raises(PolicyError) as refused:
        check_policy(get_queue_order("test-helped"), busy)
    assert refused.value.line == 8
    assert "numba.njit" in str(refused.value.hint)
