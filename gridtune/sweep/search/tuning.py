"""Running an adaptive search through Tune: a searcher, a scheduler and a trainable of its own interfaces.

`LockstepSearch` decides, with Optuna and one of Tune's schedulers, which configurations there are and how far
each goes; here Tune carries that out. A configuration is a trial of Tune that reports its objective. When its
worker has run a step, the trial goes on with the next one if the search says so already; else it is paused,
or ends, as soon as another trial can take its worker over. Until then the worker idles: Tune ends a worker
that it has no use for at once, and a new one takes seconds. A trial whose worker died begins again as another
trial of Tune.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import ray
import ray.util.client
from ray import tune
from ray.train._internal import storage
from ray.tune import Stopper
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from gridtune.errors import SweepError
from gridtune.sweep.execution.blocks import Block, Busy, Driver, Sink
from gridtune.sweep.execution.cluster import client_connection, environment
from gridtune.sweep.execution.crew import Crew
from gridtune.sweep.execution.workers import AGAIN_SECONDS, Simulator, SimulatorSettings
from gridtune.sweep.search.adaptive import AdaptiveQueue
from gridtune.sweep.search.schedulers import SearchTrial

__all__ = ["run_in_tune"]

#: Seconds that trials keep their workers for one that is starting; on a full cluster it may never start.
_PATIENCE_SECONDS = 30.0
#: Seconds of work after which a trial reports.
_STEP_SECONDS = 0.5
#: Seconds between two reports of a worker without cells: the first, and at most.
_IDLE_SECONDS, _LONGEST_IDLE_SECONDS = 0.02, 0.5
#: More trials than any cluster runs at once.
_MOST_TRIALS = 100_000

#: What becomes of a trial of Tune: its worker goes on (or idles), it pauses, or it ends.
Action = Literal["CONTINUE", "PAUSE", "STOP"]


class _ConfigurationTrainable(tune.Trainable):
    """Runs the cells of one step of a configuration.

    A worker that cannot be made ready runs nothing: it says so and keeps its place.
    """

    def setup(self, config: dict[str, Any], settings: SimulatorSettings | None = None) -> None:
        """Get ready to run cells, and take the first trial."""
        assert settings is not None
        self._simulator = Simulator(settings)
        self._unfit, self._tried = self._simulator.prepare(), time.monotonic()
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take another trial."""
        self.assign(new_config["block"])
        # What Tune gets back with every result.
        self.config = {name: value for name, value in new_config.items() if name != "block"}
        return True

    def assign(self, block: Block) -> None:
        """Take the cells of a trial's next step."""
        self._next: Block | None = block
        self._left, self._idle_seconds = len(block.cells), _IDLE_SECONDS

    def step(self) -> dict[str, Any]:
        """Run cells for about half a second; a worker without cells waits until it gets some or is ended."""
        if self._unfit:
            time.sleep(_LONGEST_IDLE_SECONDS)
            if time.monotonic() > self._tried + AGAIN_SECONDS:
                self._unfit, self._tried = self._simulator.prepare(), time.monotonic()
            return {"results": [], "left": self._left, "unfit": self._unfit}
        if not self._left:
            time.sleep(self._idle_seconds)
            self._idle_seconds = min(2 * self._idle_seconds, _LONGEST_IDLE_SECONDS)
        block, self._next = self._next, None
        results, self._left = self._simulator.run(block, _STEP_SECONDS)
        return {"results": results, "left": self._left}


