"""Running an adaptive search through Tune: a searcher, a scheduler and a trainable of its own interfaces.

Each configuration is a trial that reports its objective. `LockstepSearch` decides, with Optuna and one of
Tune's schedulers, which trials there are and how far each goes; here Tune carries that out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray import tune
from ray.tune import Stopper
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from gridtune.core.cells import CellResult
from gridtune.sweep.actors import ActorSettings, SimulatorActor
from gridtune.sweep.adaptive import AdaptiveQueue
from gridtune.sweep.driver import Busy, Sink
from gridtune.sweep.placement import Crew
from gridtune.sweep.tuner import death_of, run_tuner
from gridtune.sweep.tuning.driver import Assignment, SearchDriver
from gridtune.sweep.tuning.lockstep import objective_means

__all__ = ["ConfigurationActor", "LockstepScheduler", "LockstepSearcher", "execute_search"]


class ConfigurationActor(SimulatorActor):
    """Runs the cells of one step of a configuration, and reports the objective when it has them all."""

    def setup(self, config: dict[str, Any], settings: ActorSettings | None = None) -> None:
        """Get ready to run cells, and take the first trial."""
        super().setup(config, settings)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take another trial."""
        self.assign(new_config["assignment"])
        # What Tune gets back with every result.
        self.config = {name: value for name, value in new_config.items() if name != "assignment"}
        return True

    def assign(self, assignment: Assignment) -> None:
        """Take the next assignment of a trial."""
        self._assignment = assignment
        self._known: dict[str, CellResult] = dict(assignment.earlier)
        self.take(assignment.block)

    def step(self) -> dict[str, Any]:
        """Run cells for about half a second; see `SimulatorActor.step`."""
        report = super().step()
        self._known.update({result.cell_id: result for result in report["results"]})
        assignment = self._assignment
        if all(cell.cell_id in self._known for cell in assignment.judged):
            means = objective_means(assignment.judged, self._known, assignment.metrics)
            report |= dict(zip(assignment.metrics, means or (), strict=False)) | {"step": assignment.step}
        return report


class LockstepSearcher(Searcher):
    """Suggests the configurations of an adaptive search; it is given results by the driver, in its order."""

    def __init__(self, driver: SearchDriver) -> None:
        super().__init__()
        self._driver = driver

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """Accept the objective: it is the search's own."""
        self._metric, self._mode = metric, mode
        return True

    def suggest(self, trial_id: str) -> Any:
        """Return a trial's configuration, None for "not now", or that there is nothing more."""
        config = self._driver.suggest(trial_id)
        if config is not None:
            return config
        return Searcher.FINISHED if self._driver.over else None

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """Do nothing: results are used in the search's order, not in that of their arrival."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: the journal is the truth."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing: the journal is the truth."""


class LockstepScheduler(FIFOScheduler):
    """Carries out what the search decides: trials go on, pause and end at their turn."""

    def __init__(self, driver: SearchDriver) -> None:
        super().__init__()
        self._driver = driver

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Accept the objective: it is the search's own."""
        self._metric = metric
        return True

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Take results; return what becomes of the trial."""
        unfit = result.get("unfit")
        if unfit is not None and not self._driver.unfit(trial.trial_id, unfit):
            return str(self.STOP if self._driver.over else self.CONTINUE)
        action = self._driver.received(trial, result.get("results", ()), int(result["left"]))
        if action == "PAUSE":
            # There is nothing to save: the trial's next configuration says what is left.
            tune_controller.pause_trial(trial, should_checkpoint=False)
            return str(self.NOOP)
        return action

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """End paused trials that the search has ended, and return the one that goes on."""
        for trial in self._driver.abandoned():
            tune_controller.stop_trial(trial)
        return self._driver.resumed()


class _Hooks(tune.Callback):
    """Passes on starts and deaths, and keeps results out of what Tune remembers."""

    def __init__(self, driver: SearchDriver) -> None:
        self._driver = driver

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._driver.started(trial.trial_id)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        result.pop("results", None)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._driver.died(trial.trial_id, death_of(trial))


class _Stop(Stopper):
    """Ends the experiment when the driver cannot go on."""

    def __init__(self, driver: SearchDriver) -> None:
        self._driver = driver

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._driver.fault is not None


def execute_search(
    queue: AdaptiveQueue,
    settings: ActorSettings,
    *,
    sink: Sink,
    busy: Busy,
    crew: Crew,
    scratch: Path,
) -> tune.ExperimentAnalysis:
    """Run an adaptive search to its end, on the Ray that is connected.

    The parameters are those of `gridtune.sweep.execution.execute`. No more workers are used than the search
    has configurations at once.

    Returns
    -------
    ray.tune.ExperimentAnalysis
        Tune's trials with their objectives.

    Raises
    ------
    SweepError
        If workers keep dying.
    """
    objectives, directions = queue.search.metrics, queue.search.directions
    driver = SearchDriver(
        queue,
        metrics=objectives,
        sink=sink,
        busy=busy,
        crew=crew,
        timeout=settings.timeout,
    )
    trainable = tune.with_resources(
        tune.with_parameters(ConfigurationActor, settings=settings),
        tune.PlacementGroupFactory(crew.needs.bundles),
    )
    return run_tuner(
        driver,
        trainable,
        LockstepSearcher(driver),
        hooks=_Hooks(driver),
        stop=_Stop(driver),
        name="search",
        scratch=scratch,
        metric=objectives[0],
        mode=directions[0],
        scheduler=LockstepScheduler(driver),
        reuse_actors=True,
    )
