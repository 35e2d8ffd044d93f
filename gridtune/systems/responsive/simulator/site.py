"""The jobs and the model of a site, and the arrays that kernels take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np

from gridtune.arguments import require_fields
from gridtune.errors import PolicyError, SimulationError
from gridtune.systems.responsive.simulator.state import (
    DECISION,
    MEMORY,
    MODEL,
    VO,
    VO_CLASS,
    GridSite,
    Records,
    SiteArrays,
    SiteJobArrays,
)
from gridtune.systems.responsive.simulator.stepping import reset_site
from gridtune.types import FloatArray, IntArray
from gridtune.workload.workload import Workload

#: Jobs that run for less are interactive, seconds (Perez et al. 2009, section 4.2).
INTERACTIVE_BELOW = 900
#: Virtual organisations of a site, the last of which stands for all others.
VOS = 7


@dataclass(frozen=True)
class SiteJobs:
    """Sequential jobs in order of submission, and the target shares of their VOs; n jobs, V VOs.

    Attributes
    ----------
    submit, run
        Shape (n,), int64, seconds: submission, ascending, and run time, at least 1.
    vo
        Shape (n,), int64, from 0 up to V − 1.
    interactive
        Shape (n,), int64: 1 where interactive, 0 where batch.
    shares
        Shape (V,), float64: the target share of each VO; at least 0, and together 1.
    user
        Shape (n,), int64: its user, by any number; numbered from 0 here. None: each VO is one user.

    Raises
    ------
    SimulationError
        If the columns differ in length or a value is not allowed.
    """

    submit: IntArray
    run: IntArray
    vo: IntArray
    interactive: IntArray
    shares: FloatArray
    user: IntArray | None = None

    def __post_init__(self) -> None:
        user = self.vo if self.user is None else self.user
        object.__setattr__(self, "user", np.unique(user, return_inverse=True)[1])
        for name in ("submit", "run", "vo", "interactive", "user"):
            column = np.ascontiguousarray(getattr(self, name), np.int64)
            object.__setattr__(self, name, column)
            if column.shape != (len(self.submit),):
                raise SimulationError(
                    f"must have the shape {(len(self.submit),)}, but got {column.shape}", field=name
                )
        object.__setattr__(self, "shares", np.ascontiguousarray(self.shares, np.float64))
        self._check()

    def _check(self) -> None:
        if (np.diff(self.submit) < 0).any():
            raise SimulationError(
                "jobs must be in order of submission",
                field="submit",
                hint="the cleaning rule sort_submits, one of the default ones, sorts them",
            )
        check_run_times(self.run)
        if self.shares.ndim != 1 or len(self.shares) == 0 or not (self.shares >= 0).all():
            raise SimulationError("must be a share of at least 0 for each VO", field="shares")
        if abs(self.shares.sum() - 1) > 1e-6:
            raise SimulationError(f"must add up to 1, but got a sum of {self.shares.sum()}", field="shares")
        if len(self) and not (self.vo.min() >= 0 and self.vo.max() < len(self.shares)):
            raise SimulationError(f"must be numbers from 0 to {len(self.shares) - 1}", field="vo")
        if not np.isin(self.interactive, (0, 1)).all():
            raise SimulationError("must be 0 or 1", field="interactive")

    def __len__(self) -> int:
        return len(self.submit)

    def take(self, part: slice) -> SiteJobs:
        """Return consecutive jobs."""
        submit, run, vo, interactive, user = (column[part] for column in self.columns)
        return SiteJobs(submit, run, vo, interactive, self.shares, user)

    @property
    def columns(self) -> tuple[IntArray, ...]:
        """Submission, run time, VO, class and user, as the kernels take them."""
        assert self.user is not None
        return self.submit, self.run, self.vo, self.interactive, self.user

    def numbers(self, model: SiteModel, span: int) -> Records:
        """Return the parameters of a site for kernels; `span`: seconds from first to last submission."""
        numbers, scaler = np.zeros(1, MODEL), model.autoscaler
        values = {**vars(model), "largest_share": self.shares.max()}
        if scaler is not None:
            values |= vars(scaler)
            values["scaler"] = get_args(_ScalerRule).index(scaler.rule) + 1
            values["window"] = max(1, -(-scaler.cooldown // scaler.timer))
            values["spacing"] = max(scaler.timer, -(-span // (_TRACKED - 1)))
        for name in MODEL.fields or ():
            numbers[name] = values.get(name, 0)
        return numbers

    def new_site(self, model: SiteModel) -> GridSite:
        """Return a site before its first event."""
        n, vos, classes = len(self), len(self.shares), (2, model.median_of)
        span = int(self.submit[-1] - self.submit[0]) if n else 0
        numbers = self.numbers(model, span)
        spacing, window = numbers["spacing"][0], numbers["window"][0]
        sizes, largest = model.pool_sizes, model.largest if model.autoscaler else 0
        state = SiteArrays(
            memory=np.zeros(1, MEMORY),
            waiting=np.zeros(n, np.int64),
            ends=np.zeros(n, np.int64),
            heap=np.zeros(n, np.int64),
            start=np.zeros(n, np.int64),
            number=np.zeros(n, np.int64),
            vos=np.zeros(vos, VO),
            classes=np.zeros((vos, 2), VO_CLASS),
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
        columns = [np.array(column) for column in self.columns]
        site = GridSite(SiteJobArrays(*columns), numbers, self.shares.copy(), sizes, state)
        reset_site(site)
        return site


def work_by_vo(workload: Workload) -> tuple[IntArray, FloatArray]:
    """Return the groups of a log that are VOs of their own, and the seconds of work of each VO."""
    vos = _group_vos(workload.group)
    work = np.bincount(_vo_of(workload.group, vos), workload.run_time, minlength=len(vos) + 1)
    return vos, np.asarray(work, np.float64)


def _group_vos(groups: IntArray, most: int = VOS) -> IntArray:
    """Return the groups that are VOs of their own, ascending: the `most` − 1 with most jobs.

    All others form the last VO. With no more than `most` groups, the group with the largest number is the
    last VO.
    """
    numbers, count = np.unique(groups, return_counts=True)
    if len(numbers) <= most:
        return np.asarray(numbers[:-1], np.int64)
    largest = numbers[np.argsort(-count, kind="stable")][: most - 1]
    return np.asarray(np.sort(largest), np.int64)


def _vo_of(groups: IntArray, vos: IntArray) -> IntArray:
    """Return the VO of each group number: its place among `vos`; `len(vos)` for all others."""
    order = np.argsort(vos, kind="stable")
    if len(vos) == 0:
        return np.zeros(len(groups), np.int64)
    place = order[np.minimum(np.searchsorted(vos, groups, sorter=order), len(vos) - 1)]
    return np.where(vos[place] == groups, place, len(vos)).astype(np.int64)


def check_sequential(workload: Workload) -> None:
    """Refuse a log with jobs of more than one processor."""
    if len(workload) and workload.processors.max() > 1:
        wide = int((workload.processors > 1).sum())
        raise SimulationError(
            f"{wide} of {len(workload)} jobs of {workload.name} use more than one processor",
            field="trace",
            hint="this site runs sequential jobs: a log such as lcg-2005 or egee, or a partition of one",
        )


def check_run_times(run: IntArray) -> None:
    """Refuse jobs that run for less than a second: their W has no value."""
    if len(run) and run.min() < 1:
        raise SimulationError(
            f"a job must run for at least 1 s, but {int((run < 1).sum())} of {len(run)} jobs do not",
            field="run_time",
            hint="clean=default,raise_zero_run_time lets jobs of 0 s run for 1 s, "
            "clean=default,drop_zero_run_time leaves them out",
        )


def build_jobs(
    workload: Workload,
    *,
    vos: IntArray,
    shares: Sequence[float] | FloatArray,
) -> SiteJobs:
    """Return a log's jobs as jobs of a site, each on one core.

    Parameters
    ----------
    workload
        Sequential jobs; one that uses more than one processor is an error.
    vos
        The groups of the log (SWF field 13) that are VOs of their own; all others form the last VO.
    shares
        The target share of each VO, one more than `vos`.
    """
    check_sequential(workload)
    if len(shares) != len(vos) + 1:
        raise SimulationError(
            f"{len(vos)} VOs and the rest need {len(vos) + 1} shares, but got {len(shares)}", field="shares"
        )
    interactive = (workload.run_time < INTERACTIVE_BELOW).astype(np.int64)
    vo = _vo_of(workload.group, vos)
    return SiteJobs(
        workload.submit_time, workload.run_time, vo, interactive, np.asarray(shares), workload.user
    )


#: The rules that size an event-driven pool, in the order of their numbers in `pool`.
_ScalerRule = Literal["demand", "queue", "agent"]
#: Rows of `State.track` at most.
_TRACKED = 4097


_require = partial(require_fields, error=SimulationError)
_AT_LEAST_0 = ("at least 0", lambda value: 0 <= value < np.inf)
_ABOVE_0 = ("above 0", lambda value: 0 < value < np.inf)
_AT_LEAST_1 = ("at least 1", lambda value: value >= 1)


@dataclass(frozen=True)
class Autoscaler:
    """The rule that sizes the pool of an event-driven site; see `pool`.

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
    headroom, jobs_per_core
        What the rules take.
    """

    rule: _ScalerRule = "demand"
    boot: int = 600
    idle: int = 600
    timer: int = 60
    at_events: bool = True
    cooldown: int = 0
    headroom: float = 1.0
    jobs_per_core: float = 1.0

    def __post_init__(self) -> None:
        rules = get_args(_ScalerRule)
        _require(self, f"one of {', '.join(rules)}", rules.__contains__, "rule")
        _require(self, *_AT_LEAST_0, "boot", "idle", "cooldown", "headroom")
        _require(self, *_ABOVE_0, "jobs_per_core")
        _require(self, *_AT_LEAST_1, "timer")


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
    charged_after
        Elastic, without an autoscaler: U of a decision counts the pool up to the next decision, with the size
        that it chose (Perez et al. 2009, eq. 3), and not up to itself.
    resized_at_ends
        Elastic, without an autoscaler: a termination that leaves the queue empty may resize the pool, too.
    start_latency
        Seconds from a decision to the start of its job; the core is in use meanwhile.
    user_cap
        Most running jobs of a user, for the capped rule.
    autoscaler
        Elastic: sizes the pool at events and by a timer. None, as in the papers: each decision may ask for a
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
    charged_after: bool = False
    resized_at_ends: bool = False
    start_latency: int = 0
    user_cap: int = 17
    autoscaler: Autoscaler | None = None

    def __post_init__(self) -> None:
        _require(self, *_AT_LEAST_1, "cores", "floor", "step", "median_of", "user_cap")
        _require(self, *_ABOVE_0, "prior_interactive", "prior_batch")
        _require(self, *_AT_LEAST_0, "period", "start_latency")
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

    def require_rule(self) -> None:
        """Refuse a pool that an agent sizes: a learner of candidate values chooses jobs only."""
        if self.autoscaler is not None and self.autoscaler.rule == "agent":
            raise PolicyError("this learner chooses jobs only: a rule must size the pool", field="autoscaler")