class _SearchDriver(Driver):
    """The driver of trials: which runs when, and on which worker.

    No more workers are used than the search has configurations at once.
    """

    queue: AdaptiveQueue

    def __init__(self, queue: AdaptiveQueue, *, sink: Sink, busy: Busy, crew: Crew) -> None:
        super().__init__(queue, sink=sink, busy=busy, crew=crew)
        #: The objective's metrics after the last step that a trial of Tune has run, by its id.
        self.objectives: dict[str, Mapping[str, float]] = {}
        self._paused: dict[SearchTrial, Any] = {}
        #: The block that runs next; it goes to a paused trial or a new one.
        self._next: Block | None = None
        #: Workers that trials have left and no trial has taken over.
        self._free = 0
        self._complete = False
        self._waiting_since: float | None = None

    def __reduce__(self) -> tuple[type[object], tuple[()]]:
        # Tune pickles itself with all its hooks, for a restart that the journal makes needless.
        return (object, ())

    @property
    def _workers(self) -> int:
        return max(1, min(self.crew.workers - len(self._unfit), self.queue.search.parallel))

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """Return the configuration of a new trial of Tune, or None if there is none now."""
        block = self._peek()
        if block is None or self.queue.trial_of(block) in self._paused:
            return None
        self._next = None
        return self._begin(trial_id, block)

    def resumed(self) -> Any:
        """Return a paused trial of Tune that is to go on, with its new configuration; None without one."""
        block = self._peek()
        trial = None if block is None else self._paused.pop(self.queue.trial_of(block), None)
        if block is not None and trial is not None:
            self._next = None
            trial.set_config(self._begin(trial.trial_id, block))
        return trial

    def abandoned(self) -> list[Any]:
        """Return the paused trials of Tune whose search has ended; they are paused no more."""
        ended = [trial for trial in self._paused if trial.ended or self.over]
        return [self._paused.pop(trial) for trial in ended]

    def _peek(self) -> Block | None:
        # Tune has a trial waiting for each worker, so that none is idle between two, and starts it on a node
        # that joins. Where the cluster has room for more workers than are wanted, it would start one for it.
        doubled = self._complete and self._workers >= self.crew.room
        most = 2 * self._workers if doubled else self._workers
        if self._next is None and not self.over and len(self._runs) < most:
            self._next = self.queue.take(without=self._live)
        return self._next

    @property
    def _live(self) -> set[SearchTrial]:
        """The search's trials whose worker goes on with them."""
        return {self.queue.trial_of(run.block) for run in self._runs.values()}

    def _begin(self, trial_id: str, block: Block) -> dict[str, Any]:
        self.begin(trial_id, block, alive=False)
        return {**self.queue.trial_of(block).point, "block": block}

    def started(self, trial_id: str) -> None:
        """Note that a trial has its worker."""
        self.sign_of_life(trial_id)
        self._free = max(0, self._free - 1)
        self._waiting_since = None
        if self.busy >= self._workers:
            self._complete = True

    def received(self, trial: Any, result: dict[str, Any]) -> Action:
        """Take a trial's report; return what becomes of it."""
        if result.get("unfit"):
            self.unfit(trial.trial_id, result["unfit"])
            return "STOP" if self.over else "CONTINUE"
        self._unfit.pop(trial.trial_id, None)
        run = self._runs.get(trial.trial_id)
        if run is None:
            return "STOP"
        search_trial = self.queue.trial_of(run.block)
        judged = self.queue.search.judged(search_trial)
        self.report(trial.trial_id, result.get("results", ()))
        self.deliver()
        if all(cell.cell_id in self.queue.results for cell in judged):
            search = self.queue.search
            objectives = zip(search.metrics, search.means(judged) or (), strict=False)
            self.objectives[trial.trial_id] = dict(objectives)
        if not self.over and (result["left"] or self._goes_on(trial, search_trial) or not self._may_leave()):
            return "CONTINUE"
        self.release(trial.trial_id)
        self._free += 1
        if self.over or self._needs_no_more(search_trial) or search_trial in self._paused:
            return "STOP"
        self._paused[search_trial] = trial
        return "PAUSE"

    def _goes_on(self, trial: Any, search_trial: SearchTrial) -> bool:
        """Give a trial's worker the next step, if it has come to that; return whether it has."""
        block = self.queue.take_of(search_trial)
        if block is None:
            return False
        self.begin(trial.trial_id, block, alive=True)
        # Calls of an actor are run in their order: this one comes before the trial's next step.
        trial.temporary_state.ray_actor.assign.remote(block)
        return True

    def _needs_no_more(self, trial: SearchTrial) -> bool:
        """Return whether a trial has run all its steps; the last one's turn may be still to come."""
        last = trial.status == "RUNNING" and trial.finished_steps == len(trial.steps) - 1
        return trial.ended or (last and not self.queue.missing(trial))

    def _may_leave(self) -> bool:
        """Return whether a trial that is done may leave its worker."""
        if self.busy < min(self._workers, len(self._runs)) and self._patient():
            return False
        starting = len(self._runs) - self.busy
        return starting + self.queue.pieces(self._live) + (self._next is not None) > self._free

    def _patient(self) -> bool:
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since >= _PATIENCE_SECONDS:
            self._complete = True
            return False
        return True

    def died(self, worker: str, error: str | None) -> None:
        """Deal with the death of a trial's worker."""
        if worker in self._runs or worker in self._unfit:
            super().died(worker, error)
            self.deliver()


