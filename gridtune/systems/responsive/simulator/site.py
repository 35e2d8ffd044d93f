"""The model of a site, and the arrays that kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np

from gridtune.arguments import require_fields
from gridtune.errors import SimulationError
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.pool import FORECAST_INPUTS
from gridtune.systems.responsive.simulator.state import (
    DECISION,
    KEPT,
    MEMORY,
    MODEL,
    VO,
    VO_CLASS,
    Jobs,
    Records,
    Site,
    State,
)
from gridtune.systems.responsive.simulator.stepping import reset_site
from gridtune.types import IntArray

__all__ = ["Autoscaler", "LinearWeights", "ScalerRule", "SiteModel", "new_site"]


#: The rules that size an event-driven pool, in the order of their numbers in `pool`.
ScalerRule = Literal["demand", "work", "queue", "utilisation", "forecast", "agent"]
#: Rows of `State.track` at most, and orders or releases where there is no limit.
_TRACKED, _NO_LIMIT = 4097, 2**40

#: `paper`: the papers' own; `extended`: more about each candidate. See `candidates`.
FeatureSet = Literal["paper", "extended"]


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


_require = partial(require_fields, error=SimulationError)
_AT_LEAST_0 = ("at least 0", lambda value: 0 <= value < np.inf)
_ABOVE_0 = ("above 0", lambda value: 0 < value < np.inf)
_AT_LEAST_1 = ("at least 1", lambda value: value >= 1)


@dataclass(frozen=True)
class Autoscaler:
    """How the pool of an event-driven site is sized; see `pool`.

    Attributes
    ----------
    rule
        The rule, or `agent`: the environment's agent asks for sizes.
    boot, idle, timer
        Seconds from the order of a core until it is up; of idleness before a release; between two ticks.
    at_events
        Whether the rule is also asked at each submission, completion and boot.
    cooldown
        The pool keeps the largest size asked for in this many seconds; 0: the one asked for last.
    headroom, drain, jobs_per_core, utilisation, tolerance
        What the rules take.
    orders, releases
        Cores that may be ordered and released in a minute; None: any number.
    forecast
        The weights of `forecast`.
    """

    rule: ScalerRule = "demand"
    boot: int = 600
    idle: int = 600
    timer: int = 60
    at_events: bool = True
    cooldown: int = 0
    headroom: float = 1.0
    drain: float = 600.0
    jobs_per_core: float = 1.0
    utilisation: float = 0.8
    tolerance: float = 0.1
    orders: int | None = None
    releases: int | None = None
    forecast: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        rules = get_args(ScalerRule)
        _require(self, f"one of {', '.join(rules)}", rules.__contains__, "rule")
        _require(self, *_AT_LEAST_0, "boot", "idle", "cooldown", "headroom", "tolerance")
        _require(self, *_ABOVE_0, "drain", "jobs_per_core", "utilisation")
        _require(self, *_AT_LEAST_1, "timer", "orders", "releases")
        if self.rule == "forecast" and len(self.forecast) != FORECAST_INPUTS:
            raise SimulationError(
                f"must be {FORECAST_INPUTS} weights, but got {len(self.forecast)}", field="forecast"
            )


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
        See `gridtune.systems.responsive.simulator.candidates`.
    charged_after
        Elastic, without an autoscaler: U of a decision counts the pool up to the next decision, with the size
        that it chose (Perez et al. 2009, eq. 3), and not up to itself.
    resized_at_ends
        Elastic, without an autoscaler: a termination that leaves the queue empty may resize the pool, too.
    start_latency
        Seconds from a decision to the start of its job; the core is in use meanwhile.
    user_cap
        Most running jobs of a user, for the capped rule.
    weights
        Weights of the linear rule.
    autoscaler
        Elastic: how events and a timer size the pool. None, as in the papers: each decision may ask for a
        size, at most every `period`, and cores come and go at once.
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
    charged_after: bool = False
    resized_at_ends: bool = False
    start_latency: int = 0
    user_cap: int = 17
    weights: LinearWeights = _FAIR_INDEX
    autoscaler: Autoscaler | None = None

    def __post_init__(self) -> None:
        sets = get_args(FeatureSet)
        _require(self, *_AT_LEAST_1, "cores", "floor", "step", "median_of", "user_cap")
        _require(self, *_ABOVE_0, "prior_interactive", "prior_batch")
        _require(self, *_AT_LEAST_0, "period", "start_latency")
        _require(self, f"one of {', '.join(sets)}", sets.__contains__, "features")
        if self.elastic and not self.floor <= self.cores <= self.largest:
            raise SimulationError(
                f"`floor <= cores <= largest` must hold, but got {self.floor}, {self.cores}, {self.largest}",
                field="cores",
            )
        if self.autoscaler is not None and not self.elastic:
            raise SimulationError("a rigid site has no autoscaler", field="autoscaler")

    @property
    def pool_sizes(self) -> IntArray:
        """The pool sizes to choose from, ascending; none on a rigid site."""
        if not self.elastic:
            return np.zeros(0, np.int64)
        return np.unique(np.append(np.arange(self.floor, self.largest, self.step), self.largest))


def new_site(jobs: SiteJobs, model: SiteModel) -> Site:
    """Return a site before its first event."""
    n, vos, classes = len(jobs), len(jobs.shares), (2, model.median_of)
    span = int(jobs.submit[-1] - jobs.submit[0]) if n else 0
    numbers = _numbers_of(jobs, model, span)
    spacing, window = numbers["spacing"][0], numbers["window"][0]
    sizes, largest = model.pool_sizes, model.largest if model.autoscaler else 0
    state = State(
        memory=np.zeros(1, MEMORY),
        waiting=np.zeros(n, np.int64),
        heap=np.zeros(n, np.int64),
        start=np.zeros(n, np.int64),
        number=np.zeros(n, np.int64),
        vos=np.zeros(vos, VO),
        classes=np.zeros((vos, 2), VO_CLASS),
        latest=np.zeros((vos, 2, KEPT), np.int64),
        recent=np.zeros(classes, np.int64),
        ordered=np.zeros(classes, np.int64),
        completed_of=np.zeros(2, np.int64),
        busy=np.zeros(n, np.int64),
        options=np.zeros(len(sizes) + 1, np.int64),
        decisions=np.zeros(n, DECISION),
        completed=np.zeros(n, np.int64),
        booting=np.zeros(largest, np.int64),
        idle=np.zeros(largest, np.int64),
        wishes=np.zeros(window, np.int64),
        track=np.zeros((min(_TRACKED, span // spacing + 1) if spacing else 0, 5), np.int64),
    )
    # Writable copies: kernels are compiled for one type of array.
    columns = [np.array(column) for column in jobs.columns]
    forecast = np.array(model.autoscaler.forecast if model.autoscaler else (), np.float64)
    site = Site(Jobs(*columns), numbers, jobs.shares.copy(), sizes, forecast, state)
    reset_site(site)
    return site


def _numbers_of(jobs: SiteJobs, model: SiteModel, span: int) -> Records:
    """Return the parameters of a site as kernels take them; `span`: seconds from first to last submission."""
    numbers, scaler = np.zeros(1, MODEL), model.autoscaler
    values = {**vars(model), **{f"{name}_weight": value for name, value in model.weights._asdict().items()}}
    values |= {"extended": model.features == "extended", "largest_share": jobs.shares.max()}
    if scaler is not None:
        values |= vars(scaler)
        values["scaler"] = get_args(ScalerRule).index(scaler.rule) + 1
        values["window"] = max(1, -(-scaler.cooldown // scaler.timer))
        for name in ("orders", "releases"):
            rate = getattr(scaler, name)
            values[name] = _NO_LIMIT if rate is None else max(1, rate * scaler.timer // 60)
        values["spacing"] = max(scaler.timer, -(-span // (_TRACKED - 1)))
    for name in MODEL.fields or ():
        numbers[name] = values.get(name, 0)
    return numbers
