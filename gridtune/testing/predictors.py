"""The conformance suite of predictors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from gridtune.batch.predictors import EARLY, PREDICTORS, PredictedJob, Prediction, Predictor
from gridtune.batch.predictors.predictor import check_prediction
from gridtune.batch.replay import simulate
from gridtune.core.schedules.schedule import Schedule, validate_schedule
from gridtune.registry import Registry
from gridtune.testing.registries import RegistryConformance
from gridtune.workload.generators import generate_workload
from gridtune.workload.workload import Workload

__all__ = ["PredictorConformance"]

#: Policies that read predictions in every way.
_POLICIES = (
    {"order": "walltime * (1 - early_end) + prediction - wait"},
    {"order": "rollout(durations=predicted, window=12)"},
    {"order": "saf", "walltime": "predicted"},
)


def _log() -> Workload:
    return generate_workload("sessions", jobs=300, processors=32, seed=2)


def _job(number: int, **changes: int) -> PredictedJob:
    usual = PredictedJob(number, 3600 * number, 3600, 4, number % 3, 1, 1, 1)
    return usual._replace(**changes)


def _told(predictor: Predictor, jobs: int) -> None:
    """Let jobs of three users be submitted, predicted and end, one after the other; some end at once."""
    for number in range(jobs):
        job = _job(number)
        predictor.submitted(job, job.submit_time)
        predictor.predict(job, job.submit_time)
        run = 5 if number % 2 else 3000
        predictor.ended(job._replace(elapsed=run), run, job.submit_time + run)


class PredictorConformance(RegistryConformance):
    """The rules of a predictor."""

    registry: ClassVar[Registry[type[Predictor]]] = PREDICTORS
    names: ClassVar[Sequence[str] | None] = None

    def test_says_what_it_does(self, name: str) -> None:
        """Its docstring begins with a line that tells people what it goes by."""
        assert (inspect.getdoc(PREDICTORS.find(name)) or "").strip()

    @pytest.mark.parametrize("jobs", [0, 1, 2, 600])
    def test_predictions_are_sound(self, name: str, jobs: int) -> None:
        """Before and after jobs have ended, of every kind of job, predictions are finite and in order."""
        predictor = PREDICTORS.find(name)()
        _told(predictor, jobs)
        for changes in ({}, {"walltime": 1}, {"user": -1, "group": -1}, {"processors": 4096}):
            job = _job(1000, **changes)
            predictor.submitted(job, job.submit_time)
            check_prediction(predictor.predict(job, job.submit_time))

    def test_a_job_that_runs_is_not_expected_to_have_ended(self, name: str) -> None:
        """A job that has run for a tenth of its walltime does not end early any more."""
        predictor = PREDICTORS.find(name)()
        _told(predictor, 600)
        job = _job(1000)
        predictor.submitted(job, job.submit_time)
        predictor.predict(job, job.submit_time)
        running = job._replace(elapsed=int(EARLY * job.walltime) + 1)
        prediction = predictor.predict(running, job.submit_time + running.elapsed)
        check_prediction(prediction)
        assert prediction.early_end == 0
        assert prediction.mean >= running.elapsed

    def test_asking_changes_nothing(self, name: str) -> None:
        """Asked twice it says the same."""
        predictor = PREDICTORS.find(name)()
        _told(predictor, 600)
        job = _job(1000)
        predictor.submitted(job, job.submit_time)
        said: Callable[[], Prediction] = lambda: predictor.predict(job, job.submit_time)  # noqa: E731
        assert said() == said()

    @pytest.mark.parametrize("policy", _POLICIES, ids=["order", "rollout", "walltime"])
    def test_schedules_are_sound_and_repeatable(self, name: str, policy: dict[str, str]) -> None:
        """Schedules under its predictions are sound, and a second replay remembers nothing."""
        schedule = _replayed(_log(), name, policy)
        validate_schedule(schedule)
        again = _replayed(_log(), name, policy)
        np.testing.assert_array_equal(schedule.start_time, again.start_time)

    @pytest.mark.parametrize("policy", _POLICIES, ids=["order", "rollout", "walltime"])
    @pytest.mark.parametrize("job", [30, 200, 280])
    def test_does_not_see_run_times(self, name: str, policy: dict[str, str], job: int) -> None:
        """Had a job run longer, within its walltime, nothing before its end would have changed."""
        log = _log()
        log = replace(log, columns={**log.columns, "requested_time": log.run_time + 9000})
        longer = np.array(log.run_time)
        longer[job] += 8000
        early = _replayed(log, name, policy)
        late = _replayed(replace(log, columns={**log.columns, "run_time": longer}), name, policy)
        decided = early.start_time < early.end_time[job]
        assert decided.any()
        np.testing.assert_array_equal(late.start_time[decided], early.start_time[decided])
        assert (late.start_time[~decided] >= early.end_time[job]).all()


def _replayed(workload: Workload, name: str, policy: dict[str, str]) -> Schedule:
    return simulate(workload, predictor=name, kill=True, **policy)  # type: ignore[arg-type]
