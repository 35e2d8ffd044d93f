"""Running a sweep's cells: Ray runs the actors, Tune drives them, this process writes.

Each worker is a trial of Tune and runs block after block; results come back every half second and are in the
journal before anything else sees them. What Tune itself writes is thrown away.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray import tune
from ray.tune import Stopper
from ray.tune.search import Searcher

from gridtune.sweep.execution.blocks import BlockQueue
from gridtune.sweep.execution.driver import Busy, Sink, SweepDriver
from gridtune.sweep.execution.placement import Crew
from gridtune.sweep.execution.workers import ActorSettings, SimulatorActor
from gridtune.sweep.search.adaptive import AdaptiveQueue
from gridtune.sweep.search.tuning import death_of, execute_search, run_tuner

__all__ = [
    "execute",
]


class _Search(Searcher):
    """Asks Tune for one worker after another; each is a trial without a configuration."""

    def __init__(self, driver: SweepDriver) -> None:
        super().__init__()
        self._driver = driver

    def suggest(self, trial_id: str) -> Any:
        """Return a trial's configuration, None for "not now", or that there is nothing more."""
        if self._driver.wants(trial_id):
            return {}
        return Searcher.FINISHED if self._driver.over else None

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """Do nothing: `_Hooks` gets results and deaths."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: the journal is the truth."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing: the journal is the truth."""


class _Hooks(tune.Callback):
    """Hears of results and deaths, and hands out blocks."""

    def __init__(self, driver: SweepDriver) -> None:
        self._driver = driver

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        if result.get("unfit"):
            self._driver.unfit(trial.trial_id, result["unfit"])
            return
        # Tune keeps the last result of every trial; the cells in it are in the journal.
        results = result.pop("results", ())
        block = self._driver.received(trial.trial_id, results, int(result["left"]))
        if block is not None:
            # Calls of an actor are run in their order: this one comes before the trial's next step.
            trial.temporary_state.ray_actor.take.remote(block, self._driver.report_seconds)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._driver.died(trial.trial_id, death_of(trial))


class _Stop(Stopper):
    """Ends all trials when there is nothing more to run, or the driver cannot go on."""

    def __init__(self, driver: SweepDriver) -> None:
        self._driver = driver

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return self._driver.over

    def stop_all(self) -> bool:
        return self._driver.over


def execute(
    queue: BlockQueue,
    settings: ActorSettings,
    *,
    sink: Sink,
    busy: Busy,
    crew: Crew,
    scratch: Path,
) -> None:
    """Run everything a queue deals out, on the Ray that is connected.

    Parameters
    ----------
    queue
        Deals out blocks of cells.
    settings
        What every actor is given; its workloads are in the object store.
    sink
        Called with results in the order they come, in this thread.
    busy
        Called with the number of busy workers when it changes.
    crew
        How many actors there are to be at once, and what each occupies.
    scratch
        Folder for what Tune writes; emptied before and removed afterwards.

    Raises
    ------
    SweepError
        If workers keep dying.
    """
    if isinstance(queue, AdaptiveQueue):
        execute_search(queue, settings, sink=sink, busy=busy, crew=crew, scratch=scratch)
        return
    driver = SweepDriver(queue, sink=sink, busy=busy, crew=crew)
    actor = tune.with_parameters(SimulatorActor, settings=settings)
    trainable = tune.with_resources(actor, tune.PlacementGroupFactory(crew.needs.bundles))
    run_tuner(
        driver,
        trainable,
        _Search(driver),
        hooks=_Hooks(driver),
        stop=_Stop(driver),
        name="blocks",
        scratch=scratch,
    )
