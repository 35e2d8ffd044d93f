"""Making a site: its settings in people's words, and the arrays that kernels take."""

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
    MEMORY,
    ORACLE,
    PAPER,
    PERIOD,
    PRIOR_BATCH,
    PRIOR_INTERACTIVE,
    REALS,
    WHOLES,
    WINDOW,
    Jobs,
    Settings,
    Site,
    State,
)

__all__ = ["FeatureSet", "SiteModel", "new_site", "pool_sizes"]

Int64s = npt.NDArray[np.int64]

#: `paper`: the papers' own; `extended`: more about each candidate. See `features`.
FeatureSet = Literal["paper", "extended"]
_FEATURE_SETS = {"paper": PAPER, "extended": EXTENDED}


@dataclass(frozen=True)
class SiteModel:
    """What a site is, and what its scheduler may know.

    Attributes
    ----------
    cores
        Cores of the site; of an elastic one, to begin with.
    elastic
        Whether a decision also asks for a pool size.
    floor, largest, step
        Elastic: the least size of the pool, the largest, and the distance between the sizes that may be
        asked for.
    period
        Elastic: seconds that the pool keeps its size.
    oracle
        Whether execution times are known at submission. Otherwise a job is expected to run as long as the
        median of the last `window` completed ones of its class.
    window
        See `oracle`.
    prior_interactive, prior_batch
        What is expected of a class before a job of it is done, seconds.
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
    window: int = 1000
    prior_interactive: float = 450.0
    prior_batch: float = 3600.0
    features: FeatureSet = "paper"

    def __post_init__(self) -> None:
        for name in ("cores", "floor", "step", "window"):
            if getattr(self, name) < 1:
                raise SimulationError(f"must be at least 1, but is {getattr(self, name)}", field=name)
        for name in ("prior_interactive", "prior_batch"):
            if not 0 < getattr(self, name) < np.inf:
                raise SimulationError(f"must be above 0, but is {getattr(self, name)}", field=name)
        if self.period < 0:
            raise SimulationError(f"must be at least 0, but is {self.period}", field="period")
        if self.elastic and not self.floor <= self.cores <= self.largest:
            raise SimulationError(
                f"`floor <= cores <= largest` must hold, but got {self.floor}, {self.cores}, {self.largest}",
                field="cores",
            )
        if self.features not in _FEATURE_SETS:
            raise SimulationError(
                f"is one of {', '.join(_FEATURE_SETS)}, not {self.features!r}", field="features"
            )


def pool_sizes(model: SiteModel) -> Int64s:
    """Return the pool sizes that may be asked for, ascending; none on a rigid site."""
    if not model.elastic:
        return np.zeros(0, np.int64)
    return np.unique(np.append(np.arange(model.floor, model.largest, model.step), model.largest))


def new_site(jobs: SiteJobs, model: SiteModel) -> Site:
    """Return a site before its first event. Its arrays are its own, but for the jobs' columns."""
    from gridtune.systems.responsive.simulator.stepping import reset_site  # noqa: PLC0415 (numba)

    n, vos = len(jobs), len(jobs.shares)
    whole = np.zeros(WHOLES, np.int64)
    whole[[CORES, ELASTIC, PERIOD]] = model.cores, model.elastic, model.period
    whole[[FLOOR, CEILING]] = model.floor, model.largest
    whole[[ORACLE, WINDOW, FEATURES]] = model.oracle, model.window, _FEATURE_SETS[model.features]
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
        recent=np.zeros((2, model.window), np.int64),
        ordered=np.zeros((2, model.window), np.int64),
        options=np.zeros(len(sizes) + 1, np.int64),
        decided=np.zeros(n, np.int64),
        time=np.zeros(n, np.int64),
        pool=np.zeros(n, np.int64),
        fairness=np.zeros(n),
        utilisation=np.zeros(n),
        number=np.zeros(n, np.int64),
        completed=np.zeros(n, np.int64),
    )
    # One type of array for the kernels, whatever the columns came from.
    columns = [np.array(column) for column in (jobs.submit, jobs.run, jobs.vo, jobs.interactive)]
    site = Site(Jobs(*columns), Settings(whole, real, jobs.shares.copy(), sizes), state)
    reset_site(site)
    return site
