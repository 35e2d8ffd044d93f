"""`TrainingTracker`: follows one training into a tracking store while it goes on.

Any loop that trains can use it. A separate thread sends points and checkpoints, so a store that is slow or
unreachable delays nothing.
"""

from __future__ import annotations

import json
import math
import tarfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from gridtune.storage import draft_of
from gridtune.tracking.checkpoints import CHECKPOINT_ARCHIVE, CHECKPOINTS
from gridtune.tracking.runs import RootRun, clean_name
from gridtune.tracking.tracked import RunOutbox, TrackedRun

_KEY_FILE = "tracking.json"


class TrainingTracker:
    """Tracks a training; one that continues in the same folder goes on in the same run.

    Parameters
    ----------
    experiment, name
        The experiment's name, and what the run is called.
    folder
        The training's folder; it gets a file with the key by which the run is found again.
    parameters
        Of the training.
    uri
        The tracking store; by default that of the environment, else SQLite in the working directory.
    patience
        Seconds of nothing but failures after which `close` no longer waits for the store.
    on_trouble
        Called with a sentence when the store cannot be reached.

    Attributes
    ----------
    outcome
        The run, and what could not be sent; None before it is closed.
    """

    def __init__(
        self,
        experiment: str,
        name: str,
        folder: str | Path,
        *,
        parameters: Mapping[str, Any],
        uri: str | None = None,
        patience: float = 30.0,
        on_trouble: Callable[[str], None] | None = None,
    ) -> None:
        self._folder, self._patience = Path(folder), patience
        self.outcome: TrackedRun | None = None
        self._outbox = RunOutbox(uri, on_trouble, "training")
        texts = {name: str(value) for name, value in parameters.items()}
        root = RootRun(experiment, "training", self._key(), name, parameters=texts)
        self._outbox.open("the training's run", root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        ended = kind is not None and issubclass(kind, KeyboardInterrupt | SystemExit)
        self.close("FINISHED" if kind is None else "KILLED" if ended else "FAILED")

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Add a point to the learning curves; a step that the run has already is left out.

        Parameters
        ----------
        step
            The update's number, ascending.
        metrics
            Name to value; values that are not finite are left out.
        """
        at = int(time.time() * 1000)
        values = {
            clean_name(name): float(value)
            for name, value in metrics.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        }
        self._outbox.put(f"step {step}", lambda runs: runs.log_step(step, values, at))

    def checkpoint(self, path: str | Path) -> None:
        """Store a checkpoint under its file's name, in the place of an earlier one of that name."""
        file = Path(path).resolve()
        self._outbox.put(f"the checkpoint {file.name}", lambda runs: runs.upload(file, CHECKPOINTS))

    def pack(self, folder: str | Path) -> None:
        """Store a folder with all that the training needs to go on, in the place of an earlier one."""
        archive = self._folder / CHECKPOINT_ARCHIVE
        with draft_of(archive) as draft, tarfile.open(draft, "w:gz") as packed:
            packed.add(folder, arcname="")
        self.checkpoint(archive)

    def close(self, status: str = "FINISHED") -> TrackedRun:
        """End the run and wait until everything is sent.

        Parameters
        ----------
        status
            FINISHED, FAILED or KILLED.
        """
        self._outbox.end("the end of the training's run", status, int(time.time() * 1000))
        self.outcome = self._outbox.finish(self._patience)
        (self._folder / CHECKPOINT_ARCHIVE).unlink(missing_ok=True)
        return self.outcome

    def _key(self) -> str:
        """Return the key of the training in the folder: another folder is another run."""
        file = self._folder / _KEY_FILE
        if file.exists():
            return str(json.loads(file.read_text(encoding="utf-8"))["training"])
        key = uuid.uuid4().hex
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"training": key}) + "\n", encoding="utf-8")
        return key
