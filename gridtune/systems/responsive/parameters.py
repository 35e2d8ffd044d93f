"""The parameters of a cell of the responsive system, and the rules that can size an event-driven pool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import (
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from gridtune.core.system import Count, LogParameters, Partition, Streams, Window, described
from gridtune.errors import GridtuneError, SimulationError
from gridtune.systems.responsive.learners.settings import PAPER, LearnerSettings, Method, Regressor
from gridtune.systems.responsive.simulator.replay import Rule
from gridtune.systems.responsive.simulator.site import Autoscaler, SiteJobs, SiteModel, build_jobs, work_by_vo
from gridtune.types import FloatArray, IntArray
from gridtune.workload.workload import Workload

_PoolRule = Literal["demand", "keda"]
Positive = Annotated[float, Field(gt=0)]
Seconds = Annotated[int, Field(ge=0)]


#: The rules that size a pool. KEDA has no delay before a release but the cooldown.
_POOL_RULES: dict[_PoolRule, Autoscaler] = {
    "demand": Autoscaler("demand"),
    "keda": Autoscaler("queue", idle=0, timer=30, cooldown=300, at_events=False),
}
#: Parameters that only a pool sized by events has.
_OF_POOL = ("pool", "boot_seconds", "idle_seconds", "cooldown", "jobs_per_core")


LearnedPolicy = Literal["esn-sarsa", "esn-fq", "ffnn-sarsa", "ffnn-fq"]
Policy = Literal[Rule, LearnedPolicy, "learned"]
#: Learned policies: their method and regressor.
LEARNED: dict[str, tuple[Method, Regressor]] = {
    "esn-sarsa": ("sarsa", "esn"),
    "esn-fq": ("fitted_q", "esn"),
    "ffnn-sarsa": ("sarsa", "ffnn"),
    "ffnn-fq": ("fitted_q", "ffnn"),
}
#: The settings of learners that a cell can change, by the names of its parameters.
LEARNING = (
    *("neurons", "spectral_radius", "leak", "input_scale", "reservoirs", "ridge", "epsilon", "discount"),
    *("learning_rate", "pretraining_sweeps", "sweeps", "iterations", "relearn"),
)

#: Of them, the ones that a method does not use.
_OF_OTHER_METHODS: dict[Method, tuple[str, ...]] = {
    "sarsa": ("iterations",),
    "fitted_q": ("learning_rate", "relearn"),
}
#: A feed-forward network is fitted to all samples of a sweep each time, so rarely.
_FEED_FORWARD_RELEARN = 500
_OF_RESERVOIRS = ("spectral_radius", "leak", "input_scale", "reservoirs", "ridge")

Share = Annotated[float, Field(ge=0, le=1)]


#: Smallest size of an elastic pool, unless it is given or the site has fewer cores.
_FLOOR = 30
#: What only the papers' elastic site has.
_OF_PAPERS = ("pool_charged", "resized_at")
#: What a kind of site is called in cells' ids: the papers' elastic site was the only one at first.
_SITE_IN_IDS = {"elastic": "event-driven", "elastic-paper": "elastic"}


@described(__file__)
class ResponsiveParameters(LogParameters):
    """The parameters of a cell.

    Those without a default have, of the learner, the papers' value, and of a pool that of its rule.
    """

    #: The name in the publication is a keyword of Python.
    renamed_parameters: ClassVar[Mapping[str, str]] = {"lambda": "weight"}

    pool: _PoolRule = "demand"
    boot_seconds: Seconds = 600
    idle_seconds: Seconds | None = None
    cooldown: Seconds | None = None
    jobs_per_core: Positive = 1.0

    partition: Partition | None = None
    shake: Annotated[int, Field(ge=0)] = 0
    split: Annotated[float, Field(gt=0, lt=1)] = 0.5
    part: Literal["train", "test", "all"] = "test"
    window: Window | None = None
    left_out: Annotated[int, Field(ge=0)] | None = None

    shares: str | None = None

    cores: Count | None = None
    site: Literal["rigid", "elastic", "elastic-paper"] = "rigid"
    floor: Count | None = None
    largest: Count | None = None
    pool_charged: Literal["before", "after"] = "before"
    resized_at: Literal["starts", "ends"] = "starts"
    start_latency: Annotated[int, Field(ge=0)] = 0
    estimates: Literal["oracle", "estimated"] = "estimated"

    policy: Policy = "fcfs"
    checkpoint: str | None = None
    user_cap: Count = 17
    headroom: Annotated[float, Field(ge=0)] | None = None
    weight: Share = 0.5

    bound: bool = False

    protocol: Literal["frozen", "online"] = "frozen"
    neurons: Count | None = None
    spectral_radius: Annotated[float, Field(ge=0)] | None = None
    leak: Share | None = None
    input_scale: Positive | None = None
    reservoirs: Count | None = None
    ridge: Positive | None = None
    epsilon: Share | None = None
    discount: Share | None = None
    learning_rate: Share | None = None
    pretraining_sweeps: Annotated[int, Field(ge=0)] | None = None
    sweeps: Annotated[int, Field(ge=0)] | None = None
    iterations: Count | None = None
    relearn: Count | None = None

    @model_serializer(mode="wrap")
    def _named_as_in_ids(
        self, values_of: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        """Use the names of ids where they are asked for, which is `by_alias`."""
        values: dict[str, Any] = values_of(self)
        if info.by_alias and "site" in values:
            values["site"] = _SITE_IN_IDS.get(self.site, self.site)
        return values

    @model_validator(mode="before")
    @classmethod
    def _online_is_the_whole_log(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and values.get("protocol") == "online":
            return {"part": "all", **values}
        return values

    @field_validator("shares")
    @classmethod
    def _shares_are_sound(cls, value: str | None) -> str | None:
        if value is not None:
            _parsed_shares(value)
        return value

    @model_validator(mode="after")
    def _belong_together(self) -> ResponsiveParameters:
        if self.policy == "capped_fcfs" and self.site != "rigid":
            raise ValueError("policy=capped_fcfs leaves cores idle on purpose: it needs site=rigid")
        self._check_checkpoint("learned")
        if self.protocol == "online" and LEARNED.get(self.policy, ("",))[0] != "sarsa":
            raise ValueError("protocol=online learns during the run: policy must be esn-sarsa or ffnn-sarsa")
        if self.policy in LEARNED:
            try:
                self.learner()
            except GridtuneError as error:
                raise ValueError(str(error)) from None
        self._refuse_idle(self._without_effect())
        return self

    def _without_effect(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield names of parameters without effect, and the choice that makes them so."""
        if self.site == "rigid":
            yield ("floor", "largest", "headroom", *_OF_PAPERS), "site=rigid"
        if self.site == "elastic":
            yield _OF_PAPERS, "site=elastic"
            yield ("jobs_per_core" if self.pool == "demand" else "headroom",), f"pool={self.pool}"
        else:
            yield _OF_POOL, f"site={self.site}"
        policy = f"policy={self.policy}"
        if self.policy != "capped_fcfs":
            yield ("user_cap",), policy
        if self.policy not in LEARNED:
            yield LEARNING, policy
            return
        method, regressor = LEARNED[self.policy]
        if method != "sarsa":
            yield ("resized_at",), policy
        if self.protocol == "online":
            yield ("sweeps",), "protocol=online"
        yield _OF_OTHER_METHODS[method], policy
        if regressor == "ffnn":
            yield _OF_RESERVOIRS, policy

    def site_model(self, cores: int) -> SiteModel:
        """Return the site of so many cores."""
        scaler = None
        if self.site == "elastic":
            given: dict[str, Any] = {
                **{"boot": self.boot_seconds, "idle": self.idle_seconds},
                **{name: getattr(self, name) for name in ("cooldown", "headroom", "jobs_per_core")},
            }
            changes = {name: value for name, value in given.items() if value is not None}
            scaler = replace(_POOL_RULES[self.pool], **changes)
        return SiteModel(
            cores=cores,
            elastic=self.site != "rigid",
            autoscaler=scaler,
            floor=self.floor or min(_FLOOR, cores),
            largest=self.largest or 2 * cores,
            charged_after=self.pool_charged == "after",
            resized_at_ends=self.resized_at == "ends",
            oracle=self.estimates == "oracle",
            start_latency=self.start_latency,
            user_cap=self.user_cap,
        )

    def size_of(self, processors: int | None) -> int:
        """Return the site's cores; `processors`: the size of the log's machine, if it is known."""
        cores = self.cores or processors
        if cores is None:
            raise SimulationError(
                "the log does not give the machine's size", field="cores", hint="pass cores="
            )
        return cores

    @property
    def asked_headroom(self) -> float:
        """The headroom that decisions ask for; an event-driven pool has its own rule."""
        return 0.0 if self.site == "elastic" else self.headroom or 0.0

    def target_shares(self) -> tuple[IntArray, FloatArray]:
        """Return the groups with a share of their own, and all shares; the last is that of all others."""
        assert self.shares is not None
        return _parsed_shares(self.shares)

    def learner(self) -> LearnerSettings:
        """Return the learner's settings: the papers', changed by the parameters that are set."""
        method, regressor = LEARNED[self.policy]
        values: dict[str, Any] = {name: getattr(self, name) for name in LEARNING}
        changes = {name: value for name, value in values.items() if value is not None}
        if regressor == "ffnn" and method == "sarsa":
            changes.setdefault("relearn", _FEED_FORWARD_RELEARN)
        if self.protocol == "online":
            changes["sweeps"] = 1
        return replace(PAPER, method=method, regressor=regressor, **changes)

    def split_log(self, workload: Workload, streams: Streams | None = None) -> tuple[Workload, Workload]:
        """Return the jobs to learn on and the jobs to report on; with `part` "train" or "all" they overlap.

        Submissions are shaken with the streams' random numbers.
        """
        if self.shake and streams is not None:
            workload = workload.shake(self.shake, streams("shaking"))
        cut = min(max(round(self.split * len(workload)), 1), len(workload) - 1)
        first, last = workload.take(slice(0, cut)), workload.take(slice(cut, None))
        reported = {"train": first, "test": last, "all": workload}[self.part]
        if self.window is not None:
            reported = reported.part(self.window)
        return first, reported

    def site_jobs(self, first: Workload, last: Workload) -> tuple[SiteJobs, SiteJobs]:
        """Return both parts as jobs of a site; the first one decides on VOs and target shares."""
        if self.shares is not None:
            vos, shares = self.target_shares()
        else:
            vos, work = work_by_vo(first)
            # A VO without work in the first part still gets a small share.
            shares = np.maximum(work / max(work.sum(), 1), 1e-3)
            shares = shares / shares.sum()
        return build_jobs(first, vos=vos, shares=shares), build_jobs(last, vos=vos, shares=shares)


def _parsed_shares(text: str) -> tuple[IntArray, FloatArray]:
    pairs = [part.strip().partition("=") for part in text.split(",")]
    try:
        shares = {name.strip(): float(share) for name, _, share in pairs}
        others = shares.pop("other")
        vos = np.array([int(name) for name in shares], np.int64)
    except (ValueError, KeyError):
        raise ValueError(f"must be group=share,…,other=share, but got {text!r}") from None
    values = np.array([*shares.values(), others])
    if (values < 0).any() or abs(values.sum() - 1) > 1e-3:
        raise ValueError(f"must be at least 0 and add up to 1, but got a sum of {values.sum():g}")
    return vos, values / values.sum()
