"""The run of Tune that exhaustive sweeps and adaptive searches share: nothing kept, nothing printed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Protocol

from ray import tune
from ray.tune import Stopper

from gridtune.errors import SweepError
from gridtune.sweep.cluster import environment

__all__ = ["TuneDriver", "death_of", "run_tuner"]


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


def run_tuner(
    driver: TuneDriver,
    trainable: Any,
    config: tune.TuneConfig,
    *,
    hooks: tune.Callback,
    stop: Stopper,
    name: str,
    scratch: Path,
) -> tune.ResultGrid:
    """Run Tune until nothing is left; return its trials.

    Parameters
    ----------
    driver
        Decides on the trials.
    trainable, config, hooks, stop
        Tune's own.
    name
        Of the experiment, in messages of Tune.
    scratch
        Folder for what Tune writes; emptied before and removed afterwards.

    Raises
    ------
    SweepError
        If Tune ends with cells left to run; or whatever the driver has met.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    # The driver limits the trials; Tune by itself would have one waiting.
    with environment({"TUNE_MAX_PENDING_TRIALS_PG": str(_MOST_TRIALS)}):
        tuner = tune.Tuner(
            trainable,
            tune_config=config,
            run_config=tune.RunConfig(
                name=name,
                storage_path=str(scratch.resolve()),
                callbacks=[hooks, _Follow(driver)],
                checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
                stop=stop,
                verbose=0,
            ),
        )
        try:
            results = tuner.fit()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    if driver.fault is not None:
        raise driver.fault
    if driver.queue.left:
        raise SweepError(f"Tune ended with {driver.queue.left} cells left to run")
    return results
