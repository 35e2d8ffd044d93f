"""The learners of a dispatcher, by name: each turns finished jobs into chances of ending in time.

A learner is refreshed from examples (rows of attributes, and what became of the jobs) and then asked for all
machines of one decision at once. Answers come from plain arrays: scikit-learn fits, it does not predict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from gridtune.errors import SimulationError
from gridtune.systems.dispatch.classifiers.selection import Chosen, class_weights, select
from gridtune.systems.dispatch.simulator.attributes import LEFT, MACHINE, PREDICTED, AttributeSet
from gridtune.systems.dispatch.simulator.replay import PROBABLE

__all__ = ["LEARNERS", "Examples", "Learner", "LearnerName", "make_learner"]

Floats = npt.NDArray[np.float64]

LearnerName = Literal["j48", "naive_bayes", "lwl", "boosting", "boosted_time"]


class Examples(NamedTuple):
    """What became of jobs: attributes when they were placed, and the outcome.

    Attributes
    ----------
    rows
        Shape (n, d), float64.
    in_time
        Shape (n,), int64: 1 for jobs that ended in time.
    seconds
        Shape (n,), float64: from placing to end.
    """

    rows: Floats
    in_time: npt.NDArray[np.int64]
    seconds: Floats


class Learner(Protocol):
    """What a dispatcher asks of a learner."""

    #: Which attributes it is told.
    attributes: AttributeSet
    #: What model selection chose last; None where there is nothing to select.
    chosen: Chosen | None
    #: Learns from so many examples at most; None for any number.
    memory: int | None

    def refresh(self, examples: Examples, *, anew: bool, rng: np.random.Generator) -> None:
        """Learn from examples; `anew`: select the model's settings anew, too."""
        ...

    def chances(self, rows: Floats) -> Floats:
        """Return the chance of ending in time for each row, shape (n,)."""
        ...

    def preference(self, rows: Floats) -> Floats:
        """Return, for each row, a number that is larger where a job should rather go."""
        ...


@dataclass
class _Classifier:
    """A learner that classifies."""

    attributes: AttributeSet = "paper"
    limit: int | None = 1000
    chosen: Chosen | None = None
    memory: int | None = None
    settings: tuple[Any, ...] = (None,)

    def refresh(self, examples: Examples, *, anew: bool, rng: np.random.Generator) -> None:
        table, labels = self.prepared(examples.rows), examples.in_time
        if labels.min() == labels.max():
            self.constant(float(labels[0]))
            return
        if anew or self.chosen is None:
            self.chosen = select(table, labels, self.settings, self.scores, limit=self.limit, rng=rng)
        self.fit(table, labels, class_weights(labels, self.chosen.weight), self.chosen.setting)

    def constant(self, chance: float) -> None:
        """All jobs of the examples had one outcome: that is all there is to say."""
        self.answer: Callable[[Floats], Floats] = lambda rows: np.full(len(rows), chance)

    def chances(self, rows: Floats) -> Floats:
        return self.answer(self.prepared(rows))

    def preference(self, rows: Floats) -> Floats:
        return self.chances(rows)

    def prepared(self, rows: Floats) -> Floats:
        return rows

    def scores(self, table: Floats, labels: Any, weights: Floats, rows: Floats) -> Any:
        for setting in self.settings:
            self.fit(table, labels, weights, setting)
            yield self.answer(rows)

    def fit(self, table: Floats, labels: Any, weights: Floats, setting: Any) -> None:
        raise NotImplementedError


