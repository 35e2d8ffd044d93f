"""The strategy `train`: each configuration is an agent that is trained, some of them to the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from gridtune.sweep.strategies import Adaptive, Halving, Population, SamplerName, SpacePart, Stopping

__all__ = ["ITERATIONS", "TrainingSearch", "with_rungs"]

#: The parameter of every training that the strategy sets.
ITERATIONS = "iterations"

Count = Annotated[int, Field(gt=0)]


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, int) else value


class TrainingSearch(SpacePart):
    """How many agents are trained, for how long, and which of them go on.

    Attributes
    ----------
    trials
        Agents that are trained.
    iterations
        Iterations of the algorithm; with several numbers, agents are evaluated after each.
    scheduler
        Which of Tune's schedulers decides there: none (all go on), asha (the best go on), pbt (the worst
        become copies of the best, with changed parameters).
    reduction
        With asha: the best 1/reduction go on.
    quantile
        With pbt: the share of agents that are replaced, and the share that are copied.
    resample
        With pbt: the chance that a parameter is drawn again instead of multiplied by 0.8 or 1.2.
    sampler
        Which of Optuna's samplers chooses the configurations.
    seed
        What the sampler's random numbers derive from.
    parallel
        Agents at once; with pbt all of them are.
    num_gpus
        GPUs, or a share of one, for each agent; above 0 they learn on cuda.
    """

    trials: Count
    iterations: Annotated[tuple[Count, ...], BeforeValidator(_listed), Field(min_length=1)]
    scheduler: Literal["none", "asha", "pbt"] = "none"
    reduction: Annotated[int, Field(ge=2)] = 3
    quantile: Annotated[float, Field(gt=0, le=0.5)] = 0.25
    resample: Annotated[float, Field(ge=0, le=1)] = 0.25
    sampler: SamplerName = "random"
    seed: Annotated[int, Field(ge=0)] = 0
    parallel: Count = 8
    num_gpus: Annotated[float, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _rungs(self) -> TrainingSearch:
        if list(self.iterations) != sorted(set(self.iterations)):
            raise ValueError(f"iterations must ascend, but got {list(self.iterations)}")
        if self.scheduler != "none" and len(self.iterations) < 2:
            raise ValueError(f"{self.scheduler} needs several numbers of iterations, such as [10, 30, 90]")
        return self

    @property
    def search(self) -> Adaptive:
        """The same as an adaptive strategy over numbers of iterations."""
        common: dict[str, Any] = {"trials": self.trials, "seed": self.seed, "sampler": self.sampler}
        rungs = {**common, "resource": ITERATIONS}
        if self.scheduler == "asha":
            return Halving(**rungs, parallel=self.parallel, reduction=self.reduction)
        if self.scheduler == "pbt":
            # All must have come to a rung before the worst of them are known.
            return Population(**rungs, parallel=self.trials, quantile=self.quantile, resample=self.resample)
        if len(self.iterations) > 1:
            return Stopping(**rungs, parallel=self.parallel)
        return Adaptive(**common, parallel=self.parallel)


def with_rungs(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a space's content with what its strategy `train` says of parameters and resources.

    The iterations become a dimension, or a fixed parameter where there is one number; GPUs are asked for.
    """
    strategy = content.get("strategy")
    train = strategy.get("train") if isinstance(strategy, Mapping) else None
    if not isinstance(train, Mapping) or ITERATIONS not in train:
        return content
    listed = _listed(train[ITERATIONS])
    if not isinstance(listed, list | tuple):
        return content
    fixed, dimensions = dict(content.get("fixed") or {}), dict(content.get("dimensions") or {})
    baseline, resources = dict(content.get("baseline") or {}), dict(content.get("resources") or {})
    for part, name in ((fixed, "fixed"), (dimensions, "dimensions")):
        if ITERATIONS in part:
            raise ValueError(f"the strategy train sets {ITERATIONS}, so it cannot be under `{name}` too")
    if len(listed) == 1:
        fixed[ITERATIONS] = listed[0]
    else:
        dimensions[ITERATIONS] = list(listed)
        if baseline:
            baseline.setdefault(ITERATIONS, listed[-1])
    if train.get("num_gpus"):
        resources.setdefault("gpus", train["num_gpus"])
        fixed.setdefault("device", "cuda")
    parts = {"fixed": fixed, "dimensions": dimensions, "baseline": baseline, "resources": resources}
    return {**content, **parts}
