"""Predictors by the last jobs of a user: `last-two` and `template`."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence

from gridtune.batch.predictors.predictor import (
    EARLY,
    QUANTILES,
    PredictedJob,
    Prediction,
    Predictor,
    predictor,
)

#: By how much a job is expected to run on that has run for longer than predicted, in seconds, one after the
#: other (Tsafrir, Etsion and Feitelson 2007).
_INCREMENTS = (60, 300, 900, 1800, 3600, 7200, 18_000, 36_000)
#: Jobs of a template that are remembered, and how many it needs to be used.
_REMEMBERED, _NEEDED = 10, 2


def quantiles_of(values: Sequence[float]) -> tuple[float, ...]:
    """Return the quantiles of some values at the levels of a prediction: each is one of the values."""
    ordered = sorted(values)
    return tuple(float(ordered[int(level * (len(ordered) - 1) + 0.5)]) for level in QUANTILES)


def _of_past(runs: Sequence[int], job: PredictedJob) -> Prediction:
    """Return the prediction by run times of jobs like this one."""
    longest, elapsed = job.walltime, job.elapsed
    possible = [float(min(run, longest)) for run in runs if run > elapsed or elapsed == 0]
    early = sum(run < EARLY * longest for run in possible) / len(possible) if possible else 0.0
    if not possible:
        # A job that has run for longer than all it was compared with.
        ends = (elapsed + step for step in _INCREMENTS if step > elapsed / 4)
        end = float(min(longest, next(ends, longest)) if runs else longest)
        return Prediction(end, (end,) * len(QUANTILES), 0.0)
    return Prediction(sum(possible) / len(possible), quantiles_of(possible), early)


@predictor("last-two")
class LastTwo(Predictor):
    """The mean run time of the user's last two jobs that have ended (Tsafrir et al. 2007)."""

    def __init__(self) -> None:
        self._runs: dict[int, tuple[int, ...]] = {}

    def ended(self, job: PredictedJob, run_time: int, now: int) -> None:
        """Remember the run time."""
        self._runs[job.user] = (*self._runs.get(job.user, ())[-1:], run_time)

    def predict(self, job: PredictedJob, now: int) -> Prediction:
        """Return the mean, at most the walltime; the walltime before a job of the user has ended."""
        runs = self._runs.get(job.user, ())
        prediction = _of_past(runs, job)
        if not runs or job.elapsed:
            return prediction
        return prediction._replace(mean=min(float(job.walltime), sum(runs) / len(runs)))


@predictor("template")
class Template(Predictor):
    """The last ten jobs of the same user, size and walltime; failing those, of less in common."""

    def __init__(self) -> None:
        self._runs: dict[Hashable, deque[int]] = {}

    def ended(self, job: PredictedJob, run_time: int, now: int) -> None:
        """Remember the run time under each template of the job."""
        for key in job.templates():
            self._runs.setdefault(key, deque(maxlen=_REMEMBERED)).append(run_time)

    def predict(self, job: PredictedJob, now: int) -> Prediction:
        """Return the prediction by the first template that has enough jobs."""
        past = [self._runs.get(key, ()) for key in job.templates()]
        runs = next((runs for runs in past if len(runs) >= _NEEDED), None)
        return _of_past(list(past[-1] if runs is None else runs), job)
