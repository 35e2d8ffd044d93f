"""The parameters of a cell of the responsive system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator, model_validator

from gridtune.core.log_parameters import LogParameters, Partition, Window
from gridtune.errors import GridtuneError

if TYPE_CHECKING:
    from gridtune.systems.responsive.learners.settings import LearnerSettings, Method, Regressor

__all__ = ["LEARNED", "ResponsiveParameters"]

Policy = Literal[
    "fcfs",
    "sjf",
    "interactive_first",
    "edf",
    "longest_ratio",
    "fair_share",
    "random",
    "recorded",
    "esn-sarsa",
    "esn-fq",
    "ffnn-sarsa",
    "ffnn-fq",
    "esn-counterfactual",
]
#: Learned policies: their method and regressor.
LEARNED: dict[str, tuple[Method, Regressor]] = {
    "esn-sarsa": ("sarsa", "esn"),
    "esn-fq": ("fitted_q", "esn"),
    "ffnn-sarsa": ("sarsa", "ffnn"),
    "ffnn-fq": ("fitted_q", "ffnn"),
    "esn-counterfactual": ("counterfactual", "esn"),
}
#: Parameters of the learner, by its own names.
LEARNING = (
    "inputs",
    "neurons",
    "connectivity",
    "readout_connectivity",
    "spectral_radius",
    "leak",
    "input_scale",
    "reservoirs",
    "ridge",
    "epsilon",
    "discount",
    "learning_rate",
    "pretraining_sweeps",
    "sweeps",
    "iterations",
    "relearn",
    "probes",
    "branches",
    "horizon",
    "epochs",
    "step_size",
)

#: … of them those that a method, and those that a network, has no use for.
_OF_OTHER_METHODS: dict[Method, tuple[str, ...]] = {
    "sarsa": ("iterations", "probes", "branches", "horizon"),
    "fitted_q": ("learning_rate", "relearn", "probes", "branches", "horizon"),
    "counterfactual": ("learning_rate", "discount", "iterations", "relearn"),
}
#: A feed-forward network is fitted to all samples of a sweep each time, not to a sum of them.
_FEED_FORWARD_RELEARN = 500
_OF_THE_OTHER_NETWORK: dict[Regressor, tuple[str, ...]] = {
    "esn": ("epochs", "step_size"),
    "ffnn": (
        *("connectivity", "readout_connectivity", "spectral_radius", "leak", "input_scale"),
        *("reservoirs", "ridge"),
    ),
}

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]


class ResponsiveParameters(LogParameters):
    """The parameters of one life of a site. The learner's own are its variant's where they are not given."""

    weeks: bool = Field(
        False,
        description="the trace is a folder or archive of logs (in minutes), one after the other, "
        "each from the next whole week on",
    )
    partition: Partition | None = Field(None, description="only jobs of this partition (number or name)")
    group: int | None = Field(None, description="only jobs of this group")
    shake: Annotated[int, Field(ge=0)] = Field(
        0,
        description="seconds by which submissions are moved at random, for replicates of one log",
        examples=[600],
    )
    split: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.5, description="share of the jobs, the first ones, that is there to learn on"
    )
    part: Literal["train", "test", "all"] = Field("test", description="the part reported on")
    window: Window | None = Field(
        None, description="report on the i-th of n windows of the part with about as many jobs each"
    )
    left_out: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="jobs left out of the measures at either end; default: 500, at most an eighth of all",
    )

    interactive_below: Count = Field(900, description="jobs that run for less are interactive, seconds")
    vos: Count = Field(
        7, description="VOs told apart: those with most jobs to learn on, and all others as one"
    )
    shares: str | None = Field(
        None,
        description="target shares of the VOs as group=share, the rest as other=share; default: their "
        "shares of the work in the part to learn on",
        examples=["1=0.53,2=0.19,3=0.1,other=0.18"],
    )

    cores: Count | None = Field(
        None, description="cores of the site; default: what the log's header says", examples=[81]
    )
    site: Literal["rigid", "elastic"] = Field("rigid", description="may a decision also size the pool?")
    floor: Count = Field(30, description="elastic: least size of the pool")
    largest: Count | None = Field(None, description="elastic: largest pool; default: twice the cores")
    step: Count = Field(10, description="elastic: distance between the sizes that may be asked for")
    period: Annotated[int, Field(ge=0)] = Field(
        900, description="elastic: seconds for which the pool keeps its size"
    )
    estimates: Literal["oracle", "estimated"] = Field(
        "estimated", description="are run times known at submission, or is the median of the class taken?"
    )
    median_of: Count = Field(1000, description="estimated: completed jobs of a class whose median is taken")

    policy: Policy = Field(
        "fcfs",
        description="who decides: a simple rule, `recorded` for the log's own waits, or a learner "
        "(network-method)",
    )
    patience: Annotated[float, Field(ge=0)] = Field(
        1.0, description="edf: a job is due once it has waited that many times its expected run time and run"
    )
    headroom: Annotated[float, Field(ge=0)] | None = Field(
        None,
        description="elastic: ask for that many times the cores that running and waiting jobs need; 0, and "
        "by default: simple rules leave the pool as it is, learners choose it",
        examples=[1.2],
    )
    weight: Share = Field(0.5, description="λ: weight of responsiveness in the reward", examples=[0.5])

    variant: Literal["paper", "improved"] = Field(
        "paper", description="learners: as in the papers, or with what does better"
    )
    inputs: Literal["paper", "extended", "relative"] | None = Field(None, description="what the network sees")
    neurons: Count | None = Field(None, description="neurons of a reservoir, or of the hidden layer")
    connectivity: Share | None = Field(None, description="share of the reservoir's pairs that are connected")
    readout_connectivity: Share | None = Field(None, description="share of the neurons that the readout sees")
    spectral_radius: Annotated[float, Field(ge=0)] | None = Field(
        None, description="that the reservoir is scaled to", examples=[0.9]
    )
    leak: Share | None = Field(None, description="share of a neuron's state that is renewed at a decision")
    input_scale: Positive | None = Field(None, description="factor on the input weights")
    reservoirs: Count | None = Field(None, description="networks whose values are averaged")
    ridge: Positive | None = Field(None, description="ridge of the readout's regression")
    epsilon: Share | None = Field(None, description="ε: share of random decisions while learning")
    discount: Share | None = Field(None, description="γ: weight of the next decision's value")
    learning_rate: Share | None = Field(None, description="η: how far a target moves from the present value")
    pretraining_sweeps: Annotated[int, Field(ge=0)] | None = Field(
        None, description="learning sweeps over a run under earliest deadline first"
    )
    sweeps: Annotated[int, Field(ge=0)] | None = Field(None, description="runs with decisions of its own")
    iterations: Count | None = Field(None, description="N: sweeps of fitted Q after each run")
    relearn: Count | None = Field(
        None, description="sarsa: decisions between two fits; default: 1, ffnn: 500"
    )
    probes: Count | None = Field(None, description="counterfactual: decisions of a run that are tried again")
    branches: Annotated[int, Field(ge=2)] | None = Field(
        None, description="counterfactual: candidates tried at each"
    )
    horizon: Positive | None = Field(None, description="counterfactual: seconds for which each trial goes on")
    epochs: Count | None = Field(None, description="feed-forward: passes over the samples at each fit")
    step_size: Positive | None = Field(None, description="feed-forward: Adam's learning rate")

    @field_validator("shares")
    @classmethod
    def _shares_are_sound(cls, value: str | None) -> str | None:
        if value is not None:
            _parsed_shares(value)
        return value

    @model_validator(mode="after")
    def _belong_together(self) -> ResponsiveParameters:
        if self.weeks and self.partition is not None:
            raise ValueError(f"partition={self.partition} has no effect with weeks")
        if self.policy == "recorded" and (self.site == "elastic" or self.shake):
            raise ValueError("policy=recorded is what happened: a rigid site, nothing shaken")
        if self.policy in LEARNED:
            try:
                self.learner()
            except GridtuneError as fault:
                raise ValueError(str(fault)) from None
        self._refuse_idle(self._without_effect())
        return self

    def _without_effect(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield names of parameters that decide nothing, and the choice that makes it so."""
        if self.site == "rigid":
            yield ("floor", "largest", "step", "period", "headroom"), "site=rigid"
        if self.estimates == "oracle":
            yield ("median_of",), "estimates=oracle"
        policy = f"policy={self.policy}"
        if self.policy != "edf":
            yield ("patience",), policy
        if self.policy not in LEARNED:
            yield (*LEARNING, "variant"), policy
            return
        method, regressor = LEARNED[self.policy]
        yield _OF_OTHER_METHODS[method], policy
        yield _OF_THE_OTHER_NETWORK[regressor], policy
        if method == "counterfactual" and not self.learner().sweeps:
            yield ("probes", "branches", "horizon", "epsilon"), f"{policy} and sweeps=0"

    def target_shares(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return the groups that have a share of their own, and all shares, the others' last."""
        assert self.shares is not None
        return _parsed_shares(self.shares)

    def learner(self) -> LearnerSettings:
        """Return the learner's settings: those of the variant, with what is given besides."""
        from dataclasses import replace  # noqa: PLC0415

        from gridtune.systems.responsive.learners.settings import IMPROVED, PAPER  # noqa: PLC0415

        method, regressor = LEARNED[self.policy]
        given: dict[str, Any] = {name: getattr(self, name) for name in LEARNING}
        given["step"] = given.pop("step_size")
        known = {name: value for name, value in given.items() if value is not None}
        if regressor == "ffnn" and method == "sarsa":
            known.setdefault("relearn", _FEED_FORWARD_RELEARN)
        base = PAPER if self.variant == "paper" else IMPROVED
        return replace(base, method=method, regressor=regressor, **known)


def _parsed_shares(text: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    pairs = [part.strip().partition("=") for part in text.split(",")]
    try:
        shares = {name.strip(): float(share) for name, _, share in pairs}
        others = shares.pop("other")
        vos = np.array([int(name) for name in shares], np.int64)
    except (ValueError, KeyError):
        raise ValueError(f"must be group=share,…,other=share, but got {text!r}") from None
    values = np.array([*shares.values(), others])
    if (values < 0).any() or abs(values.sum() - 1) > 1e-3:
        raise ValueError(f"must be at least 0 and add up to 1, but add up to {values.sum():g}")
    return vos, values / values.sum()
