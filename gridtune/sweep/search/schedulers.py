"""Tune's schedulers, which stop configurations early, as search spaces name them."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

from gridtune.core.cells import Cell, content_id
from gridtune.sweep.execution.cluster import RAY_ENVIRONMENT, environment
from gridtune.sweep.space.points import Point
from gridtune.sweep.space.schema import Dimension, SearchSpace
from gridtune.sweep.space.strategies import Halving, HyperBand, MedianStopping, Population, Stopping

if TYPE_CHECKING:
    from ray.tune.schedulers import PopulationBasedTraining, TrialScheduler

__all__ = [
    "TIME",
    "SearchTrial",
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


class _Controller(Protocol):
    """The search, as schedulers see whatever runs the trials."""

    @property
    def changeable(self) -> tuple[str, ...]:
        """The parameters that may change while a training goes on."""
        ...

    def get_trials(self) -> list[SearchTrial]:
        """Return the trials that have not ended."""
        ...

    def pause_trial(self, trial: SearchTrial) -> None:
        """Let a trial wait."""
        ...

    def take_over(self, trial: SearchTrial, source: SearchTrial, changes: Mapping[str, Any]) -> None:
        """Let a trial go on from where another is, with changed parameters."""
        ...


class _FirstComeFirstServed:
    """Runs each trial to its end, as Tune's `FIFOScheduler` does, without importing Ray.

    It has the part of `ray.tune.schedulers.TrialScheduler` that a search needs.
    """

    def on_trial_add(self, tune_controller: _Controller, trial: SearchTrial) -> None:
        """Take a new trial."""

    def on_trial_result(
        self, tune_controller: _Controller, trial: SearchTrial, result: dict[str, Any]
    ) -> str:
        """Decide about a trial after a step: CONTINUE, PAUSE or STOP."""
        return "CONTINUE"

    def on_trial_complete(
        self, tune_controller: _Controller, trial: SearchTrial, result: dict[str, Any]
    ) -> None:
        """Take the end of a running trial."""

    def on_trial_error(self, tune_controller: _Controller, trial: SearchTrial) -> None:
        """Take the failure of a running trial."""

    def on_trial_remove(self, tune_controller: _Controller, trial: SearchTrial) -> None:
        """Take the end of a trial that is not running."""

    def choose_trial_to_run(self, tune_controller: _Controller) -> SearchTrial | None:
        """Return the trial to run next, or None: the first that waits."""
        return next((trial for trial in tune_controller.get_trials() if trial.status == "PENDING"), None)


class _Member:
    """A trial as Tune's scheduler sees it."""

    def __init__(self, trial: SearchTrial, names: tuple[str, ...]) -> None:
        self.trial = trial
        self.trial_id = trial.trial_id
        self.config = {name: trial.point[name] for name in names}
        self.experiment_tag = ""
        self.evaluated_params: dict[str, Any] = {}
        self.temporary_state = SimpleNamespace(saving_to=None)
        self.run_metadata = SimpleNamespace(
            checkpoint_manager=SimpleNamespace(
                checkpoint_config=SimpleNamespace(num_to_keep=None), _latest_checkpoint_result=None
            )
        )

    @property
    def status(self) -> str:
        return self.trial.status

    @property
    def checkpoint(self) -> SimpleNamespace:
        """The place in the search where it is."""
        return SimpleNamespace(trial=self.trial)

    def is_finished(self) -> bool:
        return self.trial.ended

    def set_experiment_tag(self, tag: str) -> None:
        self.experiment_tag = tag

    def set_config(self, config: dict[str, Any]) -> None:
        self.config = config

    def taken_over(self) -> SearchTrial | None:
        """Return whose checkpoint Tune has given it, once."""
        manager = self.run_metadata.checkpoint_manager
        result, manager._latest_checkpoint_result = manager._latest_checkpoint_result, None
        return None if result is None else result.checkpoint.trial


