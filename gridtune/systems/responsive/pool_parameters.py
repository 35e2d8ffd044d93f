"""The parameters of an event-driven pool, and the rules that can size it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from gridtune.core.log_parameters import Count, LogParameters
from gridtune.systems.responsive.simulator.autoscalers import FORECAST_INPUTS
from gridtune.systems.responsive.simulator.site import Autoscaler, ScalerRule

__all__ = ["POOL_RULES", "POOL_SETTINGS", "PoolParameters", "PoolRule"]

PoolRule = Literal["demand", "work", "keda", "slurm", "hpa", "learned"]
Positive = Annotated[float, Field(gt=0)]
Seconds = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class _Rule:
    """The simulator's rule, the parameters it uses, and its own defaults."""

    rule: ScalerRule
    uses: tuple[str, ...]
    idle: int = 600
    timer: int = 60
    cooldown: int = 0
    at_events: bool = True
    drain: float = 600.0


#: Every rule. Kubernetes has no delay of its own before a release: there the cooldown is the delay.
POOL_RULES: dict[PoolRule, _Rule] = {
    "demand": _Rule("demand", ("headroom", "trigger")),
    "work": _Rule("work", ("headroom", "drain", "trigger")),
    "keda": _Rule("queue", ("jobs_per_core",), idle=0, timer=30, cooldown=300, at_events=False),
    "slurm": _Rule("demand", ("resume_rate", "suspend_rate")),
    "hpa": _Rule(
        "utilisation", ("utilisation", "tolerance"), idle=0, timer=15, cooldown=300, at_events=False
    ),
    "learned": _Rule("forecast", ("drain", "quantile", "trigger"), drain=1.0),
}
_OF_RULES = tuple(dict.fromkeys(name for rule in POOL_RULES.values() for name in rule.uses))
_OF_POOL = ("pool", "boot_seconds", "idle_seconds", "timer", "cooldown")
#: Parameters that tell two pools of one rule apart.
POOL_SETTINGS = (*_OF_POOL[1:], *(name for name in _OF_RULES if name != "headroom"))


class PoolParameters(LogParameters):
    """What an event-driven pool takes; parameters without a default have that of the rule."""

    pool: PoolRule = Field(
        "demand",
        description="elastic: what sizes the pool. demand: headroom × the cores that running and waiting "
        "jobs need; work: fewer where a core can serve several short jobs within `drain`; "
        "keda: jobs / jobs_per_core, polled every 30 s, down after a cooldown of 300 s; "
        "slurm: demand, by Slurm's ResumeRate, SuspendRate and SuspendTime; hpa: busy cores / "
        "utilisation, as Kubernetes' pod autoscaler; learned: work and a quantile of the jobs' "
        "growth during a boot, learned on the first part of the log",
    )
    boot_seconds: Seconds = Field(
        600,
        description="elastic: seconds from the order of a core, which is paid for from then on, to its use",
    )
    idle_seconds: Seconds | None = Field(
        None,
        description="elastic: seconds that a core must be idle to be released; default: 600; keda and hpa: 0",
    )
    timer: Count | None = Field(
        None, description="elastic: seconds between two ticks; default: 60; keda: 30; hpa: 15"
    )
    trigger: Literal["events", "timer"] = Field(
        "events",
        description="demand, work and learned: decide at submissions, completions, boots and ticks, or "
        "at ticks only",
    )
    cooldown: Seconds | None = Field(
        None,
        description="elastic: keep the largest size asked for in this many seconds; default: 0; "
        "keda and hpa: 300",
    )
    drain: Positive | None = Field(
        None,
        description="work and learned: seconds within which a core serves several jobs that are shorter; "
        "default: 600; learned: 1",
    )
    jobs_per_core: Positive = Field(1.0, description="keda: running and waiting jobs for each core")
    utilisation: Annotated[float, Field(gt=0, le=1)] = Field(
        0.8, description="hpa: share of the pool's cores that should be busy"
    )
    tolerance: Annotated[float, Field(ge=0)] = Field(
        0.1, description="hpa: relative difference to the utilisation that changes nothing"
    )
    resume_rate: Count = Field(300, description="slurm: cores that can be ordered in a minute (ResumeRate)")
    suspend_rate: Count = Field(60, description="slurm: cores that can be released in a minute (SuspendRate)")
    quantile: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.8, description="learned: share of the instants at which the cores that are asked for should suffice"
    )
    price: Annotated[float, Field(ge=0)] = Field(1.0, description="price of a core-hour")

    def autoscaler(self, headroom: float | None) -> Autoscaler:
        """Return how the pool is sized; a learned one gets its weights later."""
        rule = POOL_RULES[self.pool]
        slurm = self.pool == "slurm"
        return Autoscaler(
            rule.rule,
            boot=self.boot_seconds,
            idle=rule.idle if self.idle_seconds is None else self.idle_seconds,
            timer=self.timer or rule.timer,
            at_events=rule.at_events and self.trigger == "events",
            cooldown=rule.cooldown if self.cooldown is None else self.cooldown,
            headroom=1.0 if headroom is None else headroom,
            drain=self.drain or rule.drain,
            jobs_per_core=self.jobs_per_core,
            utilisation=self.utilisation,
            tolerance=self.tolerance,
            orders=self.resume_rate if slurm else None,
            releases=self.suspend_rate if slurm else None,
            forecast=(0.0,) * FORECAST_INPUTS if self.pool == "learned" else (),
        )

    def _pool_without_effect(self, site: str) -> Iterator[tuple[Iterable[str], str]]:
        """Yield names of parameters of the pool without effect, and the choice that makes them so."""
        if site != "elastic":
            yield ("pool", *POOL_SETTINGS), f"site={site}"
            return
        yield ("step", "period"), "site=elastic"
        unused = set(_OF_RULES) - set(POOL_RULES[self.pool].uses)
        yield sorted(unused), f"pool={self.pool}"
