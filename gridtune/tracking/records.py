"""What a tracking store keeps of a run, and the interface that both ways of writing to one share."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

__all__ = [
    "RUNNING",
    "Dataset",
    "Experiment",
    "Point",
    "RunChange",
    "RunStore",
    "StoredRun",
    "now_milliseconds",
]

RUNNING = "RUNNING"


def now_milliseconds() -> int:
    """Return the time as MLflow counts it."""
    return int(time.time() * 1000)


class Point(NamedTuple):
    """One value of a metric; `time` is in milliseconds. Of equal points a store keeps one."""

    name: str
    value: float
    step: int
    time: int


class Dataset(NamedTuple):
    """A workload that a run used, as MLflow names inputs.

    `digest` (at most 36 characters) tells contents apart; `source` and `profile` are JSON.
    """

    name: str
    digest: str
    source: str
    profile: str


@dataclass(frozen=True)
class Experiment:
    """An experiment of a store."""

    experiment_id: str
    name: str
    active: bool
    artifacts: str


@dataclass
class StoredRun:
    """A run as a store has it; `start` is in milliseconds."""

    run_id: str
    name: str
    status: str
    start: int
    artifacts: str
    parameters: dict[str, str]
    tags: dict[str, str]


@dataclass(frozen=True)
class RunChange:
    """What to add to a run; all of it may be there already.

    Attributes
    ----------
    name
        What the run is called from now on.
    run
        The run; None makes one.
    start
        When a new run began, in milliseconds.
    tags
        To set.
    parameters
        To add: a parameter that the run has keeps its value.
    points, datasets
        To add.
    status
        To set, with `end` as the time; None leaves it.
    end
        In milliseconds.
    """

    name: str
    run: StoredRun | None = None
    start: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    points: Sequence[Point] = ()
    datasets: Sequence[Dataset] = ()
    status: str | None = None
    end: int | None = None

    @property
    def new_parameters(self) -> dict[str, str]:
        """The parameters that the run does not have."""
        known = self.run.parameters if self.run is not None else {}
        return {name: value for name, value in self.parameters.items() if name not in known}

    def applied(self, run_id: str, artifacts: str) -> StoredRun:
        """Return the run as it is with this change."""
        run = self.run
        return StoredRun(
            run_id=run_id,
            name=self.name,
            status=self.status or (run.status if run is not None else RUNNING),
            start=run.start if run is not None else self.start,
            artifacts=artifacts,
            parameters={**self.parameters, **(run.parameters if run is not None else {})},
            tags={**(run.tags if run is not None else {}), **self.tags, "mlflow.runName": self.name},
        )


class RunStore(Protocol):
    """A tracking store to write to. Every method may be called twice without harm."""

    def find_experiment(self, name: str) -> Experiment | None:
        """Return the experiment of this name, a deleted one included."""
        ...

    def create_experiment(self, name: str, artifacts: str | None, tags: Mapping[str, str]) -> Experiment:
        """Make an experiment, or return the one that another process has just made."""
        ...

    def experiments_with(self, tag: str) -> list[tuple[Experiment, str]]:
        """Return the experiments that are not deleted and have this tag, each with its value."""
        ...

    def tag_experiment(self, experiment: Experiment, tags: Mapping[str, str]) -> None:
        """Set tags of an experiment."""
        ...

    def find_run(self, run_id: str) -> StoredRun | None:
        """Return a run by its id."""
        ...

    def find_runs(self, experiment: Experiment, tag: str, value: str) -> list[StoredRun]:
        """Return the runs that are not deleted and have this tag, the oldest first."""
        ...

    def write(self, experiment: Experiment, changes: Sequence[RunChange]) -> list[StoredRun]:
        """Make and change runs; return each as it is then.

        Where writing fails, some of the changes may have been made.
        """
        ...

    def upload(self, run: StoredRun, path: Path, folder: str) -> None:
        """Store a file with a run, in a folder of its artefacts ("" for the top)."""
        ...
