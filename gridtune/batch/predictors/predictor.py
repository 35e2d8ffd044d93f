"""Predictors of run times, from requests and from jobs that have ended.

A predictor is told of each submission and each end as a replay comes to them, so it cannot know more than a
scheduler does. `predictor` registers a class of one's own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, NamedTuple

from gridtune.arguments import require
from gridtune.core.user_code.plugins import declare_files
from gridtune.errors import PolicyError
from gridtune.registry import Registry

#: A job ends early if it ends before this share of its walltime.
EARLY = 0.1
#: The levels of the quantiles of a prediction.
QUANTILES = (0.1, 0.5, 0.9)


class PredictedJob(NamedTuple):
    """A job as predictors see it; owners are numbers as in the log, -1 where it names none."""

    #: Its row in the workload: the same job has the same number in every call.
    number: int
    #: Seconds from the workload's first submission to this one.
    submit_time: int
    #: Seconds that it requests.
    walltime: int
    processors: int
    user: int
    group: int
    queue: int
    partition: int
    #: Seconds since it has started, those of nodes that boot included; 0 while it waits.
    elapsed: int = 0

    def templates(self) -> tuple[Hashable, ...]:
        """Return what the job has in common with others: user, size and walltime, from all to little."""
        user = self.user
        return (user, self.processors, self.walltime), (user, -1, self.walltime), (user, -1, -1)


class Prediction(NamedTuple):
    """The expectation of a job, given that it has run for `elapsed` seconds already."""

    #: Seconds that it runs altogether: the mean, and the quantiles of the levels `QUANTILES`.
    mean: float
    quantiles: tuple[float, ...]
    #: The probability that it ends before a share `EARLY` of its walltime.
    early_end: float

    def check(self) -> None:
        """Raise a `ValueError` that says what is wrong with a prediction."""
        mean, quantiles, early = self
        if not (math.isfinite(mean) and mean >= 0):
            raise ValueError(f"its mean is {mean!r} and no finite number >= 0")
        if len(quantiles) != len(QUANTILES) or not all(map(math.isfinite, quantiles)):
            raise ValueError(f"its quantiles are {quantiles!r} and not {len(QUANTILES)} finite numbers")
        if any(later < sooner for sooner, later in pairwise(quantiles)):
            raise ValueError(f"its quantiles {quantiles!r} fall")
        if not 0 <= early <= 1:
            raise ValueError(f"its probability of an early end is {early!r}")


class Predictor(ABC):
    """A predictor of run times. Each replay has one of its own, made without arguments.

    `predict` is called when a job is submitted, and while it waits whenever a job of the same user has ended.
    While it waits or runs it is called again after `interval` seconds, and for a job that has run for longer
    than predicted, when next a job is submitted or ends.
    """

    #: The name that it is registered by.
    name: ClassVar[str] = ""
    #: A prediction is made again after so many seconds.
    interval: ClassVar[int] = 3600

    def submitted(self, job: PredictedJob, now: int) -> None:  # noqa: B027  (need not be of use)
        """Take note of a job that has been submitted; `predict` follows. Times as in `PredictedJob`."""

    @abstractmethod
    def ended(self, job: PredictedJob, run_time: int, now: int) -> None:
        """Take note of a job that has ended, killed or not, after `run_time` seconds."""

    @abstractmethod
    def predict(self, job: PredictedJob, now: int) -> Prediction:
        """Return what is expected of a job that waits or runs."""


#: The predictors that come with gridtune.
_OWN = {
    "last-two": "gridtune.batch.predictors.histories:LastTwo",
    "template": "gridtune.batch.predictors.histories:Template",
    "early-end": "gridtune.batch.predictors.early_end:EarlyEnd",
}
#: All predictors by name.
PREDICTORS: Registry[type[Predictor]] = Registry("predictor", "gridtune.predictors", PolicyError, own=_OWN)


def predictor(name: str, *, files: Iterable[str | Path] = ()) -> Callable[[type[Predictor]], type[Predictor]]:
    """Register a class as the predictor of that name.

    The content of `files`, other files that its module reads, is part of the ids of its cells; relative paths
    are relative to the class's file.

    Raises
    ------
    PolicyError
        If it is no `Predictor`, or the name is taken by another one, or a file is missing.
    """
    hint = "write the name: @predictor('mine')"
    require(name, str, "the name of a predictor", error=PolicyError, hint=hint)

    def register(kind: type[Predictor]) -> type[Predictor]:
        if not (isinstance(kind, type) and issubclass(kind, Predictor)):
            raise PolicyError(f"predictor {name!r} must be a class that derives from Predictor, got {kind!r}")
        if missing := sorted(kind.__abstractmethods__):
            raise PolicyError(f"predictor {name!r} has no method {', '.join(missing)}")
        kind.name = name
        declare_files(kind, files, f"@predictor({name!r})", PolicyError)
        PREDICTORS.register(name, kind)
        return kind

    return register
