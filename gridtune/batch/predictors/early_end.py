"""`early-end`: boosted trees that tell which jobs end long before they have to."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from gridtune.batch.predictors.histories import quantiles_of
from gridtune.batch.predictors.predictor import (
    EARLY,
    QUANTILES,
    PredictedJob,
    Prediction,
    Predictor,
    predictor,
)
from gridtune.core.compiled import kernel
from gridtune.types import FloatArray, IntArray

#: The first fit is after so many ends, each further one after so many and this share of those before.
_FIRST, _GROWTH = 200, 0.15
#: A fit is of at most so many jobs, the last to end.
_MOST = 8000
_ROUNDS, _LEAVES = 60, 16
#: Jobs as which the share of all counts beside that of an owner.
_PRIOR = 2.0
#: What an end counts after another one.
_FADING = 0.9
#: Values that quantiles are taken of.
_STEPS = 20
_HOUR, _DAY = 3600, 86_400


class _Owner:
    """Statistics of the ended jobs of a user, or of a kind of jobs of a user.

    Attributes
    ----------
    ends, early
        Jobs that have ended, and early; older ones fade.
    sums
        Sums of the shares of the walltime that those which ended early and the others ran, likewise.
    last
        Shares of the walltime that the last two ran.
    ended
        The time of the last end.
    """

    __slots__ = ("early", "ended", "ends", "last", "sums")

    def __init__(self) -> None:
        self.ends = self.early = 0.0
        self.sums = [0.0, 0.0]
        self.last, self.ended = (math.nan, math.nan), -math.inf

    def note(self, share: float, now: int) -> None:
        self.ends = _FADING * self.ends + 1
        self.early = _FADING * self.early + (share < EARLY)
        self.sums = [_FADING * total for total in self.sums]
        self.sums[share >= EARLY] += min(share, 1.0)
        self.last, self.ended = (share, self.last[0]), now


class _Shares:
    """Shares of their walltimes that jobs ran, ascending."""

    def __init__(self, shares: Sequence[float] = ()) -> None:
        self._values = sorted(shares)
        self._sums = [0.0, *accumulate(self._values)]

    def __bool__(self) -> bool:
        return bool(self._values)

    def beyond(self, gone: float) -> float:
        """Return how many of them are longer than a share."""
        return (len(self._values) - bisect_right(self._values, gone)) / len(self._values)

    def mean(self, gone: float) -> float:
        """Return the mean of those that are longer than a share, of which there are some."""
        first = bisect_right(self._values, gone)
        return (self._sums[-1] - self._sums[first]) / (len(self._values) - first)

    def even(self, gone: float, number: int) -> list[float]:
        """Return so many of those that are longer than a share, at even steps."""
        first = bisect_right(self._values, gone)
        rest = len(self._values) - first
        return [self._values[first + int((place + 0.5) * rest / number)] for place in range(number)]


@predictor("early-end")
class EarlyEnd(Predictor):
    """Boosted trees for the chance of an early end, fitted again and again to jobs that have ended."""

    def __init__(self) -> None:
        self._owners: dict[Hashable, _Owner] = {}
        self._all = _Owner()
        #: Features of jobs that have not ended, and of those that have, with the share that each ran.
        self._features: dict[int, tuple[float, ...]] = {}
        self._rows: list[tuple[float, ...]] = []
        self._shares: list[float] = []
        self._ends, self._next_fit = 0, _FIRST
        self._queued: dict[int, int] = {}
        self._raw: Callable[[FloatArray], FloatArray] | None = None
        self._early, self._late = _Shares(), _Shares()
        #: What was said at an instant, of jobs that are alike.
        self._said_at = (-1, -1)
        self._said: dict[Hashable, tuple[tuple[float, ...], Prediction]] = {}

    def submitted(self, job: PredictedJob, now: int) -> None:
        """Count the jobs of the user that have not ended."""
        self._queued[job.user] = self._queued.get(job.user, 0) + 1

    def ended(self, job: PredictedJob, run_time: int, now: int) -> None:
        """Learn from the job, with what was known when it was predicted last before its start."""
        share = run_time / max(job.walltime, 1)
        self._queued[job.user] -= 1
        for key in reversed(job.templates()):
            self._owners.setdefault(key, _Owner()).note(share, now)
        self._all.note(share, now)
        self._rows.append(self._features.pop(job.number))
        self._shares.append(share)
        del self._rows[:-_MOST], self._shares[:-_MOST]
        self._ends += 1
        if self._ends >= self._next_fit:
            self._fit()

    def predict(self, job: PredictedJob, now: int) -> Prediction:
        """Return the prediction; before the first fit, by the share of early ends."""
        if job.elapsed:
            return self._prediction(job, self._chance(self._features[job.number]))
        if self._said_at != (now, self._ends):
            self._said_at, self._said = (now, self._ends), {}
        # Of a user's waiting jobs many are alike, and all of them are predicted when one of the user's ends.
        alike = (job.user, job.queue, job.walltime, job.processors, _hour_of(job), self._queued.get(job.user))
        if alike not in self._said:
            features = self._features_of(job, now)
            prediction = self._prediction(job, self._chance(features))
            mean = job.walltime * self._mean_share(job, prediction.early_end)
            self._said[alike] = features, prediction._replace(mean=mean) if self._late else prediction
        self._features[job.number], prediction = self._said[alike]
        return prediction

    def _mean_share(self, job: PredictedJob, chance: float) -> float:
        """Return the mean share of the walltime that a job runs, by the user's jobs and those of all."""
        shares = [part.mean(-1.0) if part else 1.0 for part in (self._early, self._late)]
        for key in reversed(job.templates()):
            owner = self._owners.get(key)
            if owner is not None:
                counts = owner.early, owner.ends - owner.early
                shares = [
                    (total + _PRIOR * share) / (count + _PRIOR)
                    for total, count, share in zip(owner.sums, counts, shares, strict=True)
                ]
        return chance * shares[0] + (1 - chance) * shares[1]

    def _chance(self, features: tuple[float, ...]) -> float:
        """Return the probability of an early end at submission."""
        if self._raw is None:
            return self._all.early / self._all.ends if self._all.ends else 0.0
        raw = float(self._raw(np.array([features]))[0])
        return 1.0 / (1.0 + math.exp(-min(max(raw, -700.0), 700.0)))

    def _features_of(self, job: PredictedJob, now: int) -> tuple[float, ...]:
        usual = self._all.early / self._all.ends if self._all.ends else 0.0
        features = [
            math.log(max(job.walltime, 1)),
            math.log2(job.processors),
            float(_hour_of(job)),
            float(self._queued.get(job.user, 0)),
            float(job.queue),
            usual,
        ]
        for key in reversed(job.templates()):
            owner = self._owners.get(key) or _Owner()
            share = (owner.early + _PRIOR * usual) / (owner.ends + _PRIOR)
            last, before = (-1.0 if math.isnan(share) else share for share in owner.last)
            since = math.log(min(now - owner.ended, 1e9) + 1)
            features += [share, owner.ends, last, before, since]
        return tuple(features)

    def _fit(self) -> None:
        """Fit the trees to the jobs that have ended."""
        from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 (for this predictor alone)

        self._next_fit = self._ends + _FIRST + int(_GROWTH * self._ends)
        shares = np.array(self._shares)
        early = shares < EARLY
        if early.any() and not early.all():
            model = HistGradientBoostingClassifier(
                max_iter=_ROUNDS, max_leaf_nodes=_LEAVES, early_stopping=False, random_state=0
            )
            self._raw = _fit_trees(model, np.array(self._rows), early)
        shares = np.minimum(shares, 1.0)
        self._early, self._late = _Shares(shares[early].tolist()), _Shares(shares[~early].tolist())

    def _prediction(self, job: PredictedJob, chance: float) -> Prediction:
        """Return what is expected of a job, from the chance of an early end that it had at its start.

        Given whether a job ends early, the share of its walltime that it runs is as it was for others.
        """
        longest = float(job.walltime)
        gone = job.elapsed / max(longest, 1.0) if job.elapsed else -1.0
        early, late = (part.beyond(gone) if part else 0.0 for part in (self._early, self._late))
        if early + late == 0:
            return Prediction(longest, (longest,) * len(QUANTILES), chance if gone < EARLY else 0.0)
        early, late = chance * early, (1 - chance) * late
        if early + late == 0:
            early, late = (1.0, 0.0) if late == 0 and self._early.beyond(gone) > 0 else (0.0, 1.0)
        chance = early / (early + late)
        mean = 0.0
        values: list[float] = []
        for part, weight in ((self._early, chance), (self._late, 1 - chance)):
            if weight > 0:
                mean += weight * part.mean(gone)
                values += part.even(gone, round(_STEPS * weight))
        return Prediction(longest * mean, tuple(longest * share for share in quantiles_of(values)), chance)


