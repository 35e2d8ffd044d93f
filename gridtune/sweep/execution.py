"""Running a sweep's cells: Ray runs the actors, Tune drives them, this process writes.

Cells go out in blocks, each a trial of Tune; results come back every half second and are in the journal
before anything else sees them. What Tune itself writes is thrown away.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray import tune
from ray.tune import Stopper
from ray.tune.search import Searcher

from gridtune.sweep.actors import ActorSettings, SimulatorActor
from gridtune.sweep.adaptive import AdaptiveQueue
from gridtune.sweep.blocks import BlockQueue
from gridtune.sweep.driver import Busy, Sink, SweepDriver
from gridtune.sweep.placement import Crew
from gridtune.sweep.tuner import death_of, run_tuner
from gridtune.sweep.tuning.execution import execute_search

__all__ = ["execute"]


class _Search(Searcher):
    """Hands Tune one block after another."""

    def __init__(self, driver: SweepDriver) -> None:
        super().__init__()
        self._driver = driver

    def suggest(self, trial_id: str) -> Any:
        """Return a trial's configuration, None for "not now", or that there is nothing more."""
        block = self._driver.suggest(trial_id)
        if block is not None:
            return {"block": block}
        return Searcher.FINISHED if self._driver.over else None

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """Do nothing: `_Hooks` gets results and deaths."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: the journal is the truth."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing: the journal is the truth."""


class _Hooks(tune.Callback):
    """Hears of starts, results and deaths."""

    def __init__(self, driver: SweepDriver) -> None:
        self._driver = driver

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._driver.started(trial.trial_id)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        # Tune keeps the last result of every trial; the cells in it are in the journal.
        results = result.pop("results", ())
        self._driver.received(trial.trial_id, results, ended=bool(result.get("done")))

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._driver.died(trial.trial_id, death_of(trial))


class _Stop(Stopper):
    """Ends trials, and the experiment when the driver cannot go on; asked before `_Hooks` gets a result."""

    def __init__(self, driver: SweepDriver) -> None:
        self._driver = driver

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        unfit = result.get("unfit")
        if unfit is not None and not self._driver.unfit(trial_id, unfit):
            return self._driver.over
        return self._driver.should_end(trial_id, int(result["left"]), len(result["results"]))

    def stop_all(self) -> bool:
        return self._driver.fault is not None


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
    driver = SweepDriver(queue, sink=sink, busy=busy, crew=crew, timeout=settings.timeout)
    actor = tune.with_parameters(SimulatorActor, settings=settings)
    trainable = tune.with_resources(actor, tune.PlacementGroupFactory(crew.needs.bundles))
    config = tune.TuneConfig(search_alg=_Search(driver), num_samples=-1, reuse_actors=True)
    run_tuner(
        driver, trainable, config, hooks=_Hooks(driver), stop=_Stop(driver), name="blocks", scratch=scratch
    )
