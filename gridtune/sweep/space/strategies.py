"""Strategies of a search space: which configurations are run, and their options."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gridtune.registry import name_hint

#: Points that a strategy may spell out: each takes memory in the driver.
MOST_POINTS = 1_000_000
#: Points drawn at random from which on their best is confirmed.
_MANY = 100
#: Replicates of a configuration: they are counted, and made one by one.
MOST_REPLICATES = 1_000_000_000
#: Optuna's samplers, as search spaces name them.
SamplerName = Literal["tpe", "cmaes", "gp", "nsgaii", "nsgaiii", "random", "sobol"]


class SpacePart(BaseModel):
    """A part of a search space: no unknown keys, and never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    #: Keys of which exactly one is given; () where there are none.
    alternatives: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [name for name in self.alternatives if getattr(self, name) is not None]
        if self.alternatives and len(kinds) != 1:
            message = f"exactly one of {', '.join(self.alternatives)} is needed, but got {kinds or 'none'}"
            raise ValueError(message)
        return self

    @property
    def kind(self) -> str:
        """The one of the alternatives that is given."""
        return next(name for name in self.alternatives if getattr(self, name) is not None)


class Sampling(SpacePart):
    """Number of points that a sampling strategy draws, and its seed.

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
    """Number of configurations that an adaptive strategy tries, and its sampler.

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


#: Chooses one of a number of alternatives for the node of a number.
Choose = Callable[[int, int], int]
_SIMPLE = re.compile(r"[\w.]+(\([^()]*\))?")


Operator = Literal["+", "-", "*", "/", "min", "max"]


class ExpressionTree(SpacePart):
    """Expressions that a search may build.

    Attributes
    ----------
    terminals
        What may stand at the leaves, such as `walltime`, `log(processors)` and 2.
    operators
        What may join two branches.
    depth
        Levels of operators: a tree has up to 2 to the power of it leaves.
    """

    terminals: Annotated[tuple[str | float, ...], Field(min_length=1)]
    operators: Annotated[tuple[Operator, ...], Field(min_length=1)] = ("+", "-", "*", "/")
    depth: Annotated[int, Field(ge=1, le=5)] = 3

    @property
    def leaves(self) -> tuple[str, ...]:
        """The terminals as they stand in expressions."""
        texts = (f"{leaf:g}" if isinstance(leaf, float) else leaf for leaf in self.terminals)
        return tuple(text if _SIMPLE.fullmatch(text) else f"({text})" for text in texts)

    @property
    def extremes(self) -> tuple[str, ...]:
        """Expressions that are valid if all are: each terminal, and each operator once."""
        first = self.leaves[0]
        return (*self.leaves, *(_joined(operator, first, first) for operator in self.operators))

    def draw(self, choose: Choose) -> str:
        """Return the expression of these choices; every node is asked for, also one that another hides."""
        inner = 2**self.depth
        chosen = [0] + [
            choose(node, len(self.operators) + 1 if node < inner else len(self.leaves))
            for node in range(1, 2 * inner)
        ]

        def text(node: int) -> str:
            if node >= inner:
                return self.leaves[chosen[node]]
            if chosen[node] == len(self.operators):
                return text(2 * node)
            return _joined(self.operators[chosen[node]], text(2 * node), text(2 * node + 1))

        return text(1)

    def choices(self, expression: str) -> Mapping[int, int]:
        """Return choices that `draw` makes this expression of; hidden nodes have the first alternative.

        Raises
        ------
        ValueError
            If it is none of these expressions.
        """
        found = dict.fromkeys(range(1, 2 ** (self.depth + 1)), 0)

        def fill(node: int, text: str) -> None:
            if node >= 2**self.depth:
                found[node] = self.leaves.index(text)
                return
            parts = None if text in self.leaves else self._split(text)
            if parts is None:
                found[node] = len(self.operators)
                fill(2 * node, text)
                return
            found[node] = self.operators.index(parts[0])
            fill(2 * node, parts[1])
            fill(2 * node + 1, parts[2])

        fill(1, expression)
        return found

    def _split(self, text: str) -> tuple[Operator, str, str] | None:
        """Return the operator of an expression and its branches, or None."""
        body = text.partition("(")[2].removesuffix(")")
        for operator in self.operators:
            sign = ", " if operator in ("min", "max") else f" {operator} "
            depth = 0
            for place, character in enumerate(body):
                depth += (character == "(") - (character == ")")
                if depth == 0 and body.startswith(sign, place):
                    left, right = body[:place], body[place + len(sign) :]
                    if _joined(operator, left, right) == text:
                        return operator, left, right
        return None


def _joined(operator: str, left: str, right: str) -> str:
    return f"{operator}({left}, {right})" if operator in ("min", "max") else f"({left} {operator} {right})"


