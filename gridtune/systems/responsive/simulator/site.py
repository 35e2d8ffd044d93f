"""The model of a site, and the arrays that kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from gridtune.errors import SimulationError
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.state import (
    CEILING,
    CORES,
    ELASTIC,
    EXTENDED,
    FEATURES,
    FLOOR,
    LARGEST_SHARE,
    MEDIAN_OF,
    MEMORY,
    ORACLE,
    PAPER,
    PERIOD,
    PRIOR_BATCH,
    PRIOR_INTERACTIVE,
    REALS,
    WHOLES,
    Jobs,
    Settings,
    Site,
    State,
)
from gridtune.systems.responsive.simulator.stepping import reset_site

__all__ = ["FeatureSet", "SiteModel", "new_site", "pool_sizes"]

Int64s = npt.NDArray[np.int64]

#: `paper`: the papers' own; `extended`: more about each candidate. See `features`.
FeatureSet = Literal["paper", "extended"]
_FEATURE_SETS = {"paper": PAPER, "extended": EXTENDED}


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

    def __post_init__(self) -> None:
        for name in ("cores", "floor", "step", "median_of"):
            if getattr(self, name) < 1:
                raise SimulationError(f"must be at least 1, but got {getattr(self, name)}", field=name)
        for name in ("prior_interactive", "prior_batch"):
            if not 0 < getattr(self, name) < np.inf:
                raise SimulationError(f"must be above 0, but got {getattr(self, name)}", field=name)
        if self.period < 0:
            raise SimulationError(f"must be at least 0, but got {self.period}", field="period")
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
    real = np.zeros(REALS)
    real[[PRIOR_BATCH, PRIOR_INTERACTIVE]] = model.prior_batch, model.prior_interactive
    real[LARGEST_SHARE] = jobs.shares.max()
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
    columns = [np.array(column) for column in (jobs.submit, jobs.run, jobs.vo, jobs.interactive)]
    site = Site(Jobs(*columns), Settings(whole, real, jobs.shares.copy(), sizes), state)
    reset_site(site)
    return site
