"""Tune's schedulers, which stop configurations early, as search spaces name them."""

from __future__ import annotations

import math
from typing import Any

from gridtune.registry import name_hint
from gridtune.sweep.cluster import RAY_ENVIRONMENT, environment
from gridtune.sweep.space.schema import SearchSpace
from gridtune.sweep.space.strategies import Halving, HyperBand, MedianStopping, Population, Stopping
from gridtune.sweep.tuning.trials import TIME, Controller, Scheduler, SearchTrial

__all__ = [
    "FirstComeFirstServed",
    "check_stopping",
    "new_scheduler",
    "proposals_at_once",
    "step_times",
]


class FirstComeFirstServed:
    """Runs each trial to its end: what Tune's `FIFOScheduler` does, without importing Ray."""

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Do nothing."""

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Go on."""
        return "CONTINUE"

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        """Do nothing."""

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        """Do nothing."""

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        """Do nothing."""

    def choose_trial_to_run(self, tune_controller: Controller) -> SearchTrial | None:
        """Return the first trial that waits."""
        return next((trial for trial in tune_controller.get_trials() if trial.status == "PENDING"), None)


def step_times(space: SearchSpace) -> list[int]:
    """Return the time of each step by the scheduler's clock.

    With a resource, `reduction` to the power of the step: so every value is a rung, whatever the values
    are. Else the number of replicates so far.
    """
    options = space.strategy.stopping
    if options is None:
        return [1]
    if options.resource is None:
        return list(range(1, space.replicates.count + 1))
    steps = len(space.dimensions[options.resource].grid or ())
    base = options.reduction if isinstance(options, Halving | HyperBand) else None
    return [step + 1 if base is None else base**step for step in range(steps)]


def new_scheduler(space: SearchSpace, metric: str, mode: str) -> Scheduler:
    """Return the scheduler of a space's strategy.

    Parameters
    ----------
    space
        The search space.
    metric, mode
        The objective, and "min" or "max".
    """
    options = space.strategy.stopping
    if options is None or type(options) is Stopping:
        return FirstComeFirstServed()
    longest = step_times(space)[-1]
    common: dict[str, Any] = {"time_attr": TIME, "metric": metric, "mode": mode}
    with environment(RAY_ENVIRONMENT):
        from ray.tune import schedulers  # noqa: PLC0415

        if isinstance(options, Population):
            from gridtune.sweep.tuning.population import PopulationScheduler  # noqa: PLC0415 (Tune)

            return PopulationScheduler(space, options, **common)
        if isinstance(options, Halving):
            grace = 1 if options.resource else min(options.grace, longest)
            return schedulers.ASHAScheduler(
                **common, max_t=longest, grace_period=grace, reduction_factor=options.reduction
            )
        if isinstance(options, HyperBand):
            return schedulers.HyperBandScheduler(**common, max_t=longest, reduction_factor=options.reduction)
        assert isinstance(options, MedianStopping)
        return schedulers.MedianStoppingRule(
            **common,
            grace_period=options.grace,
            min_samples_required=options.samples,
            # It would pause trials to let others catch up; here all go on step by step as it is.
            min_time_slice=longest,
        )


def proposals_at_once(space: SearchSpace) -> int:
    """Return how many configurations are proposed together: a population, for HyperBand all its brackets.

    A bracket compares the trials it has; it must have them before the first of them is at its rung. The sizes
    are those of L. Li et al., "Hyperband: a novel bandit-based approach to hyperparameter optimization", JMLR
    18(185), 2018, algorithm 1, as Tune rounds them.
    """
    options = space.strategy.stopping
    if isinstance(options, Population):
        return options.trials
    if not isinstance(options, HyperBand):
        return 1
    longest, eta = step_times(space)[-1], options.reduction
    brackets = round(math.log(longest) / math.log(eta)) + 1
    return sum(
        math.ceil(brackets / (bracket + 1) * eta**bracket)
        for bracket in range(brackets)
        if int(longest * eta ** (-bracket)) > 0
    )


def check_stopping(space: SearchSpace) -> None:
    """Refuse early stopping without steps: a resource that is no ascending list, or a single replicate.

    Raises
    ------
    SpaceError
        Naming the key at fault.
    """
    options = space.strategy.stopping
    if options is None:
        return
    kind = space.strategy.kind
    if options.resource is not None:
        _check_resource(space, options.resource, kind)
    elif space.replicates.count < 2:
        message = f"{kind} stops configurations between replicates, but there is only one"
        hint = "ask for more under `replicates`, or name a `resource`"
        raise space.fault(message, "strategy", kind, hint=hint)


def _check_resource(space: SearchSpace, resource: str, kind: str) -> None:
    place = ("strategy", kind, "resource")
    dimension = space.dimensions.get(resource)
    if dimension is None:
        hint = name_hint(resource, space.dimensions)
        raise space.fault(f"no dimension is named {resource!r}", *place, hint=hint)
    rungs = list(dimension.grid or ())
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in rungs)
    if len(rungs) < 2 or not numbers or rungs != sorted(rungs):
        message = f"the values of {resource!r} must be a list of two or more ascending numbers"
        raise space.fault(message, *place, hint=f"such as {resource}: [1000, 3000, 9000]")
    conditional = next((name for name, other in space.dimensions.items() if resource in other.when), None)
    if dimension.when or conditional:
        name = resource if dimension.when else str(conditional)
        message = f"{name!r} has a condition, but every configuration needs each value of {resource!r}"
        raise space.fault(message, "dimensions", name, "when", hint="leave the condition out")