#: The parameter of every training that the strategy sets.
ITERATIONS = "iterations"


class _TrainingSearch(Adaptive):
    """Number of agents to train, their iterations, and the rule by which they go on.

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
    parallel
        Agents at once; with pbt all of them are.
    num_gpus
        GPUs, or a share of one, for each agent; above 0 they learn on cuda.
    """

    iterations: Annotated[tuple[Annotated[int, Field(gt=0)], ...], Field(min_length=1)]
    scheduler: Literal["none", "asha", "pbt"] = "none"
    reduction: Annotated[int, Field(ge=2)] = 3
    quantile: Annotated[float, Field(gt=0, le=0.5)] = 0.25
    resample: Annotated[float, Field(ge=0, le=1)] = 0.25
    sampler: SamplerName = "random"
    num_gpus: Annotated[float, Field(ge=0)] = 0

    @field_validator("iterations", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return (value,) if isinstance(value, int) else value

    @model_validator(mode="after")
    def _rungs(self) -> _TrainingSearch:
        if list(self.iterations) != sorted(set(self.iterations)):
            raise ValueError(f"iterations must ascend, but got {list(self.iterations)}")
        if self.scheduler != "none" and len(self.iterations) < 2:
            raise ValueError(f"{self.scheduler} needs several numbers of iterations, such as [10, 30, 90]")
        return self

    @property
    def search(self) -> Adaptive:
        """The same as an adaptive strategy over numbers of iterations."""
        common: dict[str, Any] = {name: getattr(self, name) for name in Adaptive.model_fields}
        rungs = {**common, "resource": ITERATIONS}
        if self.scheduler == "asha":
            return Halving(**rungs, reduction=self.reduction)
        if self.scheduler == "pbt":
            # All must have come to a rung before the worst of them are known.
            rungs["parallel"] = self.trials
            return Population(**rungs, quantile=self.quantile, resample=self.resample)
        if len(self.iterations) > 1:
            return Stopping(**rungs)
        return Adaptive(**common)


class Strategy(SpacePart):
    """Choice of the configurations to run: exactly one of these."""

    alternatives = ("grid", "random", "sobol", "optuna", "asha", "train")

    grid: Annotated[dict[str, Any], Field(max_length=0)] | None = None
    random: Sampling | None = None
    sobol: Sampling | None = None
    optuna: Adaptive | None = None
    asha: Halving | None = None
    train: _TrainingSearch | None = None

    @property
    def drawn(self) -> tuple[Literal["random", "sobol"], Sampling] | None:
        """Sampling of points that are known up front; None where they are not drawn."""
        if self.random is not None:
            return "random", self.random
        return None if self.sobol is None else ("sobol", self.sobol)

    @staticmethod
    def searches(stated: Mapping[str, Any]) -> bool:
        """Return whether a strategy has so many trials that fresh replicates must confirm the best."""
        # A search by training is none: each replicate would train another agent.
        drawn = stated.get("random") or stated.get("sobol") or {}
        return not stated.keys().isdisjoint({"optuna", "asha"}) or drawn.get("samples", 0) >= _MANY

    @property
    def adaptive(self) -> Adaptive | None:
        """The options of a strategy that chooses by what was found before, else None."""
        return self.optuna or self.stopping or (self.train.search if self.train else None)

    @property
    def stopping(self) -> Stopping | None:
        """The options of a strategy that stops configurations early, else None."""
        search = self.train.search if self.train else None
        return self.asha or (search if isinstance(search, Stopping) else None)

    @model_validator(mode="before")
    @classmethod
    def _bare_word(cls, value: Any) -> Any:
        if value == "grid":
            return {value: {}}
        if isinstance(value, str) and value in cls.model_fields:
            raise ValueError(f"{value} needs numbers, such as `{value}: {{samples: 100, seed: 1}}`")
        if isinstance(value, str):
            raise ValueError(f"no strategy is named {value!r}: {name_hint(value, cls.model_fields)}")
        return value


@dataclass(frozen=True)
class _SamplerInfo:
    """Needs and abilities of a sampler.

    Attributes
    ----------
    name
        Its class in `optuna.samplers`.
    options
        What it is made with beside a seed.
    needs
        Packages that must be installed beside Optuna.
    several_objectives
        Whether it improves several objectives at once.
    population
        Its option for the size of its population; "" where it has none.
    constraints
        Whether it takes constraints.
    reads_results
        Whether it looks at results.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    several_objectives: bool = True
    population: str = ""
    constraints: bool = True
    reads_results: bool = True


#: By the name that search spaces use.
SAMPLERS: Mapping[str, _SamplerInfo] = {
    name: _SamplerInfo(**{**info, "needs": tuple(info.get("needs", ()))})
    for name, info in tomllib.loads(Path(__file__).with_name("samplers.toml").read_text("utf-8")).items()
}
