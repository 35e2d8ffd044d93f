"""The trials of a search, and what passes between a search and one of Tune's schedulers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gridtune.core.cells import Cell
from gridtune.sweep.space.points import Point

__all__ = ["TIME", "Controller", "Scheduler", "SearchTrial"]

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
