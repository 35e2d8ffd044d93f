"""The runs of one sweep in a tracking store: found again by their tags, made where they are missing.

Everything here may be done twice without harm. Runs are looked up by tags before they are made; a
metric's point is the same each time, and a store keeps equal points once; a run that says all it should is
left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gridtune.errors import TrackingError
from gridtune.tracking.content import ConfigurationContent, LearningCurve, clean_name, clean_text
from gridtune.tracking.records import RUNNING, Dataset, Experiment, Point, RunChange, RunStore, StoredRun

__all__ = ["SweepRuns", "open_experiment"]

SWEEP_TAG, KEY_TAG, LOGGED_TAG = "gridtune.sweep", "gridtune.configuration", "gridtune.logged"
CELL_TAG = "gridtune.cell"
_PARENT = "mlflow.parentRunId"
#: Makes the UI show runs and their metrics first, not language models' conversations.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}


class SweepRuns:
    """The parent run of a sweep and its children; used by the sending thread alone.

    Parameters
    ----------
    experiment
        The experiment's name.
    sweep_id
        Tells this sweep's parent run from all others.
    name
        What the parent run is called when it is made.
    tags
        Of every run.
    artifacts
        Where a new experiment's artefacts go; None where the server decides.
    """

    def __init__(
        self, experiment: str, sweep_id: str, *, name: str, tags: Mapping[str, str], artifacts: Path | None
    ) -> None:
        self._name = experiment
        self.sweep_id = sweep_id
        self._parent_name = name
        self._tags = dict(tags)
        self._artifacts = artifacts
        self._experiment: Experiment | None = None
        self._parent: StoredRun | None = None
        self._children: dict[str, StoredRun] = {}
        #: Whether a run may have been made without an answer reaching us.
        self._unsure = True

    @property
    def experiment_id(self) -> str:
        """The experiment's id, "" before it is opened."""
        return self._experiment.experiment_id if self._experiment is not None else ""

    @property
    def parent_id(self) -> str:
        """The id of the sweep's run, "" before it is opened."""
        return self._parent.run_id if self._parent is not None else ""

    def open(
        self,
        store: RunStore,
        *,
        tags: Mapping[str, str],
        parameters: Mapping[str, str],
        datasets: Sequence[Dataset],
        at: int,
    ) -> None:
        """Find or make the experiment and the parent run; set it running.

        Parameters
        ----------
        store
            The store.
        tags, parameters, datasets
            Of the parent.
        at
            When a new run began, in milliseconds.
        """
        self._experiment = experiment = open_experiment(store, self._name, self._artifacts)
        found = store.find_runs(experiment, SWEEP_TAG, self.sweep_id)
        parent = found[0] if found else None
        kept = {**self._tags, **_cleaned(tags), SWEEP_TAG: self.sweep_id, "gridtune.kind": "sweep"}
        change = RunChange(
            parent.name if parent is not None else self._parent_name,
            parent,
            start=at,
            tags=kept,
            # What a run's parameters say first is what they say; those of an extended space are in its file.
            parameters=_cleaned(parameters),
            datasets=datasets,
            status=RUNNING if parent is not None and parent.status != RUNNING else None,
        )
        (self._parent,) = store.write(experiment, [change])
        self._load_children(store)

    def _opened(self) -> tuple[Experiment, StoredRun]:
        if self._experiment is None or self._parent is None:
            raise RuntimeError("the sweep's run has not been opened")
        return self._experiment, self._parent

    def _load_children(self, store: RunStore) -> None:
        experiment, parent = self._opened()
        self._children = {}
        for run in store.find_runs(experiment, _PARENT, parent.run_id):
            self._children.setdefault(run.tags.get(KEY_TAG, ""), run)
        self._unsure = False

    def has(self, key: str) -> bool:
        """Whether a configuration has a run, as far as is known."""
        return key in self._children

    def log(
        self,
        store: RunStore,
        contents: Sequence[ConfigurationContent],
        *,
        final: bool,
        at: int,
        only_known: bool = False,
    ) -> None:
        """Log configurations' runs: what they say so far or, when `final`, all of it, and end them.

        Parameters
        ----------
        store
            The store.
        contents
            What the runs say, in the order in which the UI is to list them.
        final
            Whether they are complete.
        at
            When they became so, in milliseconds: the same for every attempt.
        only_known
            Whether to leave out configurations that have no run.
        """
        if self._unsure:
            self._load_children(store)
        experiment, parent = self._opened()
        changed: list[tuple[ConfigurationContent, RunChange]] = []
        for place, content in enumerate(contents):
            run = self._children.get(content.key)
            if run is None and only_known:
                continue
            # The UI lists the latest first.
            change = self._change(content, run, parent, final=final, at=at, start=at - place)
            if change is not None:
                changed.append((content, change))
        if not changed:
            return
        self._unsure = True
        stored = store.write(experiment, [change for _, change in changed])
        self._unsure = False
        for (content, _), run in zip(changed, stored, strict=True):
            self._children[content.key] = run

    def _change(
        self,
        content: ConfigurationContent,
        run: StoredRun | None,
        parent: StoredRun,
        *,
        final: bool,
        at: int,
        start: int,
    ) -> RunChange | None:
        """Return what is to be changed in a run; None where it says all this already."""
        digest, logged_at = _logged(run)
        if run is not None and digest == content.digest and (not final or run.status != RUNNING):
            return None
        # Of values with the same step a store shows that with the latest time.
        at = logged_at if digest == content.digest else max(at, logged_at + 1)
        start = run.start if run is not None else start
        own = {_PARENT: parent.run_id, KEY_TAG: content.key, LOGGED_TAG: f"{content.digest} {at}"}
        # What was wrong before may be right now.
        own |= {name: "" for name in ("failed", "error") if run and run.tags.get(name)}
        return RunChange(
            content.name,
            run,
            start=start,
            tags={**self._tags, **own, **content.tags},
            # A parameter cannot change: the same trace may be known by another path meanwhile.
            parameters=content.parameters,
            # The UI lists metrics as they come, and compares runs by the first.
            points=[
                *(Point(name, value, 0, at) for name, value in content.values.items()),
                *(Point(name, value, step, start) for name, value, step in content.history),
            ],
            datasets=content.datasets if run is None else (),
            status=content.status if final else RUNNING if run and run.status != RUNNING else None,
            end=at if final else None,
        )

    def log_curve(self, store: RunStore, key: str, curve: LearningCurve, at: int) -> None:
        """Log a cell's learning curve as a run below that of its configuration, where it has one.

        A run that has ended has all of it already.
        """
        experiment, _ = self._opened()
        child = self._children.get(key)
        if child is None:
            return
        below = store.find_runs(experiment, CELL_TAG, curve.cell_id)
        run = next((run for run in below if run.tags.get(_PARENT) == child.run_id), None)
        if run is not None and run.status != RUNNING:
            return
        tags = {_PARENT: child.run_id, CELL_TAG: curve.cell_id, "gridtune.kind": "training"}
        change = RunChange(
            curve.name,
            run,
            start=at,
            tags={**self._tags, **tags},
            points=[Point(name, value, step, child.start) for name, value, step in curve.points],
            status="FINISHED",
            end=at,
        )
        store.write(experiment, [change])

    def update_parent(self, store: RunStore, tags: Mapping[str, str]) -> None:
        """Set tags of the parent run."""
        experiment, parent = self._opened()
        (self._parent,) = store.write(experiment, [RunChange(parent.name, parent, tags=_cleaned(tags))])

    def describe(self, store: RunStore, tags: Mapping[str, str]) -> None:
        """Set tags of the experiment."""
        experiment, _ = self._opened()
        store.tag_experiment(experiment, {**_EXPERIMENT_TAGS, **tags})

    def upload(self, store: RunStore, path: Path, folder: str, key: str | None = None) -> None:
        """Store a file as artefact of the parent, or of the run of the configuration `key`, if it has one."""
        _, parent = self._opened()
        run = parent if key is None else self._children.get(key)
        if run is not None:
            store.upload(run, path, folder)

    def end(self, store: RunStore, status: str, at: int) -> None:
        """End the parent, and children that were left running."""
        experiment, parent = self._opened()
        left = [run for run in self._children.values() if run.status == RUNNING]
        changes = [RunChange(run.name, run, status="KILLED", end=at) for run in left]
        changes.append(RunChange(parent.name, parent, status=status, end=at))
        *stored, self._parent = store.write(experiment, changes)
        for run in stored:
            self._children[run.tags[KEY_TAG]] = run


