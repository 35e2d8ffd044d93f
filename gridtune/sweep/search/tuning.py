"""What the driver decides while Tune runs an adaptive search: which trial runs when, and on which worker.

A configuration is a trial of Tune. When its worker has run a step, the trial goes on with the next one if the
search says so already; else it is paused, or ends, as soon as another trial can take its worker over. Until
then the worker idles: Tune ends a worker that it has no use for at once, and a new one takes seconds. A trial
whose worker died begins again as another trial of Tune.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import ray
import ray.util.client
from ray import tune
from ray.train._internal import storage
from ray.tune import Stopper
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from gridtune.core.cells import Cell, CellResult
from gridtune.errors import SweepError
from gridtune.sweep.execution.blocks import Block
from gridtune.sweep.execution.cluster import environment
from gridtune.sweep.execution.driver import (
    Busy,
    Sink,
    death_text,
    is_of_node,
    no_worker_is_fit,
    too_many_deaths,
)
from gridtune.sweep.execution.placement import Crew
from gridtune.sweep.execution.workers import ActorSettings, SimulatorActor
from gridtune.sweep.search.adaptive import AdaptiveQueue, objective_means
from gridtune.sweep.search.schedulers import SearchTrial

__all__ = [
    "Action",
    "Assignment",
    "ConfigurationActor",
    "LockstepScheduler",
    "LockstepSearcher",
    "SearchDriver",
    "TuneDriver",
    "death_of",
    "execute_search",
    "run_tuner",
]

#: Seconds that trials keep their workers for one that is starting; on a full cluster it may never start.
_PATIENCE_SECONDS = 30.0

#: What becomes of a trial of Tune: its worker goes on (or idles), it pauses, or it ends.
Action = Literal["CONTINUE", "PAUSE", "STOP"]


@dataclass(frozen=True, repr=False)
class Assignment:
    """What a trial's worker is to run, and what its objective is made of.

    Attributes
    ----------
    block
        The cells.
    judged
        The cells whose mean is the objective when the block is finished.
    earlier
        Results of those that are not in the block.
    metrics
        The objectives' metrics.
    step
        The number of the step, from 1.
    """

    block: Block
    judged: Sequence[Cell]
    earlier: Mapping[str, CellResult]
    metrics: Sequence[str]
    step: int

    def __repr__(self) -> str:
        # Tune writes it into trial names.
        return f"{self.block}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Tune copies what it is given; an assignment never changes.
        return self


@dataclass
class _Run:
    """A trial of Tune that has work: its block, and when its worker was last heard of."""

    block: Block
    heard: float | None = None


class SearchDriver:
    """The driver's side of an adaptive search.

    Parameters
    ----------
    queue
        The search.
    metrics
        The objectives' metrics.
    sink
        Takes results; what it raises ends the sweep.
    busy
        Called with the number of busy workers when it changes.
    crew
        How many workers there are to be; no more are used than the search has configurations at once.
    timeout
        Seconds a cell may take, or None.
    """

    def __init__(
        self,
        queue: AdaptiveQueue,
        *,
        metrics: Sequence[str],
        sink: Sink,
        busy: Busy,
        crew: Crew,
        timeout: float | None,
    ) -> None:
        self.queue = queue
        self.fault: BaseException | None = None
        self.crew = crew
        self._metrics, self._sink, self._busy = tuple(metrics), sink, busy
        self._timeout = timeout
        self._runs: dict[str, _Run] = {}
        self._paused: dict[SearchTrial, Any] = {}
        #: The block that runs next; it goes to a paused trial or a new one.
        self._next: Block | None = None
        #: Workers that trials have left and no trial has taken over.
        self._free = 0
        self._complete = False
        self._waiting_since: float | None = None
        #: Trials of Tune whose worker cannot run cells, and why.
        self._unfit: dict[str, str] = {}

    def __reduce__(self) -> tuple[type[object], tuple[()]]:
        # Tune pickles itself with all its hooks, for a restart that the journal makes needless.
        return (object, ())

    @property
    def _workers(self) -> int:
        return max(1, min(self.crew.workers - len(self._unfit), self.queue.search.parallel))

    def follow(self) -> None:
        """Take notice of nodes that have joined or left."""
        self.crew.follow()

    @property
    def over(self) -> bool:
        """Whether there is nothing more to run."""
        return self.fault is not None or self.queue.left == 0

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
        most = self.crew.trials(self._workers) if self._complete else self._workers
        if self._next is None and not self.over and len(self._runs) < most:
            self._next = self.queue.take(without=self._live)
        return self._next

    @property
    def _live(self) -> set[SearchTrial]:
        """The search's trials whose worker goes on with them."""
        return {self.queue.trial_of(run.block) for run in self._runs.values()}

    def _begin(self, trial_id: str, block: Block) -> dict[str, Any]:
        self._runs[trial_id] = _Run(block)
        trial, results = self.queue.trial_of(block), self.queue.results
        judged = self.queue.search.judged(trial)
        earlier = {cell.cell_id: results[cell.cell_id] for cell in judged if cell.cell_id in results}
        step = trial.finished_steps + 1
        return {**trial.point, "assignment": Assignment(block, judged, earlier, self._metrics, step)}

    def started(self, trial_id: str) -> None:
        """Note that a trial has its worker."""
        self._runs[trial_id].heard = time.monotonic()
        self._free = max(0, self._free - 1)
        self._waiting_since = None
        if self._started >= self._workers:
            self._complete = True
        self._busy(self._started)

    @property
    def _started(self) -> int:
        return sum(run.heard is not None for run in self._runs.values())

    def received(self, trial: Any, results: Sequence[CellResult], left: int) -> Action:
        """Take a trial's results; return what becomes of it.

        Parameters
        ----------
        trial
            The trial of Tune.
        results
            Results of its block.
        left
            Cells of the block that it has not run.
        """
        run = self._runs.get(trial.trial_id)
        if run is None:
            return "STOP"
        run.heard = time.monotonic()
        self.queue.report(run.block.number, results)
        self._pass_on(results)
        search_trial = self.queue.trial_of(run.block)
        if not self.over and (left or self._goes_on(trial, search_trial) or not self._may_leave()):
            return "CONTINUE"
        self.queue.recall(run.block.number)
        self._forget(trial.trial_id)
        self._free += 1
        if self.over or self._needs_no_more(search_trial) or search_trial in self._paused:
            return "STOP"
        self._paused[search_trial] = trial
        return "PAUSE"

    def unfit(self, trial_id: str, reason: str) -> bool:
        """Take a worker's reason for not being able to run cells; see `SweepDriver.unfit`."""
        if not reason:
            self._unfit.pop(trial_id, None)
            return True
        if trial_id in self._runs:
            self.queue.recall(self._runs[trial_id].block.number)
            self._forget(trial_id)
        self._unfit[trial_id] = reason
        if len(self._unfit) >= self.crew.workers:
            self.fault = self.fault or no_worker_is_fit(self._unfit.values())
        return False

    def _goes_on(self, trial: Any, search_trial: SearchTrial) -> bool:
        """Give a trial's worker the next step, if it has come to that; return whether it has."""
        block = self.queue.take_of(search_trial)
        if block is None:
            return False
        assignment = self._begin(trial.trial_id, block)["assignment"]
        self._runs[trial.trial_id].heard = time.monotonic()
        # Calls of an actor are run in their order: this one comes before the trial's next step.
        trial.temporary_state.ray_actor.assign.remote(assignment)
        return True

    def _needs_no_more(self, trial: SearchTrial) -> bool:
        """Return whether a trial has run all its steps; the last one's turn may be still to come."""
        last = trial.status == "RUNNING" and trial.finished_steps == len(trial.steps) - 1
        return trial.ended or (last and not self.queue.missing(trial))

    def _may_leave(self) -> bool:
        """Return whether a trial that is done may leave its worker."""
        if self._started < min(self._workers, len(self._runs)) and self._patient():
            return False
        starting = len(self._runs) - self._started
        return starting + self.queue.pieces(self._live) + (self._next is not None) > self._free

    def _patient(self) -> bool:
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since >= _PATIENCE_SECONDS:
            self._complete = True
            return False
        return True

    def died(self, trial_id: str, error: str | None) -> None:
        """Take notice of a worker's death."""
        self._unfit.pop(trial_id, None)
        if trial_id not in self._runs:
            return
        run, now = self._runs[trial_id], time.monotonic()
        text = death_text(error)
        self._forget(trial_id)
        if run.heard is None or is_of_node(error):
            self.queue.lose_start(run.block.number)
        else:
            elapsed = now - run.heard
            self._pass_on(self.queue.worker_died(run.block.number, elapsed=elapsed, error=text))
        self.fault = self.fault or too_many_deaths(self.queue.deaths_in_a_row, self.crew.most, text)

    def _forget(self, trial_id: str) -> None:
        self._runs.pop(trial_id, None)
        self._busy(self._started)

    def _pass_on(self, results: Sequence[CellResult]) -> None:
        if not results:
            return
        try:
            self._sink(results)
            self.queue.note(results)
        except Exception as fault:
            # Tune would take an error in a hook for the trial's; it is kept and raised when Tune is out.
            self.fault = self.fault or fault


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

    The parameters are those of `gridtune.sweep.execution.loop.execute`. No more workers are used
    than the search has configurations at once.

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


