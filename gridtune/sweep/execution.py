"""Running a sweep's cells: Ray runs the actors, Tune drives them, this process writes.

Cells go out in blocks, each a trial of Tune; results come back every half second and are in the journal
before anything else sees them. What Tune itself writes is thrown away.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune import Stopper
from ray.tune.search import Searcher

from gridtune.errors import SweepError
from gridtune.sweep.actors import Setting, SimulatorActor
from gridtune.sweep.blocks import BlockQueue
from gridtune.sweep.cells import CellResult
from gridtune.sweep.cluster import environment

__all__ = ["execute"]

#: Characters of what Ray says about a death that are kept.
_ERROR_CHARACTERS = 400
#: Workers that may die one after another, beside two for each worker, before the sweep is given up.
_DEATHS_TOLERATED = 8

#: Takes results as they come.
Sink = Callable[[Sequence[CellResult]], None]
#: Hears how many workers are busy.
Busy = Callable[[int], None]


class _Drive:
    """What Tune's hooks share: the queue, who has which block, and whether to go on."""

    def __init__(
        self,
        queue: BlockQueue,
        *,
        sink: Sink,
        busy: Busy,
        workers: int,
        most_out: int,
        timeout: float | None,
    ) -> None:
        self.queue = queue
        self.fault: BaseException | None = None
        self._sink = sink
        self._busy = busy
        self._workers = workers
        self._most_out = most_out
        self._timeout = timeout
        self._block_of: dict[str, int] = {}
        #: When each running trial last gave a sign of life.
        self._heard: dict[str, float] = {}

    def __reduce__(self) -> tuple[type[object], tuple[()]]:
        # Tune pickles itself with all its hooks, for a restart that the journal makes needless.
        return (object, ())

    @property
    def over(self) -> bool:
        return self.fault is not None or self.queue.left == 0

    def suggest(self, trial_id: str) -> Any:
        """Return a trial's configuration, None for "not now", or that there is nothing more."""
        try:
            block = None if self.over or self.queue.out >= self._most_out else self.queue.take()
        except Exception as fault:
            self.fault = fault
            block = None
        if block is None:
            return Searcher.FINISHED if self.over else None
        self._block_of[trial_id] = block.number
        return {"block": block}

    def started(self, trial_id: str) -> None:
        self._heard[trial_id] = time.monotonic()
        self._busy(len(self._heard))

    def received(self, trial_id: str, results: Sequence[CellResult], done: bool) -> None:
        self._heard[trial_id] = time.monotonic()
        self.queue.report(self._block_of[trial_id], results)
        self._pass_on(results)
        if done:
            self._ended(trial_id)

    def _ended(self, trial_id: str) -> None:
        self._heard.pop(trial_id, None)
        self._busy(len(self._heard))

    def died(self, trial_id: str, error: BaseException | None) -> None:
        now = time.monotonic()
        elapsed = now - self._heard.get(trial_id, now)
        text = " ".join(str(error).split())[:_ERROR_CHARACTERS] if error else "no reason known"
        self._pass_on(self.queue.bury(self._block_of[trial_id], elapsed=elapsed, error=text))
        if self.queue.deaths_in_a_row > _DEATHS_TOLERATED + 2 * self._workers and self.fault is None:
            self.fault = SweepError(
                f"{self.queue.deaths_in_a_row} workers died one after another; the last: {text}",
                hint="what has been finished is kept; `gridtune run` runs a single cell to look at",
            )
        self._ended(trial_id)

    def _pass_on(self, results: Sequence[CellResult]) -> None:
        if not results:
            return
        try:
            self._sink(results)
            self.queue.note(results)
        except Exception as fault:
            # Tune would take an error in a hook for the trial's; it is kept and raised when Tune is out.
            self.fault = self.fault or fault


class _Search(Searcher):
    """Hands Tune one block after another."""

    def __init__(self, drive: _Drive) -> None:
        super().__init__()
        self._drive = drive

    def suggest(self, trial_id: str) -> Any:
        return self._drive.suggest(trial_id)

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """Do nothing: `_Hooks` hears of results and deaths."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: the journal is the truth."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing: the journal is the truth."""


class _Hooks(tune.Callback):
    """Hears of starts, results and deaths."""

    def __init__(self, drive: _Drive) -> None:
        self._drive = drive

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._drive.started(trial.trial_id)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        # Tune keeps the last result of every trial; without this it would keep all cells a second time.
        self._drive.received(trial.trial_id, result.pop("results", ()), bool(result.get("done")))

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._drive.died(trial.trial_id, trial.get_pickled_error() or trial.get_error())


class _Stop(Stopper):
    """Ends the experiment when the drive cannot go on."""

    def __init__(self, drive: _Drive) -> None:
        self._drive = drive

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._drive.fault is not None


def execute(
    queue: BlockQueue,
    setting: Setting,
    *,
    sink: Sink,
    busy: Busy,
    workers: int,
    room: int,
    cpus: float,
    scratch: Path,
) -> None:
    """Run everything a queue deals out, on the Ray that is connected.

    Parameters
    ----------
    queue
        Deals out blocks of cells.
    setting
        What every actor is told; its workloads are in the object store.
    sink
        Called with results in the order they come, in this thread.
    busy
        Called with the number of busy workers when it changes.
    workers
        Actors at once.
    room
        Actors that the cluster has room for.
    cpus
        Processors for each.
    scratch
        Folder for what Tune writes; emptied before and removed afterwards.

    Raises
    ------
    SweepError
        If workers keep dying.
    """
    # Where the cluster has no more room, one block waits for each worker, so that none is idle between two.
    # Where it has, Ray would start another worker for a waiting block.
    most_out = workers if workers < room else 2 * workers
    drive = _Drive(queue, sink=sink, busy=busy, workers=workers, most_out=most_out, timeout=setting.timeout)
    trainable = tune.with_resources(tune.with_parameters(SimulatorActor, setting=setting), {"cpu": cpus})
    shutil.rmtree(scratch, ignore_errors=True)
    with environment({"TUNE_MAX_PENDING_TRIALS_PG": str(most_out)}):
        tuner = tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(search_alg=_Search(drive), num_samples=-1, reuse_actors=True),
            run_config=tune.RunConfig(
                name="blocks",
                storage_path=str(scratch.resolve()),
                callbacks=[_Hooks(drive)],
                checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
                stop=_Stop(drive),
                verbose=0,
            ),
        )
        try:
            tuner.fit()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    if drive.fault is not None:
        raise drive.fault
    if queue.left:
        raise SweepError(f"Tune ended with {queue.left} cells left to run")
