"""The model of a site, and the arrays that kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.errors import SimulationError
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.state import (
    CEILING,
    CORES,
    DEFICIT_WEIGHT,
    ELASTIC,
    EXTENDED,
    FEATURES,
    FLOOR,
    INTERACTIVE_WEIGHT,
    KEPT,
    LARGEST_SHARE,
    LATENCY,
    MEDIAN_OF,
    MEMORY,
    ORACLE,
    PAPER,
    PERIOD,
    PRIOR_BATCH,
    PRIOR_INTERACTIVE,
    REALS,
    RUN_WEIGHT,
    SPAN_WEIGHT,
    USER_CAP,
    WAIT_WEIGHT,
    WHOLES,
    Jobs,
    Settings,
    Site,
    State,
)
from gridtune.systems.responsive.simulator.stepping import reset_site

__all__ = ["FeatureSet", "LinearWeights", "SiteModel", "new_site", "pool_sizes"]

Int64s = npt.NDArray[np.int64]

#: `paper`: the papers' own; `extended`: more about each candidate. See `features`.
FeatureSet = Literal["paper", "extended"]
_FEATURE_SETS = {"paper": PAPER, "extended": EXTENDED}


class LinearWeights(NamedTuple):
    """Weights of the linear rule, which starts the job with the largest weighted sum.

    Attributes
    ----------
    run, wait, span
        Of ln e, ln(1 + w) and ln(e + w): e is the expected run time of the job's VO and class, w its wait.
    interactive
        Of 1 for an interactive job, 0 for a batch one.
    deficit
        Of the deficit of the VO's target share, relative to the largest target share.
    """

    run: float = 0.0
    wait: float = 0.0
    span: float = -1.0
    interactive: float = 0.0
    deficit: float = 0.0


#: By default the linear rule is the fair index.
_FAIR_INDEX = LinearWeights()


@dataclass(frozen=True)
class SiteModel:
    """The parameters of a site, and what its scheduler knows of run times.

    Attributes
    ----------
    cores
        Cores of the site; of an elastic one, at the start.
    elastic
        Whether a decision also sets the size of the pool.
    floor, largest, step
        Elastic: smallest and largest size of the pool, and the step between the sizes to choose from.
    period
        Elastic: least seconds between two changes of the pool.
    oracle
        Whether run times are known at submission. Otherwise the expected run time of a job is the median of
        the last `median_of` completed jobs of its class.
    median_of
        See `oracle`.
    prior_interactive, prior_batch
        Expected run time of a class before one of its jobs is completed, seconds.
    features
        See `gridtune.systems.responsive.simulator.features`.
    start_latency
        Seconds from a decision to the start of its job; the core is in use meanwhile.
    user_cap
        Most running jobs of a user, for the capped rule.
    weights
        Weights of the linear rule.
    """

    cores: int = 81
    elastic: bool = False
    floor: int = 30
    largest: int = 200
    step: int = 10
    period: int = 900
    oracle: bool = False
    median_of: int = 1000
    prior_interactive: float = 450.0
    prior_batch: float = 3600.0
    features: FeatureSet = "paper"
    start_latency: int = 0
    user_cap: int = 16
    weights: LinearWeights = _FAIR_INDEX

    def __post_init__(self) -> None:
        for name in ("cores", "floor", "step", "median_of", "user_cap"):
            if getattr(self, name) < 1:
                raise SimulationError(f"must be at least 1, but got {getattr(self, name)}", field=name)
        for name in ("prior_interactive", "prior_batch"):
            if not 0 < getattr(self, name) < np.inf:
                raise SimulationError(f"must be above 0, but got {getattr(self, name)}", field=name)
        for name in ("period", "start_latency"):
            if getattr(self, name) < 0:
                raise SimulationError(f"must be at least 0, but got {getattr(self, name)}", field=name)
        if self.elastic and not self.floor <= self.cores <= self.largest:
            raise SimulationError(
                f"`floor <= cores <= largest` must hold, but got {self.floor}, {self.cores}, {self.largest}",
                field="cores",
            )
        if self.features not in _FEATURE_SETS:
            raise SimulationError(
                f"must be one of {', '.join(_FEATURE_SETS)}, but got {self.features!r}", field="features"
            )


def pool_sizes(model: SiteModel) -> Int64s:
    """Return the pool sizes to choose from, ascending; none on a rigid site."""
    if not model.elastic:
        return np.zeros(0, np.int64)
    return np.unique(np.append(np.arange(model.floor, model.largest, model.step), model.largest))


def new_site(jobs: SiteJobs, model: SiteModel) -> Site:
    """Return a site before its first event."""
    n, vos = len(jobs), len(jobs.shares)
    whole = np.zeros(WHOLES, np.int64)
    whole[[CORES, ELASTIC, PERIOD]] = model.cores, model.elastic, model.period
    whole[[FLOOR, CEILING]] = model.floor, model.largest
    whole[[ORACLE, MEDIAN_OF, FEATURES]] = model.oracle, model.median_of, _FEATURE_SETS[model.features]
    whole[[LATENCY, USER_CAP]] = model.start_latency, model.user_cap
    real = np.zeros(REALS)
    real[[PRIOR_BATCH, PRIOR_INTERACTIVE]] = model.prior_batch, model.prior_interactive
    real[LARGEST_SHARE] = jobs.shares.max()
    real[[RUN_WEIGHT, WAIT_WEIGHT, SPAN_WEIGHT, INTERACTIVE_WEIGHT, DEFICIT_WEIGHT]] = model.weights
    sizes = pool_sizes(model)
    state = State(
        memory=np.zeros(MEMORY, np.int64),
        waiting=np.zeros(n, np.int64),
        heap=np.zeros(n, np.int64),
        start=np.zeros(n, np.int64),
        service=np.zeros(vos, np.int64),
        running=np.zeros(vos, np.int64),
        begun=np.zeros(vos, np.int64),
        queued=np.zeros(vos, np.int64),
        recent=np.zeros((2, model.median_of), np.int64),
        ordered=np.zeros((2, model.median_of), np.int64),
        logs=np.zeros((vos, 2)),
        weights=np.zeros((vos, 2)),
        expected=np.zeros((vos, 2)),
        latest=np.zeros((vos, 2, KEPT), np.int64),
        seen=np.zeros((vos, 2), np.int64),
        busy=np.zeros(n, np.int64),
        options=np.zeros(len(sizes) + 1, np.int64),
        decided=np.zeros(n, np.int64),
        time=np.zeros(n, np.int64),
        pool=np.zeros(n, np.int64),
        fairness=np.zeros(n),
        utilisation=np.zeros(n),
        number=np.zeros(n, np.int64),
        completed=np.zeros(n, np.int64),
    )
    # Writable copies: kernels are compiled for one type of array.
    columns = [np.array(column) for column in jobs.columns]
    site = Site(Jobs(*columns), Settings(whole, real, jobs.shares.copy(), sizes), state)
    reset_site(site)
    return site
