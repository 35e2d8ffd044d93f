"""Rating of run-time predictors on a log: early ends that they foresee, and the gain of an order by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.estimates import estimate_walltimes, kills_jobs
from gridtune.batch.metrics.columns import TAU
from gridtune.batch.predictors import EARLY, PREDICTORS, QUANTILES, PredictedJob, Prediction, Predictor
from gridtune.batch.replay import simulate
from gridtune.core.cells import validated
from gridtune.core.schedules.schedule import Schedule
from gridtune.core.system import default_system
from gridtune.core.user_code.plugins import load_plugins
from gridtune.statistics.chances import area_under_roc, calibration_error, reliability
from gridtune.types import FloatArray, IntArray
from gridtune.workload.files import workload_of
from gridtune.workload.workload import Workload

#: UNICEF by what jobs are expected to run: by the mean, and by whether they end early alone. Its score falls
#: with 1 / walltime, whose mean grows by 9 times the chance to end before a tenth; 4 was better on the first
#: halves of three logs.
_UNICEF = "-wait / (max(log2(processors), 1) * max({}, 1))"
_ORDERS = {
    "walltime": _UNICEF.format("walltime"),
    "prediction": _UNICEF.format("prediction"),
    "early_end": _UNICEF.format("walltime / (1 + 4 * early_end)"),
}
#: Share of the jobs that are surest to end early.
_SUREST = 0.1
#: Blocks that are resampled, by when jobs are submitted: two weeks.
_BLOCK = 14 * 86_400
_RESAMPLES = 4_000


class _Gain(NamedTuple):
    """The change of `delay_index` to UNICEF by walltimes, and that of UNICEF by run times.

    `low` and `high` are the 95 % interval of the first: a bootstrap over blocks of two weeks, the same for
    both policies. NaN for a log of one block.
    """

    change: float
    clairvoyant: float
    low: float
    high: float


@dataclass(frozen=True)
class Rating:
    """The rating of a predictor on a log.

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
        By the order's name in `_ORDERS`.
    """

    predictor: str
    early_ends: float
    area_under_roc: float
    calibration_error: float
    surest: float
    bins: tuple[FloatArray, FloatArray, IntArray]
    error: float
    gains: dict[str, _Gain]

    def share(self, order: str) -> float:
        """Return the share of the clairvoyant gain that the predictor captures; below 0 for a loss."""
        gain = self.gains[order]
        return gain.change / gain.clairvoyant


def block_sums(schedule: Schedule) -> FloatArray:
    """Return sums over the jobs that are submitted in each block of two weeks, shape (blocks, 5).

    The columns are jobs, bounded slowdowns, areas, areas times responses, and waits.
    """
    work = schedule.workload
    block = (work.submit_time - work.submit_time[0]) // _BLOCK
    run = (schedule.end_time - schedule.start_time).astype(float)
    wait, area = schedule.wait_time.astype(float), work.processors * run
    slowdown = np.maximum((wait + run) / np.maximum(run, TAU), 1)
    columns = (np.ones(len(wait)), slowdown, area, area * (wait + run), wait)
    return np.stack([np.bincount(block, column) for column in columns], axis=-1)


def delay_of(blocks: FloatArray) -> FloatArray:
    """Return slowdown, area-weighted response, mean wait and `delay_index` of blocks, shape (..., 4)."""
    jobs, slowdown, area, response, wait = np.moveaxis(blocks.sum(axis=-2), -1, 0)
    three = np.stack([slowdown / jobs, response / area, wait / jobs], axis=-1)
    return np.concatenate([three, np.cbrt(three.prod(axis=-1, keepdims=True))], axis=-1)


def resampled_blocks(blocks: int) -> IntArray:
    """Return the blocks of each resample, shape (resamples, blocks): the same for all policies on a log."""
    return np.random.default_rng(1).integers(blocks, size=(_RESAMPLES, blocks))


def predict(
    log: Workload | str,
    *,
    predictor: Sequence[str] = (),
    guard: int | None = None,
    part: str | None = None,
    plugin: Sequence[str | Path] = (),
    say: Callable[[str], object] = lambda line: None,
) -> tuple[Workload, list[Rating]]:
    """Evaluate predictors of run times on a log: replay it by walltimes, predictions and run times.

    Parameters
    ----------
    log
        The jobs: a log, a file or a name that `gridtune traces list` shows.
    predictor
        The predictors; by default all.
    guard
        Longest wait in seconds; jobs that wait longer go first.
    part
        Part of the log, as I/N: the i-th of n.
    plugin
        Python files that register predictors.
    say
        Called with a line on each step.

    Returns
    -------
    tuple
        The jobs that were replayed, and a rating of each predictor.
    """
    load_plugins(plugin)
    given = {"trace": "quickstart" if isinstance(log, Workload) else log, **({"part": part} if part else {})}
    parameters: Any = validated(default_system(), given)
    whole = log if isinstance(log, Workload) else workload_of(str(parameters.reference))
    jobs = parameters.selected_jobs(whole)
    walltime, _ = estimate_walltimes(jobs, "log", 0.0, None)
    run = np.minimum(jobs.run_time, walltime) if kills_jobs(jobs, "auto") else jobs.run_time
    known = run.tolist()

    def replayed(order: str, kind: str | Callable[[], Predictor]) -> FloatArray:
        return block_sums(simulate(jobs, order=_ORDERS[order], guard=guard, predictor=kind))

    say("replaying by walltimes and by run times")
    base = replayed("walltime", "last-two")
    by_order = [name for name in _ORDERS if name != "walltime"]
    clairvoyant = replayed("prediction", lambda: _Clairvoyant(known))
    early = run < EARLY * walltime
    ratings = []
    for name in predictor or PREDICTORS:
        say(f"replaying by {name}")
        said: dict[int, Prediction] = {}
        kind = PREDICTORS.find(name)
        gains = {
            order: _gain(base, replayed(order, lambda: _Recorder(kind(), said)), clairvoyant)  # noqa: B023
            for order in by_order
        }
        chance = np.array([said[job].early_end for job in range(len(jobs))])
        mean = np.array([said[job].mean for job in range(len(jobs))])
        surest = np.argsort(-chance, kind="stable")[: max(1, int(_SUREST * len(jobs)))]
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
    return jobs, ratings


def _gain(base: FloatArray, own: FloatArray, clairvoyant: FloatArray) -> _Gain:
    """Return the gain of a policy, and of one that knows, by their sums over blocks."""
    drawn = resampled_blocks(len(base))
    ratios = delay_of(own[drawn])[:, -1] / delay_of(base[drawn])[:, -1] - 1
    low, high = np.quantile(ratios, [0.025, 0.975]) if len(base) > 1 else (np.nan, np.nan)
    change, best = (float(delay_of(one)[-1] / delay_of(base)[-1] - 1) for one in (own, clairvoyant))
    return _Gain(change, best, float(low), float(high))


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
    """Knows the run times: the upper limit of any predictor."""

    def __init__(self, run_times: Sequence[int]) -> None:
        self._run_times = run_times

    def ended(self, job: PredictedJob, run_time: int, now: int) -> None:
        """Learn nothing."""

    def predict(self, job: PredictedJob, now: int) -> Prediction:
        run = float(self._run_times[job.number])
        return Prediction(run, (run,) * len(QUANTILES), float(run < EARLY * job.walltime))
