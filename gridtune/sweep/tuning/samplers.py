"""The samplers an adaptive strategy can have: Optuna's, by name."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gridtune.errors import SpaceError
from gridtune.sweep.space.schema import SearchSpace
from gridtune.sweep.space.strategies import Adaptive

__all__ = ["SAMPLERS", "SamplerInfo", "check_sampler", "new_study"]


@dataclass(frozen=True)
class SamplerInfo:
    """What a sampler needs and is able to do.

    Attributes
    ----------
    make
        Returns the sampler, given the module `optuna.samplers`, a seed and the size of a population or None.
    needs
        Packages that must be installed beside Optuna.
    several_objectives
        Whether it improves several objectives at once.
    population
        Whether it has a population.
    """

    make: Callable[[Any, int, int | None], Any]
    needs: tuple[str, ...] = ()
    several_objectives: bool = True
    population: bool = False


def _nsga(name: str) -> Callable[[Any, int, int | None], Any]:
    def make(samplers: Any, seed: int, population: int | None) -> Any:
        options = {} if population is None else {"population_size": population}
        return getattr(samplers, name)(seed=seed, **options)

    return make


#: By the name that search spaces use.
SAMPLERS: Mapping[str, SamplerInfo] = {
    "tpe": SamplerInfo(lambda samplers, seed, _: samplers.TPESampler(seed=seed)),
    "cmaes": SamplerInfo(
        lambda samplers, seed, population: samplers.CmaEsSampler(
            seed=seed, popsize=population, warn_independent_sampling=False
        ),
        needs=("cmaes",),
        several_objectives=False,
        population=True,
    ),
    "gp": SamplerInfo(
        lambda samplers, seed, _: samplers.GPSampler(seed=seed, warn_independent_sampling=False),
        needs=("scipy", "torch"),
    ),
    "nsgaii": SamplerInfo(_nsga("NSGAIISampler"), population=True),
    "nsgaiii": SamplerInfo(_nsga("NSGAIIISampler"), population=True),
    "random": SamplerInfo(lambda samplers, seed, _: samplers.RandomSampler(seed=seed)),
    "sobol": SamplerInfo(
        lambda samplers, seed, _: samplers.QMCSampler(
            qmc_type="sobol",
            scramble=True,
            seed=seed,
            # What the sequence does not cover (conditional dimensions) is drawn at random.
            independent_sampler=samplers.RandomSampler(seed=seed),
            warn_asynchronous_seeding=False,
            warn_independent_sampling=False,
        ),
        needs=("scipy",),
    ),
}


def check_sampler(space: SearchSpace) -> None:
    """Refuse a sampler that is not installed or does not go with the objectives; Optuna is not imported.

    Raises
    ------
    SpaceError
        Naming the package that is missing, or the samplers that take several objectives.
    """
    options = space.strategy.adaptive
    if options is None:
        return
    sampler, place = SAMPLERS[options.sampler], ("strategy", space.strategy.kind)
    missing = [name for name in sampler.needs if importlib.util.find_spec(name) is None]
    if missing:
        raise space.fault(
            f"the sampler {options.sampler} needs {' and '.join(missing)}, which is not installed",
            *place,
            "sampler",
            hint=f"pip install {' '.join(missing)}",
        )
    if len(space.objective) > 1 and not sampler.several_objectives:
        able = ", ".join(name for name, info in SAMPLERS.items() if info.several_objectives)
        message = f"the sampler {options.sampler} takes one objective, but there are {len(space.objective)}"
        raise space.fault(message, *place, "sampler", hint=f"use one of {able}, or give one objective")
    if options.population is not None and not sampler.population:
        able = ", ".join(name for name, info in SAMPLERS.items() if info.population)
        message = f"the sampler {options.sampler} has no population"
        raise space.fault(message, *place, "population", hint=f"{able} have one; or leave it out")


def new_study(options: Adaptive, directions: Sequence[str]) -> Any:
    """Return an Optuna study in memory with the strategy's sampler.

    Parameters
    ----------
    options
        Sampler, seed, population.
    directions
        "min" or "max" for each objective.
    """
    import optuna  # noqa: PLC0415

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        try:
            sampler = SAMPLERS[options.sampler].make(optuna.samplers, options.seed, options.population)
        except ValueError as fault:
            raise SpaceError(f"Optuna refuses the sampler {options.sampler}: {fault}") from None
    names = {"min": "minimize", "max": "maximize"}
    return optuna.create_study(directions=[names[direction] for direction in directions], sampler=sampler)
