"""Tune's schedulers, which stop configurations early, as search spaces name them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gridtune.core.cells import Cell
from gridtune.registry import name_hint
from gridtune.sweep.cluster import RAY_ENVIRONMENT, environment
from gridtune.sweep.dimensions import Point
from gridtune.sweep.space import SearchSpace
from gridtune.sweep.strategies import Halving, HyperBand, MedianStopping, Population, Stopping

__all__ = [
    "Controller",
    "FirstComeFirstServed",
    "Scheduler",
    "SearchTrial",
    "check_stopping",
    "new_scheduler",
    "proposals_at_once",
    "step_times",
]

#: The names under which a scheduler gets a trial's time.
TIME = "training_iteration"


@dataclass(eq=False)
class SearchTrial:
    """A configuration in a search, as one of Tune's schedulers sees a trial.

    Attributes
    ----------
    trial_id
        Its name in the search: Tune may start a trial twice, this number stays.
    number
        The proposal it is; None for the baseline of a search whose configurations are stopped early.
    point
        The values of the dimensions.
    steps
        The cells of each step. After a step the scheduler decides whether there is another.
    stoppable
        Whether the scheduler decides about it.
    status
        PENDING, RUNNING, PAUSED, TERMINATED or ERROR.
    finished_steps
        Steps whose results have been taken.
    """

    trial_id: str
    number: int | None
    point: Point
    steps: Sequence[Sequence[Cell]]
    stoppable: bool
    status: str = "PENDING"
    finished_steps: int = 0
    #: Schedulers ask for both; there is nothing to save.
    is_saving: bool = False
    last_result: dict[str, Any] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether it has no more steps."""
        return self.status in ("TERMINATED", "ERROR")

    @property
    def cells(self) -> Sequence[Cell]:
        """The cells of the step it is at; none when it has ended or is paused."""
        return self.steps[self.finished_steps] if self.status == "RUNNING" else ()

    @property
    def begun(self) -> Iterable[Cell]:
        """The cells of every step it has begun."""
        for step in self.steps[: self.finished_steps]:
            yield from step
        yield from self.cells

    def __str__(self) -> str:
        return self.trial_id


class Controller(Protocol):
    """What schedulers may ask of whatever runs the trials."""

    def get_trials(self) -> list[SearchTrial]:
        """Return the trials."""
        ...

    def get_live_trials(self) -> set[SearchTrial]:
        """Return the trials that have not ended."""
        ...

    def stop_trial(self, trial: SearchTrial) -> None:
        """End a trial."""
        ...


class Scheduler(Protocol):
    """The part of `ray.tune.schedulers.TrialScheduler` that a search needs."""

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Take a new trial."""
        ...

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Decide about a trial after a step: CONTINUE, PAUSE or STOP."""
        ...

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        """Take the end of a running trial."""
        ...

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        """Take the failure of a running trial."""
        ...

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        """Take the end of a trial that is not running."""
        ...

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """Return the trial to run next, or None."""
        ...


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
