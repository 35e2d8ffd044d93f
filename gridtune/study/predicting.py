"""How good predictors are on a log: whether they foresee early ends, and what an order gains by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gridtune.batch.estimates import estimate_walltimes, kills_jobs
from gridtune.batch.metrics import evaluate
from gridtune.batch.predictors import EARLY, PREDICTORS, QUANTILES, PredictedJob, Prediction, Predictor
from gridtune.batch.replay import simulate
from gridtune.statistics.chances import area_under_roc, calibration_error, reliability
from gridtune.types import FloatArray, IntArray
from gridtune.workload.workload import Workload

__all__ = ["ORDERS", "Rating", "rate_predictors"]

#: UNICEF by what jobs are expected to run: by the mean, and by whether they end early alone.
_UNICEF = "-wait / (max(log2(processors), 1) * max({}, 1))"
ORDERS = {
    name: _UNICEF.format(expected)
    for name, expected in (
        ("walltime", "walltime"),
        ("prediction", "prediction"),
        ("early_end", f"walltime * (1 - {1 - EARLY:g} * early_end)"),
    )
}
#: Share of the jobs that are surest to end early.
_SUREST = 0.1


@dataclass(frozen=True)
class Rating:
    """How good a predictor is on a log.

    Attributes
    ----------
    predictor
        Its name.
    early_ends
        Share of the jobs that end early.
    area_under_roc, calibration_error
        Of the probability of an early end that was predicted at submission.
    surest
        Share of early ends among the tenth of the jobs that were surest to.
    bins
        Mean probability, share of early ends and number of jobs, for tenths of the probability.
    error
        Mean of |predicted mean − run time| over the mean run time; NaN if all run for 0 s.
    gains
        By the order's name in `ORDERS`: the change of `delay_index` to UNICEF by walltimes, and that of a
        predictor that knows the run times.
    """

    predictor: str
    early_ends: float
    area_under_roc: float
    calibration_error: float
    surest: float
    bins: tuple[FloatArray, FloatArray, IntArray]
    error: float
    gains: dict[str, tuple[float, float]]

    def share(self, order: str) -> float:
        """Return the share of the clairvoyant gain that the predictor captures; below 0 for a loss."""
        own, known = self.gains[order]
        return own / known


def rate_predictors(
    log: Workload, names: Sequence[str], *, guard: int | None = None, say: Callable[[str], None] = print
) -> list[Rating]:
    """Replay a log under UNICEF by walltimes, by predictions and by run times, and rate predictors.

    Parameters
    ----------
    log
        The jobs, cleaned.
    names
        The predictors.
    guard
        As of `simulate`.
    say
        Takes a line on each step.
    """
    walltime, _ = estimate_walltimes(log, "log", 0.0, None)
    run = np.minimum(log.run_time, walltime) if kills_jobs(log, "auto") else log.run_time
    known = run.tolist()

    def delay(order: str, predictor: str | Callable[[], Predictor]) -> float:
        schedule = simulate(log, order=ORDERS[order], guard=guard, predictor=predictor)
        return evaluate(schedule, only=["delay_index"])["delay_index"]

    say("replaying by walltimes and by run times")
    base = delay("walltime", "last-two")
    by_order = [name for name in ORDERS if name != "walltime"]
    clairvoyant = {order: delay(order, lambda: _Clairvoyant(known)) / base - 1 for order in by_order}
    early = run < EARLY * walltime
    ratings = []
    for name in names:
        say(f"replaying by {name}")
        said: dict[int, Prediction] = {}
        kind = PREDICTORS.find(name)
        gains = {
            order: (delay(order, lambda: _Recorder(kind(), said)) / base - 1, clairvoyant[order])  # noqa: B023
            for order in by_order
        }
        chance = np.array([said[job].early_end for job in range(len(log))])
        mean = np.array([said[job].mean for job in range(len(log))])
        surest = np.argsort(-chance, kind="stable")[: max(1, int(_SUREST * len(log)))]
        ratings.append(
            Rating(
                name,
                float(early.mean()),
                area_under_roc(chance, early),
                calibration_error(chance, early),
                float(early[surest].mean()),
                reliability(chance, early),
                float(np.abs(mean - run).mean() / run.mean()) if run.any() else float("nan"),
                gains,
            )
        )
    return ratings


class _Recorder(Predictor):
    """A predictor of which is kept what it says of each job at its submission."""

    def __init__(self, inner: Predictor, said: dict[int, Prediction]) -> None:
        self._inner, self._said = inner, said
        said.clear()
        self.interval = inner.interval  # type: ignore[misc]

    def submitted(self, job: PredictedJob, now: int) -> None:
        self._inner.submitted(job, now)

    def ended(self, job: PredictedJob, run_time: int, now: int) -> None:
        self._inner.ended(job, run_time, now)

    def predict(self, job: PredictedJob, now: int) -> Prediction:
        prediction = self._inner.predict(job, now)
        self._said.setdefault(job.number, prediction)
        return prediction


class _Clairvoyant(Predictor):
    """Knows the run times: what a predictor can gain at most."""

    def __init__(self, run_times: Sequence[int]) -> None:
        self._run_times = run_times

    def ended(self, job: PredictedJob, run_time: int, now: int) -> None:
        """Learn nothing."""

    def predict(self, job: PredictedJob, now: int) -> Prediction:
        run = float(self._run_times[job.number])
        return Prediction(run, (run,) * len(QUANTILES), float(run < EARLY * job.walltime))