class _Searcher(Searcher):
    """Suggests the configurations of an adaptive search; it is given results by the driver, in its order."""

    def __init__(self, driver: _SearchDriver) -> None:
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


class _Scheduler(FIFOScheduler):
    """Carries out what the search decides: trials go on, pause and end at their turn."""

    def __init__(self, driver: _SearchDriver) -> None:
        super().__init__()
        self._driver = driver

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Take results; return what becomes of the trial."""
        action = self._driver.received(trial, result)
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


class _Hooks(tune.Callback, Stopper):
    """Passes on starts, deaths and new nodes, and ends the experiment when the driver cannot go on."""

    def __init__(self, driver: _SearchDriver) -> None:
        self._driver = driver

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self._driver.follow()

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._driver.started(trial.trial_id)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        # Tune keeps the last result of every trial; the cells in it are in the journal.
        result.pop("results", None)
        result |= self._driver.objectives.get(trial.trial_id, {})

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        # Tune writes Ray's message into a file for the trial before anybody hears of it; its own accessors
        # look for the file where it is copied to later.
        error = None
        with contextlib.suppress(OSError, TypeError):
            error = Path(trial.error_file).read_text(encoding="utf-8").rpartition("Failure #")[2]
        self._driver.died(trial.trial_id, error)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._driver.fault is not None


def run_in_tune(
    queue: AdaptiveQueue,
    settings: SimulatorSettings,
    *,
    sink: Sink,
    busy: Busy,
    crew: Crew,
    scratch: Path,
) -> tune.ExperimentAnalysis:
    """Run an adaptive search to its end, on the Ray that is connected.

    Parameters
    ----------
    queue, settings, sink, busy, crew
        As of `gridtune.sweep.execution.workers.run_on_ray`.
    scratch
        Folder for Tune's own files; emptied before and removed afterwards.

    Returns
    -------
    ray.tune.ExperimentAnalysis
        Tune's trials with their objectives.

    Raises
    ------
    SweepError
        If workers keep dying, or Tune ends with cells left to run.
    """
    driver = _SearchDriver(queue, sink=sink, busy=busy, crew=crew)
    hooks = _Hooks(driver)
    trainable = tune.with_resources(
        tune.with_parameters(_ConfigurationTrainable, settings=settings),
        tune.PlacementGroupFactory(crew.needs.bundles),
    )
    shutil.rmtree(scratch, ignore_errors=True)
    # The driver limits the trials; Tune by itself would have one waiting.
    trials = environment({"TUNE_MAX_PENDING_TRIALS_PG": str(_MOST_TRIALS)})
    try:
        with trials, _files_here(scratch), client_connection():
            analysis = tune.run(
                trainable,
                name="search",
                metric=queue.search.metrics[0],
                mode=queue.search.directions[0],
                search_alg=_Searcher(driver),
                scheduler=_Scheduler(driver),
                num_samples=-1,
                reuse_actors=True,
                storage_path=str(scratch.resolve()),
                callbacks=[hooks],
                checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
                stop=hooks,
                raise_on_failed_trial=False,
                verbose=0,
                # Over Ray Client too, Tune runs here, where the journal is.
                _remote=False,
            )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if driver.fault is not None:
        raise driver.fault
    if queue.left:
        raise SweepError(f"Tune ended with {queue.left} cells left to run")
    return analysis


@contextlib.contextmanager
def _files_here(scratch: Path) -> Iterator[None]:
    """Have Tune keep its files here over Ray Client, too: it asks for the folder of this machine's node.

    Raises
    ------
    SweepError
        With a Ray whose Tune keeps them otherwise.
    """
    if not ray.util.client.ray.is_connected():
        yield
        return
    name = "_get_ray_train_session_dir"
    usual = getattr(storage, name, None)
    if usual is None:
        raise SweepError(
            f"a sweep cannot be driven over Ray Client with Ray {ray.__version__}",
            hint="send it as a job (scripts/submit SPACE), or run it on a machine of the cluster",
        )
    setattr(storage, name, lambda: str(scratch.resolve() / "session"))
    try:
        yield
    finally:
        setattr(storage, name, usual)
