"""The options of a search space's strategies, as its YAML file has them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "MOST_POINTS",
    "MOST_REPLICATES",
    "Adaptive",
    "Halving",
    "HyperBand",
    "MedianStopping",
    "Population",
    "Racing",
    "SamplerName",
    "Sampling",
    "SpacePart",
    "Stopping",
]

#: Points that a strategy may spell out: each takes memory in the driver.
MOST_POINTS = 1_000_000
#: Replicates of a configuration: they are counted, and made one by one.
MOST_REPLICATES = 1_000_000_000
#: Optuna's samplers, as search spaces name them.
SamplerName = Literal["tpe", "cmaes", "gp", "nsgaii", "nsgaiii", "random", "sobol"]


class SpacePart(BaseModel):
    """A part of a search space: no unknown keys, and never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Sampling(SpacePart):
    """How many points a sampling strategy draws, from which seed.

    Attributes
    ----------
    samples
        Points that are drawn; more of them later keep those there are.
    seed
        What the random numbers derive from.
    """

    samples: Annotated[int, Field(gt=0, le=MOST_POINTS)]
    seed: Annotated[int, Field(ge=0)] = 0


class Adaptive(SpacePart):
    """How many configurations an adaptive strategy tries, and how it chooses them.

    Attributes
    ----------
    trials
        Configurations that are tried.
    seed
        What the sampler's random numbers derive from.
    sampler
        Which of Optuna's samplers chooses.
    parallel
        Configurations that are tried at once: each is chosen by the results of all but the latest of these,
        with any number of workers.
    population
        Size of the population of a sampler that has one; None for Optuna's.
    """

    trials: Annotated[int, Field(gt=0, le=MOST_POINTS)]
    seed: Annotated[int, Field(ge=0)] = 0
    sampler: SamplerName = "tpe"
    parallel: Annotated[int, Field(gt=0)] = 8
    population: Annotated[int, Field(ge=2)] | None = None


class Stopping(Adaptive):
    """An adaptive strategy whose configurations can be stopped early, by one of Tune's schedulers.

    Attributes
    ----------
    resource
        A dimension with an ascending grid of numbers, such as training steps: a configuration is run with one
        after the other. None: it is run on one replicate after the other.
    """

    resource: str | None = None
    sampler: SamplerName = "random"


class Halving(Stopping):
    """Asynchronous successive halving.

    Attributes
    ----------
    reduction
        At each rung the best 1/reduction of those that were there go on.
    grace
        Replicates before the first rung; the others are at `reduction` times, `reduction²` times as many.
        With a resource every value of it is a rung.
    """

    reduction: Annotated[int, Field(ge=2)] = 3
    grace: Annotated[int, Field(gt=0)] = 1


class Population(Stopping):
    """Population based training: at each rung the worst become copies of the best, with changed parameters.

    Attributes
    ----------
    quantile
        Share of configurations that are replaced, and share that are copied.
    resample
        Chance that a parameter is drawn again; otherwise it is multiplied by 0.8 or 1.2.
    """

    quantile: Annotated[float, Field(gt=0, le=0.5)] = 0.25
    resample: Annotated[float, Field(ge=0, le=1)] = 0.25


class HyperBand(Stopping):
    """Successive halving in brackets that differ in how early they begin to stop configurations.

    Attributes
    ----------
    reduction
        At each rung of a bracket the best 1/reduction go on, once all of them are there.
    """

    reduction: Annotated[int, Field(ge=2)] = 3


class MedianStopping(Stopping):
    """Stops a configuration whose best value so far is worse than the median of the others' means so far.

    Attributes
    ----------
    grace
        Steps (replicates or values of the resource) that each configuration has.
    samples
        Other configurations that there must be at a step.
    """

    grace: Annotated[int, Field(gt=0)] = 1
    samples: Annotated[int, Field(gt=0)] = 3


class Racing(SpacePart):
    """A race: more replicates for the configurations that can still matter.

    Attributes
    ----------
    error
        The chance, over the whole sweep, that a difference is found where there is none, and that the best
        configuration is given up.
    first
        Replicates of every configuration before the first decision.
    width
        Half the width of a paired interval, as a share of the mean that is compared with, that is narrow
        enough; None for never.
    budget
        Cells at most: their number, or, up to 1.0, their share of those of all replicates; None for all.
    verdicts
        Whether a configuration that cannot be best goes on until its difference to the baseline is clear.
    random, sobol
        Points that race; by default those of the grid.
    """

    error: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    first: Annotated[int, Field(ge=2)] = 3
    width: Annotated[float, Field(gt=0)] | None = None
    budget: Annotated[int | float, Field(gt=0)] | None = None
    verdicts: bool = True
    random: Sampling | None = None
    sobol: Sampling | None = None

    @model_validator(mode="after")
    def _one_sampler(self) -> Racing:
        if self.random is not None and self.sobol is not None:
            raise ValueError("one of random and sobol draws the points, not both")
        return self
