"""Population based training by Tune's own scheduler, in the order of events of a `LockstepSearch`.

Tune's scheduler works on trials with checkpoints. Here a checkpoint is a place in the search: a configuration
that was at a rung. What takes it over has its history as a parameter, so the cells say by themselves what was
trained, and a sweep that goes on comes to the same.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Protocol

from ray.tune.schedulers import PopulationBasedTraining

from gridtune.core.cells import content_id
from gridtune.sweep.space.schema import Dimension, SearchSpace
from gridtune.sweep.space.strategies import Population
from gridtune.sweep.tuning.trials import Controller, SearchTrial

__all__ = ["PopulationScheduler", "PopulationSearch"]


class PopulationSearch(Controller, Protocol):
    """What the scheduler asks of the search."""

    @property
    def changeable(self) -> tuple[str, ...]:
        """The parameters that may change while a training goes on."""
        ...

    def pause_trial(self, trial: SearchTrial) -> None:
        """Let a trial wait."""
        ...

    def take_over(self, trial: SearchTrial, source: SearchTrial, changes: Mapping[str, Any]) -> None:
        """Let a trial go on from where another is, with changed parameters."""
        ...


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

    def __init__(self, search: PopulationSearch, members: Mapping[SearchTrial, _Member]) -> None:
        self._search, self._members = search, members

    def get_trials(self) -> list[_Member]:
        return [self._members[trial] for trial in self._search.get_trials()]

    def get_live_trials(self) -> set[_Member]:
        return set(self.get_trials())

    def pause_trial(self, member: _Member, should_checkpoint: bool = True) -> None:
        self._search.pause_trial(member.trial)

    def _schedule_trial_save(self, member: _Member, result: Any = None) -> SimpleNamespace:
        return member.checkpoint


class PopulationScheduler:
    """Tune's `PopulationBasedTraining`, all trials in step, with random numbers of its own.

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

    def on_trial_add(self, search: PopulationSearch, trial: SearchTrial) -> None:
        """Take a new trial."""
        names = search.changeable
        if self._scheduler is None:
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
        self._scheduler.on_trial_add(_MemberController(search, self._members), self._members[trial])

    def on_trial_result(self, search: PopulationSearch, trial: SearchTrial, result: dict[str, Any]) -> str:
        """Wait for the others, or let the worst take over the best; return what becomes of the trial."""
        assert self._scheduler is not None
        self._decisions += 1
        controller = _MemberController(search, self._members)
        with self._random_numbers():
            decision = self._scheduler.on_trial_result(controller, self._members[trial], result)
        for member in self._members.values():
            source = member.taken_over()
            if source is not None:
                search.take_over(member.trial, source, member.config)
        return str(decision)

    def on_trial_complete(self, search: Any, trial: SearchTrial, result: dict[str, Any]) -> None:
        """Do nothing."""

    def on_trial_error(self, search: Any, trial: SearchTrial) -> None:
        """Do nothing."""

    def on_trial_remove(self, search: Any, trial: SearchTrial) -> None:
        """Do nothing."""

    def choose_trial_to_run(self, search: PopulationSearch) -> SearchTrial | None:
        """Return the trial to run next, or None."""
        if self._scheduler is None:
            return None
        member = self._scheduler.choose_trial_to_run(_MemberController(search, self._members))
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