class _MemberController:
    """The search, as Tune's scheduler sees its controller."""

    search_alg = None

    def __init__(self, search: _Controller, members: Mapping[SearchTrial, _Member]) -> None:
        self._search, self._members = search, members

    def get_trials(self) -> list[_Member]:
        return [self._members[trial] for trial in self._search.get_trials()]

    def get_live_trials(self) -> set[_Member]:
        return set(self.get_trials())

    def pause_trial(self, member: _Member, should_checkpoint: bool = True) -> None:
        self._search.pause_trial(member.trial)

    def _schedule_trial_save(self, member: _Member, result: Any = None) -> SimpleNamespace:
        return member.checkpoint


class _PopulationScheduler(_FirstComeFirstServed):
    """Tune's `PopulationBasedTraining`, all trials in step, with random numbers of its own.

    Tune's scheduler works on trials with checkpoints. Here a checkpoint is a place in the search: a
    configuration that was at a rung. What takes it over has its history as a parameter, so the cells say by
    themselves what was trained, and a sweep that goes on comes to the same.

    Parameters
    ----------
    space
        The search space; dimensions that may change while training goes on are changed.
    options
        The strategy's.
    time_attr, metric, mode
        As of Tune's.
    """

    def __init__(
        self, space: SearchSpace, options: Population, *, time_attr: str, metric: str, mode: str
    ) -> None:
        self._space, self._options = space, options
        self._tune = {"time_attr": time_attr, "metric": metric, "mode": mode}
        self._members: dict[SearchTrial, _Member] = {}
        self._scheduler: PopulationBasedTraining | None = None
        self._decisions = 0

    def on_trial_add(self, tune_controller: _Controller, trial: SearchTrial) -> None:
        """Take a new trial."""
        names = tune_controller.changeable
        if self._scheduler is None:
            from ray.tune.schedulers import PopulationBasedTraining  # noqa: PLC0415

            self._scheduler = PopulationBasedTraining(
                **self._tune,
                perturbation_interval=1,
                hyperparam_mutations={name: _drawn(self._space.dimensions[name]) for name in names},
                quantile_fraction=self._options.quantile,
                resample_probability=self._options.resample,
                custom_explore_fn=self._clipped,
                log_config=False,
                synch=True,
            )
        self._members[trial] = _Member(trial, names)
        self._scheduler.on_trial_add(_MemberController(tune_controller, self._members), self._members[trial])

    def on_trial_result(
        self, tune_controller: _Controller, trial: SearchTrial, result: dict[str, Any]
    ) -> str:
        """Wait for the others, or let the worst take over the best; return what becomes of the trial."""
        assert self._scheduler is not None
        self._decisions += 1
        controller = _MemberController(tune_controller, self._members)
        with self._random_numbers():
            decision = self._scheduler.on_trial_result(controller, self._members[trial], result)
        for member in self._members.values():
            source = member.taken_over()
            if source is not None:
                tune_controller.take_over(member.trial, source, member.config)
        return str(decision)

    def choose_trial_to_run(self, tune_controller: _Controller) -> SearchTrial | None:
        """Return the trial to run next, or None."""
        if self._scheduler is None:
            return None
        member = self._scheduler.choose_trial_to_run(_MemberController(tune_controller, self._members))
        return None if member is None else member.trial

    @contextlib.contextmanager
    def _random_numbers(self) -> Iterator[None]:
        """Give Tune, which draws from Python's own generator, the same numbers at the same decision."""
        before = random.getstate()
        random.seed(content_id([self._options.seed, self._decisions]))
        try:
            yield
        finally:
            random.setstate(before)

    def _clipped(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return a configuration within the ranges of its dimensions."""
        for name, value in config.items():
            dimension = self._space.dimensions[name]
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
    base = options.reduction if isinstance(options, Halving | HyperBand) else None
    return [step + 1 if base is None else base**step for step in range(steps)]


def new_scheduler(space: SearchSpace, metric: str, mode: str) -> _FirstComeFirstServed | TrialScheduler:
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
        return _FirstComeFirstServed()
    longest = step_times(space)[-1]
    common: dict[str, Any] = {"time_attr": TIME, "metric": metric, "mode": mode}
    with environment(RAY_ENVIRONMENT):
        from ray.tune import schedulers  # noqa: PLC0415

        if isinstance(options, Population):
            return _PopulationScheduler(space, options, **common)
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
