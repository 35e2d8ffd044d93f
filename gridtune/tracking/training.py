"""`TrainingTracker`: follows one training into a tracking store while it goes on.

Any loop that trains can use it: it knows nothing of how an agent is trained. Points and checkpoints are
sent by a thread of its own, so a store that is slow or away holds up nothing.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gridtune.errors import without_secrets
from gridtune.network import network_reason
from gridtune.tracking.checkpoints import CHECKPOINTS
from gridtune.tracking.content import clean_name, clean_text, user_tags
from gridtune.tracking.outbox import Outbox
from gridtune.tracking.records import (
    RUNNING,
    Experiment,
    Point,
    RunChange,
    RunStore,
    StoredRun,
    now_milliseconds,
)
from gridtune.tracking.runs import open_experiment
from gridtune.tracking.store import artifact_root, open_store, tracking_uri

__all__ = ["TrainingOutcome", "TrainingTracker"]

_KEY_TAG, _STEP_TAG = "gridtune.training", "gridtune.step"
_KEY_FILE = "tracking.json"


@dataclass(frozen=True)
class TrainingOutcome:
    """How the tracking of a training ended.

    Attributes
    ----------
    uri
        The store, without a password.
    run_id
        Of the training's run; "" where the store was never reached.
    unsent
        Names of what could not be sent.
    fault
        Why, or None.
    """

    uri: str
    run_id: str
    unsent: tuple[str, ...] = ()
    fault: BaseException | None = None

    def checkpoint(self, name: str) -> str:
        """Return the URI of a checkpoint, as systems take it (`checkpoint=runs:/…`)."""
        return f"runs:/{self.run_id}/{CHECKPOINTS}/{name}"


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
        self._uri = tracking_uri(uri)
        self._patience = patience
        self._experiment: Experiment | None = None
        self._run: StoredRun | None = None
        shown = without_secrets(self._uri)

        def warn(fault: BaseException) -> None:
            if on_trouble is not None:
                reason = network_reason(fault)
                on_trouble(f"the tracking store {shown} cannot be reached, the training goes on: {reason}")

        self._outbox = Outbox(lambda: open_store(self._uri), warn)
        key, at = _key(Path(folder)), now_milliseconds()
        texts = {clean_name(name): clean_text(str(value)) for name, value in parameters.items()}

        def begin(store: RunStore) -> None:
            self._experiment = open_experiment(store, experiment, artifact_root(self._uri))
            found = store.find_runs(self._experiment, _KEY_TAG, key)
            tags = user_tags(experiment) | {_KEY_TAG: key, "gridtune.kind": "training"}
            change = RunChange(
                name, found[0] if found else None, start=at, tags=tags, parameters=texts, status=RUNNING
            )
            (self._run,) = store.write(self._experiment, [change])

        self._outbox.put("the training's run", begin)

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
            Name to value; what is no finite number is left out.
        """
        at = now_milliseconds()
        values = {
            clean_name(name): float(value)
            for name, value in metrics.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        }

        def send(store: RunStore) -> None:
            experiment, run = self._opened()
            if step <= int(run.tags.get(_STEP_TAG, -1)):
                return
            points = [Point(name, value, step, at) for name, value in values.items()]
            change = RunChange(run.name, run, tags={_STEP_TAG: str(step)}, points=points)
            (self._run,) = store.write(experiment, [change])

        self._outbox.put(f"step {step}", send)

    def checkpoint(self, path: str | Path) -> None:
        """Store a checkpoint under its file's name, in the place of an earlier one of that name."""
        file = Path(path)
        self._outbox.put(
            f"the checkpoint {file.name}", lambda store: store.upload(self._opened()[1], file, CHECKPOINTS)
        )

    def close(self, status: str = "FINISHED") -> TrainingOutcome:
        """End the run and wait until everything is sent.

        Parameters
        ----------
        status
            FINISHED, FAILED or KILLED.
        """
        at = now_milliseconds()

        def end(store: RunStore) -> None:
            experiment, run = self._opened()
            store.write(experiment, [RunChange(run.name, run, status=status, end=at)])

        self._outbox.put("the end of the training's run", end)
        self._outbox.drain(self._patience)
        outcome = TrainingOutcome(
            uri=without_secrets(self._uri),
            run_id=self._run.run_id if self._run is not None else "",
            unsent=tuple(self._outbox.unsent),
            fault=self._outbox.fault,
        )
        self._outbox.close()
        return outcome

    def _opened(self) -> tuple[Experiment, StoredRun]:
        assert self._experiment is not None
        assert self._run is not None
        return self._experiment, self._run


def _key(folder: Path) -> str:
    """Return the key of the training in a folder, made up the first time: another folder is another run."""
    file = folder / _KEY_FILE
    if file.exists():
        return str(json.loads(file.read_text(encoding="utf-8"))["training"])
    folder.mkdir(parents=True, exist_ok=True)
    key = uuid.uuid4().hex
    file.write_text(json.dumps({"training": key}) + "\n", encoding="utf-8")
    return key