def open_experiment(store: RunStore, name: str, artifacts: Path | None) -> Experiment:
    """Find or make an experiment.

    Parameters
    ----------
    store
        The store.
    name
        The experiment's.
    artifacts
        Where a new experiment's artefacts go; None where the server decides.

    Raises
    ------
    TrackingError
        If there is one that was deleted.
    """
    experiment = store.find_experiment(name)
    if experiment is None:
        place = None if artifacts is None else (artifacts / clean_name(name)).as_uri()
        return store.create_experiment(name, place, _EXPERIMENT_TAGS)
    if not experiment.active:
        raise TrackingError(
            f"the experiment {name!r} was deleted in the tracking store",
            hint="rename the search space, or restore the experiment: "
            f"`mlflow experiments restore --experiment-id {experiment.experiment_id}`",
        )
    return experiment


def _logged(run: StoredRun | None) -> tuple[str, int]:
    """Return the digest of what a run says and its time; "" and 0 where it does not say."""
    digest, _, at = (run.tags.get(LOGGED_TAG, "") if run is not None else "").partition(" ")
    return (digest, int(at)) if at.isdigit() else ("", 0)


def _cleaned(tags: Mapping[str, str]) -> dict[str, str]:
    return {clean_name(name): clean_text(value) for name, value in tags.items()}
