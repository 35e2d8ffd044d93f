"""`MetricConformance`: what every metric of schedules must do."""

from __future__ import annotations

import math
from typing import Any, ClassVar, get_args

import numpy as np
import numpy.typing as npt
import pytest

from gridtune.batch.metrics import METRICS, JobColumns, Metric, evaluate, get_metric
from gridtune.core.measure import Direction
from gridtune.core.schedule import Schedule
from gridtune.registry import Registry
from gridtune.testing.registered import RegistryConformance
from gridtune.testing.samples import permuted, sample_schedule

__all__ = ["MetricConformance"]


def _value(name: str, schedule: Schedule, **trimming: float) -> float:
    return evaluate(schedule, only=[name], **trimming)[name]


class MetricConformance(RegistryConformance):
    """The rules of a metric."""

    registry: ClassVar[Registry[Metric]] = METRICS

    def test_says_what_it_is(self, name: str) -> None:
        """Unit, formula, source and description are not empty, and the direction is min, max or none."""
        metric = get_metric(name)
        for text in (metric.unit, metric.formula, metric.source, metric.description):
            assert text.strip()
        assert metric.direction in get_args(Direction)

    def test_is_a_finite_number_of_a_sound_schedule(self, name: str) -> None:
        """Of five jobs of three users it is a finite number."""
        value = get_metric(name).function(JobColumns.trimmed(sample_schedule()))
        assert isinstance(value, float | int | np.number)
        assert math.isfinite(value)

    @pytest.mark.parametrize(("jobs", "warmup"), [(0, 0), (5, 5)], ids=["no jobs", "all left out"])
    def test_is_undefined_of_nothing(self, name: str, jobs: int, warmup: int) -> None:
        """Without jobs it is NaN and raises nothing; only a count, which has no better direction, is 0."""
        value = _value(name, sample_schedule(jobs), warmup=warmup)
        assert math.isnan(value) or (value == 0 and get_metric(name).direction == "none")

    @pytest.mark.parametrize("jobs", [1, 2, 3, 4])
    def test_takes_any_number_of_jobs(self, name: str, jobs: int) -> None:
        """Of one job, or of a few, it raises nothing and is never infinite."""
        assert not math.isinf(_value(name, sample_schedule(jobs)))

    @pytest.mark.parametrize("trimming", [{}, {"warmup": 1, "cooldown": 1}], ids=["all", "trimmed"])
    def test_does_not_depend_on_the_order_of_rows(self, name: str, trimming: dict[str, float]) -> None:
        """The same jobs in another order of rows give the same value."""
        schedule = sample_schedule()
        value = _value(name, permuted(schedule), **trimming)
        assert value == pytest.approx(_value(name, schedule, **trimming), rel=1e-12, nan_ok=True)

    def test_leaves_the_schedule_as_it_was(self, name: str) -> None:
        """It changes no column, and a second call gives the same value."""
        schedule = sample_schedule()
        work = schedule.workload
        columns: list[npt.NDArray[Any]] = [
            schedule.start_time,
            schedule.end_time,
            schedule.walltime,
            schedule.state,
        ]
        columns += [work.submit_time, work.run_time, work.requested_time, work.processors]
        before = [column.copy() for column in columns]
        jobs = JobColumns.trimmed(schedule)
        first = get_metric(name).function(jobs)
        assert first == get_metric(name).function(jobs)
        for column, copy in zip(columns, before, strict=True):
            np.testing.assert_array_equal(column, copy)
