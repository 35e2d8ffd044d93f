"""The run of Tune that exhaustive sweeps and adaptive searches share: nothing kept, nothing printed."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import ray
import ray.util.client
from ray import tune
from ray.train._internal import storage
from ray.tune import Stopper
from ray.tune.search import Searcher

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