@dataclass
class J48(_Classifier):
    """C4.5's tree; its setting is the confidence factor. A machine's name becomes a column of its own."""

    settings: tuple[Any, ...] = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
    machines: int = 1

    def prepared(self, rows: Floats) -> Floats:
        named = rows[:, MACHINE, None] == np.arange(self.machines)
        return np.concatenate([np.delete(rows, MACHINE, axis=1), named], axis=1).astype(np.float32)

    def scores(self, table: Floats, labels: Any, weights: Floats, rows: Floats) -> Any:
        from gridtune.systems.dispatch.classifiers.c45 import grow  # noqa: PLC0415

        grown = grow(table, labels, weights, classes=2)
        for confidence in self.settings:
            self._take(grown, confidence)
            yield self.answer(rows)

    def fit(self, table: Floats, labels: Any, weights: Floats, setting: Any) -> None:
        from gridtune.systems.dispatch.classifiers.c45 import grow  # noqa: PLC0415

        self._take(grow(table, labels, weights, classes=2), setting)

    def _take(self, grown: Any, confidence: float) -> None:
        from gridtune.systems.dispatch.classifiers.c45 import leaf_shares  # noqa: PLC0415
        from gridtune.systems.dispatch.classifiers.flat import flat_tree  # noqa: PLC0415

        nodes = grown.pruned(confidence, True)
        self.answer = flat_tree(nodes, leaf_shares(nodes)[:, 1]).sums


@dataclass
class NaiveBayes(_Classifier):
    """Naive Bayes; it has no setting of its own. Named columns: the machine."""

    machines: int = 1

    def fit(self, table: Floats, labels: Any, weights: Floats, setting: Any) -> None:
        from gridtune.systems.dispatch.classifiers.bayes import MixedNaiveBayes  # noqa: PLC0415
        from gridtune.systems.dispatch.classifiers.kernels import mixed_bayes  # noqa: PLC0415

        fitted = MixedNaiveBayes((MACHINE,), known=self.machines).fit(table, labels, weights)
        normal: Any = fitted.normal_
        named = cast("Any", fitted.named_).feature_log_prob_[0][:, None, :]
        told = (np.log(normal.class_prior_), normal.theta_, normal.var_, named)
        arrays = [np.ascontiguousarray(each) for each in told]
        quantities, names = fitted.quantities_, fitted.names_

        def answer(rows: Floats) -> Floats:
            out = np.empty(len(rows))
            mixed_bayes(*arrays, np.ascontiguousarray(rows), quantities, names, out)
            return out

        self.answer = answer


@dataclass
class LocallyWeighted(_Classifier):
    """Locally weighted learning; its setting is the number of neighbours.

    Every question goes over all examples, so it keeps to the last 500.
    """

    settings: tuple[Any, ...] = (None, 1, 10, 50, 100)
    memory: int | None = 500
    limit: int | None = 250

    def fit(self, table: Floats, labels: Any, weights: Floats, setting: Any) -> None:
        from gridtune.systems.dispatch.classifiers.lwl import LocallyWeightedClassifier  # noqa: PLC0415

        fitted = LocallyWeightedClassifier(setting, (MACHINE,)).fit(table, labels, weights)
        self.answer = lambda rows: fitted.shares(rows)[:, 1]


@dataclass
class Boosting(_Classifier):
    """Histogram gradient boosting on what any broker can observe, calibrated by isotonic regression."""

    attributes: AttributeSet = "informed"
    rounds: int = 60

    def refresh(self, examples: Examples, *, anew: bool, rng: np.random.Generator) -> None:
        del anew
        labels = examples.in_time
        if min(np.bincount(labels, minlength=2)) < 2 * _HOLD_OUT:
            self.constant((labels.sum() + 0.5) / (len(labels) + 1.0))
            return
        from sklearn.isotonic import IsotonicRegression  # noqa: PLC0415

        order = rng.permutation(len(labels))
        held, rest = order[::_HOLD_OUT], np.setdiff1d(order, order[::_HOLD_OUT])
        raw = self._fitted(examples.rows[rest], labels[rest])
        calibrated = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0)
        calibrated.fit(raw(examples.rows[held]), labels[held])
        edges, levels = calibrated.X_thresholds_, calibrated.y_thresholds_
        self.answer = lambda rows: np.interp(raw(rows), edges, levels)

    def _fitted(self, rows: Floats, labels: Any) -> Callable[[Floats], Floats]:
        from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415

        return _boosted(
            HistGradientBoostingClassifier(max_iter=self.rounds, early_stopping=False), rows, labels
        )

    def preference(self, rows: Floats) -> Floats:
        """Return chances where they are good; else, below 0, how early the end is predicted.

        Among chances that are all small the differences are noise, and who is late anyway had better not
        be much later.
        """
        chances, seconds = self.chances(rows), rows[:, PREDICTED]
        return np.where(chances >= PROBABLE, chances, -seconds / seconds.max())


