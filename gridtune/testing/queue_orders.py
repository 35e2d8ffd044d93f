"""`QueueOrderConformance`: what every queue order must do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pytest

from gridtune.batch.policies import JobView, QueueOrder, get_queue_order
from gridtune.batch.policies.job_view import CHANGING_FIELDS
from gridtune.batch.policies.queue_order import ORDERS
from gridtune.batch.replay import simulate
from gridtune.batch.simulator.accounts import Facts, ScoreInputs, score_inputs, score_job
from gridtune.batch.simulator.scores import compile_score
from gridtune.core.schedule import Schedule, validate_schedule
from gridtune.registry import Registry
from gridtune.testing.registered import RegistryConformance
from gridtune.testing.samples import sample_workload, with_columns
from gridtune.workload.workload import Workload

__all__ = ["QueueOrderConformance"]

_SECONDS = (0, 1, 3_600, 40_000_000)
_PROCESSORS = (1, 2, 100_000)


def _views() -> Iterator[JobView]:
    """Yield jobs from the smallest to the largest, just submitted and long waiting."""
    cases = itertools.product(_SECONDS, _SECONDS, _PROCESSORS, _SECONDS)
    for owner, (submit, walltime, processors, wait) in enumerate(cases):
        used = float(wait * processors)
        facts = owner, owner, 1, 1
        changing = wait, submit + wait, used, 2 * used
        yield JobView(submit, walltime, processors, *facts, *changing, 0.25, walltime / 2)


def _inputs(views: list[JobView]) -> ScoreInputs:
    """Return inputs from which compiled scores see these jobs, each of a user and a group of its own."""
    column = {name: np.array(values) for name, *values in zip(JobView._fields, *views, strict=True)}
    facts = Facts(*(column[name] for name in Facts._fields))
    inputs = score_inputs(column["submit_time"], column["walltime"], column["processors"], facts, 0.0)
    for usage, used in ((inputs.users, "user_usage"), (inputs.groups, "group_usage")):
        usage.used[:], usage.since[:] = column[used], column["now"]
    inputs.last[::2], inputs.last[1::2] = column["walltime"], 0  # a mean of half the walltime
    return inputs


def _schedule(order: str, workload: Workload, backfill: str) -> Schedule:
    return simulate(workload, order=order, backfill=backfill, rng=np.random.default_rng(3))


class QueueOrderConformance(RegistryConformance):
    """The rules of a queue order."""

    registry: ClassVar[Registry[QueueOrder]] = ORDERS

    def test_says_what_it_does(self, name: str) -> None:
        """Its docstring begins with a line that tells people what goes first."""
        assert get_queue_order(name).description.strip()

    def test_parameters_can_be_set_by_name(self, name: str) -> None:
        """The label, such as `wfp3(exponent=3)`, names the same order with the same parameters."""
        order = get_queue_order(name)
        assert get_queue_order(order.label) == order
        assert all(math.isfinite(value) for value in order.parameters.values())

    def test_scores_are_finite(self, name: str) -> None:
        """Every job has a finite score: also one of no walltime, of one processor, of the first second."""
        order = get_queue_order(name)
        assert [view for view in _views() if not math.isfinite(order(view))] == []

    def test_compiled_it_is_what_python_makes_of_it(self, name: str) -> None:
        """The compiled score is that of the plain Python function."""
        order = get_queue_order(name)
        compiled, views = compile_score(order), list(_views())
        inputs = _inputs(views)
        for job, view in enumerate(views):
            score = score_job(compiled, inputs, job, view.now)
            assert score == pytest.approx(order(view), rel=1e-12, abs=1e-12)

    def test_a_static_order_does_not_change_with_time(self, name: str) -> None:
        """An order that counts as static scores a job the same whenever it is asked."""
        order = get_queue_order(name)
        if not order.static:
            return
        for view in _views():
            later = view._replace(**{field: 3 * getattr(view, field) + 5 for field in CHANGING_FIELDS})
            assert order(later) == order(view)

    @pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
    def test_schedules_are_sound_and_repeatable(self, name: str, backfill: str) -> None:
        """Under each kind of backfilling the schedule is sound, and a second run gives the same one."""
        workload = sample_workload()
        schedule = _schedule(name, workload, backfill)
        validate_schedule(schedule)
        again = _schedule(name, workload, backfill)
        np.testing.assert_array_equal(schedule.start_time, again.start_time)

    @pytest.mark.parametrize("job", [0, 7, 20, 41])
    def test_does_not_see_run_times(self, name: str, job: int) -> None:
        """Had a job run longer, within its walltime, nothing before its end would have changed."""
        workload = sample_workload()
        workload = with_columns(workload, {"requested_time": workload.run_time + 500})
        longer = workload.run_time.copy()
        longer[job] += 450
        early = _schedule(name, workload, "easy")
        late = _schedule(name, with_columns(workload, {"run_time": longer}), "easy")
        decided = early.start_time < early.end_time[job]
        assert decided.any()
        np.testing.assert_array_equal(late.start_time[decided], early.start_time[decided])
        assert (late.start_time[~decided] >= early.end_time[job]).all()
