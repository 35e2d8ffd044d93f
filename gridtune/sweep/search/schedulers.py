"""Tune's schedulers, which stop configurations early, as search spaces name them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from gridtune.core.cells import Cell, content_id
from gridtune.sweep.execution.cluster import RAY_ENVIRONMENT, environment
from gridtune.sweep.space.points import Point
from gridtune.sweep.space.schema import Dimension, SearchSpace
from gridtune.sweep.space.strategies import Halving, Population, Stopping

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
    #: What schedulers ask of a trial of Tune besides; there is nothing to save.
    config: dict[str, Any] = field(default_factory=dict)
    last_result: dict[str, Any] = field(default_factory=dict)
    evaluated_params: dict[str, Any] = field(default_factory=dict)
    experiment_tag: str = ""
    is_saving: bool = False
    temporary_state: Any = field(default_factory=lambda: SimpleNamespace(saving_to=None))
    run_metadata: Any = field(default_factory=lambda: SimpleNamespace(checkpoint_manager=_Checkpoints()))

    @property
    def ended(self) -> bool:
        """True if it has no more steps."""
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

    # What population based training asks: a checkpoint is the trial as it is at a rung.

    @property
    def checkpoint(self) -> SearchTrial:
        """The place in the search where it is."""
        return self

    def is_finished(self) -> bool:
        """Return whether it has no more steps."""
        return self.ended

    def set_experiment_tag(self, tag: str) -> None:
        """Take what Tune calls it."""

    def set_config(self, config: dict[str, Any]) -> None:
        """Take changed parameters."""
        self.config = config

    def taken_over(self) -> SearchTrial | None:
        """Return whose checkpoint a scheduler has given it, once."""
        manager = self.run_metadata.checkpoint_manager
        result, manager._latest_checkpoint_result = manager._latest_checkpoint_result, None
        return None if result is None else result.checkpoint


class _Checkpoints(SimpleNamespace):
    """The checkpoints of a trial, as Tune's scheduler sees them."""

    checkpoint_config = SimpleNamespace(num_to_keep=None)
    _latest_checkpoint_result: Any = None


class _FirstComeFirstServed:
    """Runs each trial to its end, as Tune's `FIFOScheduler` does, without importing Ray.

    It has the part of `ray.tune.schedulers.TrialScheduler` that a search needs.
    """

    def on_trial_add(self, search: Any, trial: SearchTrial) -> None:
        """Take a new trial."""

    def on_trial_result(self, search: Any, trial: SearchTrial, result: dict[str, Any]) -> str:
        """Decide about a trial after a step: CONTINUE, PAUSE or STOP."""
        return "CONTINUE"

    def on_trial_complete(self, search: Any, trial: SearchTrial, result: dict[str, Any]) -> None:
        """Take the end of a running trial."""

    def on_trial_error(self, search: Any, trial: SearchTrial) -> None:
        """Take the failure of a running trial."""

    def on_trial_remove(self, search: Any, trial: SearchTrial) -> None:
        """Take the end of a trial that is not running."""

    def choose_trial_to_run(self, search: Any) -> SearchTrial | None:
        """Return the trial to run next, or None: the first that waits."""
        return next((trial for trial in search.get_trials() if trial.status == "PENDING"), None)


class _PopulationScheduler:
    """Tune's `PopulationBasedTraining`, all trials in step, with random numbers of its own.

    Tune's scheduler works on trials with checkpoints. Here a checkpoint is a place in the search: a
    configuration that was at a rung. A trial that takes it over has its history as a parameter, so the cells
    say by themselves what was trained, and a sweep that is resumed comes to the same.

    Parameters
    ----------
    dimensions
        The dimensions that may change while training goes on.
    options
        The strategy's.
    time_attr, metric, mode
        As of Tune's.
    """

    def __init__(self, dimensions: Mapping[str, Dimension], options: Population, **tune: str) -> None:
        from ray.tune.schedulers import PopulationBasedTraining  # noqa: PLC0415

        self._dimensions, self._seed, self._decisions = dimensions, options.seed, 0
        self._scheduler = PopulationBasedTraining(
            **tune,
            perturbation_interval=1,
            hyperparam_mutations={name: _drawn(dimension) for name, dimension in dimensions.items()},
            quantile_fraction=options.quantile,
            resample_probability=options.resample,
            custom_explore_fn=self._clipped,
            log_config=False,
            synch=True,
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)

    def on_trial_result(self, search: Any, trial: SearchTrial, result: dict[str, Any]) -> str:
        """Wait for the others, or let the worst take over the best; return what becomes of the trial."""
        self._decisions += 1
        before = random.getstate()
        # Tune draws from Python's own generator: the same numbers at the same decision.
        random.seed(content_id([self._seed, self._decisions]))
        try:
            decision = self._scheduler.on_trial_result(search, trial, result)
        finally:
            random.setstate(before)
        for other in search.get_trials():
            source = other.taken_over()
            if source is not None:
                search.take_over(other, source, other.config)
        return str(decision)

    def _clipped(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return a configuration within the ranges of its dimensions."""
        for name, value in config.items():
            dimension = self._dimensions[name]
            bounds = dimension.uniform or dimension.loguniform or dimension.integer
            if bounds is not None:
                config[name] = min(max(value, bounds[0]), bounds[1])
        return config


def _drawn(dimension: Dimension) -> Any:
    """Return what Tune draws a value from: a list, or a function."""
    if dimension.uniform is not None:
        low, high = dimension.uniform
        return lambda: random.uniform(low, high)
    if dimension.loguniform is not None:
        first, last = map(math.log, dimension.loguniform)
        return lambda: math.exp(random.uniform(first, last))
    if dimension.integer is not None:
        least, most = dimension.integer
        return lambda: random.randint(least, most)
    return list(dimension.values or ())


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
    base = options.reduction if isinstance(options, Halving) else None
    return [step + 1 if base is None else base**step for step in range(steps)]


def new_scheduler(space: SearchSpace, changeable: Iterable[str], metric: str, mode: str) -> Any:
    """Return the scheduler of a space's strategy: one of Tune's, or one that is used like them.

    Parameters
    ----------
    space
        The search space.
    changeable
        The dimensions that may change while a training goes on.
    metric, mode
        The objective, and "min" or "max".
    """
    options = space.strategy.stopping
    if options is None or type(options) is Stopping:
        return _FirstComeFirstServed()
    longest = step_times(space)[-1]
    common: dict[str, Any] = {"time_attr": TIME, "metric": metric, "mode": mode}
    with environment(RAY_ENVIRONMENT):
        from ray.tune import schedulers  # noqa: PLC0415

        if isinstance(options, Population):
            dimensions = {name: space.dimensions[name] for name in changeable}
            return _PopulationScheduler(dimensions, options, **common)
        assert isinstance(options, Halving)
        grace = 1 if options.resource else min(options.grace, longest)
        return schedulers.ASHAScheduler(
            **common, max_t=longest, grace_period=grace, reduction_factor=options.reduction
        )