#: Every so many-th example is held out to calibrate on.
_HOLD_OUT = 5


@dataclass
class BoostedTime:
    """A model of the time to completion: boosted trees for its mean, and the spread seen around it.

    What is fitted is the logarithm of the seconds to completion over those that the queue is predicted to
    take to drain: trees say nothing beyond what they have seen, a queue may grow beyond it. The chance of
    ending in time is the share of held-out examples whose seconds over predicted seconds were at most what
    the deadline leaves: quantiles, put where held-out examples say they belong (split conformal prediction).
    """

    attributes: AttributeSet = "informed"
    rounds: int = 30
    chosen: Chosen | None = None
    memory: int | None = None
    ratios: Floats = field(default_factory=lambda: np.ones(0))
    model: Callable[[Floats], Floats] | None = None

    def refresh(self, examples: Examples, *, anew: bool, rng: np.random.Generator) -> None:
        """Fit the mean on four fifths of the examples and take the spread from the rest."""
        del anew
        if len(examples.seconds) < 4 * _HOLD_OUT:
            return
        from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415

        goal = np.log(np.maximum(examples.seconds, 1.0) / examples.rows[:, PREDICTED])
        order = rng.permutation(len(goal))
        held, rest = order[::_HOLD_OUT], np.setdiff1d(order, order[::_HOLD_OUT])
        regressor = HistGradientBoostingRegressor(max_iter=self.rounds, early_stopping=False)
        self.model = _boosted(regressor, examples.rows[rest], goal[rest])
        self.ratios = np.sort(np.exp(goal[held] - self.model(examples.rows[held])))

    def seconds(self, rows: Floats) -> Floats:
        """Return predicted seconds to completion, shape (n,)."""
        if self.model is None:
            return rows[:, PREDICTED]
        found: Floats = rows[:, PREDICTED] * np.exp(self.model(rows))
        return found

    def chances(self, rows: Floats) -> Floats:
        """Return the chance of ending in time for each row."""
        allowed = rows[:, LEFT] / self.seconds(rows)
        kept = np.searchsorted(self.ratios, allowed, side="right").astype(np.float64)
        return (kept + 0.5) / (len(self.ratios) + 1.0)

    def preference(self, rows: Floats) -> Floats:
        """Return minus the predicted seconds: of one job's machines the earliest end is the best."""
        return -self.seconds(rows)


def _boosted(model: Any, rows: Floats, goal: Any) -> Callable[[Floats], Floats]:
    """Fit boosted trees and flatten them; on one thread, for several wait long on a busy machine."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # noqa: PLC0415

    from gridtune.systems.dispatch.classifiers.flat import flat_boosting  # noqa: PLC0415

    with threadpool_limits(limits=1):
        return flat_boosting(model.fit(rows, goal)).sums


LEARNERS: tuple[LearnerName, ...] = ("j48", "naive_bayes", "lwl", "boosting", "boosted_time")


def make_learner(name: str, machines: int, *, limit: int | None = 1000) -> Learner:
    """Return a learner by its name.

    Parameters
    ----------
    name
        `j48`, `naive_bayes`, `lwl`: the paper's; `boosting`: histogram gradient boosting; `boosted_time`: a
        model of the time to completion.
    machines
        How many there are.
    limit
        Examples that model selection judges on; None for all. Locally weighted learning keeps to 250.
    """
    if name == "j48":
        return J48(machines=machines, limit=limit)
    if name == "naive_bayes":
        return NaiveBayes(machines=machines, limit=limit)
    if name == "lwl":
        return LocallyWeighted()
    if name == "boosting":
        return Boosting()
    if name == "boosted_time":
        return BoostedTime()
    raise SimulationError(f"no learner is named {name!r}", hint=f"one of {', '.join(LEARNERS)}")