#: More trials than any cluster runs at once.
_MOST_TRIALS = 100_000


class TuneDriver(Protocol):
    """What decides on trials, and how its run ends."""

    fault: BaseException | None

    def follow(self) -> None:
        """Take notice of nodes that have joined or left."""
        ...

    @property
    def queue(self) -> Any:
        """The queue of cells."""
        ...


def death_of(trial: Any) -> str | None:
    """Return what Ray says about the death of a trial's worker; None if it says nothing.

    Tune writes it into a file for the trial before anybody hears of it; its own accessors look for the file
    where it is copied to later.
    """
    try:
        return Path(trial.error_file).read_text(encoding="utf-8").rpartition("Failure #")[2]
    except (OSError, TypeError):
        return None


class _Follow(tune.Callback):
    """Lets the driver look at the cluster, in Tune's own thread."""

    def __init__(self, driver: TuneDriver) -> None:
        self._driver = driver

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self._driver.follow()


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


def run_tuner(
    driver: TuneDriver,
    trainable: Any,
    search: Searcher,
    *,
    hooks: tune.Callback,
    stop: Stopper,
    name: str,
    scratch: Path,
    **options: Any,
) -> tune.ExperimentAnalysis:
    """Run Tune until nothing is left; return its trials.

    Parameters
    ----------
    driver
        Decides on the trials.
    trainable, search, hooks, stop
        Tune's own.
    name
        Of the experiment, in messages of Tune.
    scratch
        Folder for what Tune writes; emptied before and removed afterwards.
    options
        As of `ray.tune.run`.

    Raises
    ------
    SweepError
        If Tune ends with cells left to run; or whatever the driver has met.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    over_client = ray.util.client.ray.is_connected()
    # The driver limits the trials; Tune by itself would have one waiting.
    with environment({"TUNE_MAX_PENDING_TRIALS_PG": str(_MOST_TRIALS)}), _files_here(scratch):
        try:
            analysis = tune.run(
                trainable,
                name=name,
                search_alg=search,
                num_samples=-1,
                storage_path=str(scratch.resolve()),
                callbacks=[hooks, _Follow(driver)],
                checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
                stop=stop,
                raise_on_failed_trial=False,
                verbose=0,
                # Over Ray Client too, Tune runs here, where the journal is.
                _remote=False,
                **options,
            )
        except Exception as fault:
            # What Ray Client raises when its connection is gone is a bare Exception at most places.
            if not over_client or ray.util.client.ray.is_connected():
                raise
            raise SweepError(
                f"the connection to the cluster is gone: {fault}",
                hint="nothing that was finished is lost; the same command goes on when the cluster answers",
            ) from None
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    if driver.fault is not None:
        raise driver.fault
    if driver.queue.left:
        raise SweepError(f"Tune ended with {driver.queue.left} cells left to run")
    return analysis