def _hour_of(job: PredictedJob) -> int:
    return job.submit_time % _DAY // _HOUR


def _fit_trees(model: Any, rows: FloatArray, goal: Any) -> Callable[[FloatArray], FloatArray]:
    """Fit a HistGradientBoosting model, and return a function of rows, shape (n, d), for its raw predictions.

    For the few rows of a decision scikit-learn's checks take longer than the prediction. It is fitted on one
    thread: on a busy machine several wait for each other, and their number would decide the last bits.
    """
    with threadpool_limits(limits=1):
        return _predictor_of(model.fit(rows, goal))


class _Trees(NamedTuple):
    """Trees whose leaves are added up: `first` holds the roots, the other columns one entry a node.

    Attributes
    ----------
    left, right
        Children; -1 for a leaf.
    feature, threshold
        The column, and the largest value that goes left.
    value
        Of a leaf.
    """

    first: IntArray
    left: IntArray
    right: IntArray
    feature: IntArray
    threshold: FloatArray
    value: FloatArray


def _predictor_of(model: Any) -> Callable[[FloatArray], FloatArray]:
    """Return a function of rows, shape (n, d), that gives what a fitted HistGradientBoosting model predicts.

    The model has one output, no missing values and no categories; predictions are in its raw units.

    Raises
    ------
    ValueError
        If a tree splits by category.
    """
    trees = [iteration[0].nodes for iteration in model._predictors]
    first = np.cumsum([0, *(len(nodes) for nodes in trees)])
    nodes = np.concatenate(trees)
    if nodes["is_categorical"].any():
        raise ValueError("a tree splits by category, and its predictor supports no categories")
    shift = np.repeat(first[:-1], np.diff(first))
    leaf = nodes["is_leaf"].astype(bool)
    left, right = (np.where(leaf, -1, nodes[side].astype(np.int64) + shift) for side in ("left", "right"))
    flat = _Trees(
        first[:-1].astype(np.int64),
        left,
        right,
        nodes["feature_idx"].astype(np.int64),
        np.ascontiguousarray(nodes["num_threshold"], np.float64),
        np.where(leaf, nodes["value"], 0.0),
    )
    base = float(np.ravel(model._baseline_prediction)[0])

    def predict(rows: FloatArray) -> FloatArray:
        out = np.empty(len(rows))
        _add_up_leaves(flat, rows, out)
        return out + base

    return predict


@kernel()
def _add_up_leaves(trees: Any, rows: Any, out: Any) -> None:
    """Fill in the sum, for each row, of the values of its leaves, one in every tree."""
    for row in range(rows.shape[0]):
        total = 0.0
        for root in trees.first:
            node = root
            while trees.left[node] >= 0:
                below = rows[row, trees.feature[node]] <= trees.threshold[node]
                node = trees.left[node] if below else trees.right[node]
            total += trees.value[node]
        out[row] = total
