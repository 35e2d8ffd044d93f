"""`train`: trains an agent for a system with an algorithm of RLlib, as a trial of Tune."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ray import tune

from gridtune.arguments import require_number
from gridtune.core.cells import finite_json, replicate_streams, validated
from gridtune.core.system import get_system
from gridtune.errors import PolicyError, SweepError, require_module
from gridtune.registry import name_hint
from gridtune.storage import draft_of
from gridtune.sweep.execution.cluster import RAY_ENVIRONMENT, environment, ray_session
from gridtune.sweep.journal.disk import check_writable
from gridtune.sweep.space.code import SentCode, SweepCode
from gridtune.sweep.space.plan import Workloads
from gridtune.sweep.space.schema import parse_space
from gridtune.tracking.tracked import TrackedRun
from gridtune.tracking.training import TrainingTracker
from gridtune.training.system import (
    Point,
    Training,
    TrainingParameters,
    TrainingRun,
    is_complete,
    read_state,
    require_device,
)

#: The folder of Tune's own files.
_TUNE = "tune"
#: How often a trial whose process died is begun again from its checkpoint.
_MOST_FAILURES = 3


class _Watcher(Protocol):
    """Hears how trainings go on."""

    def stage(self, what: str) -> None:
        """Take what the training is busy with."""

    def point(self, seed: int, point: Point) -> None:
        """Take the point of an iteration."""


@dataclass(frozen=True)
class Trained:
    """A training that has come to its end.

    Attributes
    ----------
    training, parameters, seed
        The training.
    directory
        Its folder.
    curve
        A point for each iteration.
    began
        Iterations that were there before.
    checkpoint
        RLlib's checkpoint.
    policy
        The best policy, which `checkpoint=` of the system plays; None if none had a finite score.
    tracking
        The run in the tracking store; None if tracking was off.
    """

    training: str
    parameters: Mapping[str, Any]
    seed: int
    directory: Path
    curve: Sequence[Point]
    began: int
    checkpoint: Path
    policy: Path | None
    tracking: TrackedRun | None

    def as_dict(self) -> dict[str, Any]:
        """Return what `gridtune train --json` prints."""
        content = {
            "training": self.training,
            "parameters": dict(self.parameters),
            "seed": self.seed,
            "iterations": len(self.curve),
            "resumed_from": self.began,
            "metrics": {name: value for name, value in self.curve[-1].items() if name != "iteration"},
            "directory": str(self.directory),
            "checkpoint": str(self.checkpoint),
            "policy": None if self.policy is None else str(self.policy),
        }
        if self.tracking is not None:
            content["tracking"] = {
                "uri": self.tracking.shown_uri,
                "run_id": self.tracking.run_id,
                "unsent": len(self.tracking.unsent),
            }
        return finite_json(content)


def training_of(system: str, algorithm: str | None = None) -> Training:
    """Return a system's training by its algorithm, by default the first that it has.

    Raises
    ------
    SweepError
        If there is no such system, or it has no such training.
    """
    name, _, named = system.partition("/")
    simulated, wanted = get_system(name), algorithm or named or None
    if not simulated.trainings:
        message = f"the system {name!r} has no training"
        raise SweepError(message, hint="docs/extending.md says how to add one")
    wanted = wanted or next(iter(simulated.trainings))
    if wanted not in simulated.trainings:
        message = f"{name} has no training {wanted!r}"
        raise SweepError(message, hint=name_hint(wanted, simulated.trainings))
    training = get_system(f"{name}/{wanted}")
    if not isinstance(training, Training):
        raise SweepError(f"{training!r} is no training: it does not derive from Training")
    return training


def train(
    system: str,
    parameters: Mapping[str, Any],
    *,
    directory: str | Path,
    algorithm: str | None = None,
    seconds: float | None = None,
    seeds: Sequence[int] = (0,),
    address: str | None = None,
    tracking: bool = True,
    tracking_uri: str | None = None,
    plugins: Iterable[str | Path] = (),
    watcher: _Watcher | None = None,
) -> list[Trained]:
    """Train until the last iteration or until time is up; called again, go on from the checkpoints.

    Parameters
    ----------
    system
        The system's name, or `SYSTEM/ALGORITHM`.
    parameters
        Those of the training. Without `iterations`, but with `seconds`, only time ends it.
    directory
        The training's folder; with several seeds each has one below it.
    algorithm
        Which of the system's trainings; by default the first.
    seconds
        Time limit of this call, from the first iteration on.
    seeds
        A training for each. With the seed of a sweep's cell it is that cell's training.
    address
        A running Ray cluster to join; by default the one `RAY_ADDRESS` names, else a local one.
    tracking, tracking_uri
        True to track in MLflow, or the store; by default that of the environment, else SQLite.
    plugins
        Python files that register what the training needs; they are loaded already.
    watcher
        Hears how it goes on.

    Raises
    ------
    GridtuneError
        If something is not known or refused, the folder has another training, or the training fails.
    """
    if seconds is not None:
        require_number(seconds, "seconds", error=SweepError)
    require_module("ray", user="training", extra="agents")
    training = training_of(system, algorithm)
    checked = validated(training, parameters)
    assert isinstance(checked, TrainingParameters)
    root = Path(directory)
    check_writable(root)
    workloads = Workloads()
    traces = workloads.checksums(training.traces(checked))
    training.preflight(checked, workloads.load)
    if address is None:
        require_device(checked.device)
    folders = {
        seed: _TrainingFolder(
            root if len(seeds) == 1 else root / f"seed-{seed}",
            tune=root / _TUNE / f"seed-{seed}",
            policy_file=training.policy_file,
        )
        for seed in seeds
    }
    own = {seed: training.seed(replicate_streams(seed, traces)) for seed in seeds}
    for seed, folder in folders.items():
        folder.settle()
        folder.check(training.identity(checked, own[seed], workloads.load))
    shutil.rmtree(root / _TUNE, ignore_errors=True)
    began = {seed: folder.iteration for seed, folder in folders.items()}
    most = None if seconds is not None and "iterations" not in parameters else checked.iterations
    for seed, folder in folders.items() if tracking else ():
        folder.track(
            training.name, {**checked.model_dump(mode="json", exclude_none=True), "seed": seed}, tracking_uri
        )
    space = {"name": "train", "system": training.name, "fixed": dict(parameters)}
    space |= {"objective": training.objective, "plugins": [str(path) for path in plugins]}
    task = _TrainingTask(
        code=SweepCode(parse_space(space), training).sent,
        parameters=dict(parameters),
        iterations=most,
        seconds=seconds,
        workloads=workloads,
        seeds=own,
        checkpoints={seed: folder.checkpoint.resolve() for seed, folder in folders.items() if began[seed]},
    )
    left = {seed: folder for seed, folder in folders.items() if most is None or began[seed] < most}
    with contextlib.ExitStack() as trackers:
        for folder in folders.values():
            if folder.tracker is not None:
                trackers.enter_context(folder.tracker)
        if left:
            logging.getLogger("ray.rllib").setLevel(logging.ERROR)
            config = training.config(checked, seed=own[next(iter(left))], load=workloads.load)
            try:
                task.fit(config, left, root, every=checked.validate_every, address=address, watcher=watcher)
            finally:
                for folder in left.values():
                    folder.settle()
                shutil.rmtree(root / _TUNE, ignore_errors=True)
    return [
        Trained(
            training=training.name,
            parameters=checked.model_dump(mode="json"),
            seed=seed,
            directory=folder.path,
            curve=folder.curve,
            began=began[seed],
            checkpoint=folder.checkpoint,
            policy=folder.policy if folder.policy.exists() else None,
            tracking=None if folder.tracker is None else folder.tracker.outcome,
        )
        for seed, folder in folders.items()
    ]


_CHECKPOINT, _CURVE = "checkpoint", "learning_curve.jsonl"


class _TrainingFolder:
    """The folder of one training.

    Parameters
    ----------
    path
        Where it is, or is to be.
    tune
        Where Tune writes its checkpoints.
    policy_file
        Name of the file with the best policy.

    Attributes
    ----------
    curve
        A point for each iteration.
    tracker
        Follows the training into a tracking store; None without one.
    """

    def __init__(self, path: Path, *, tune: Path, policy_file: str) -> None:
        self.path, self._tune, self._policy_file = path, tune, policy_file
        self.curve: list[Point] = []
        self.tracker: TrainingTracker | None = None

    @property
    def checkpoint(self) -> Path:
        """RLlib's checkpoint."""
        return self.path / _CHECKPOINT

    @property
    def policy(self) -> Path:
        """The best policy so far."""
        return self.path / self._policy_file

    @property
    def iteration(self) -> int:
        """The last iteration."""
        return len(self.curve)

    def settle(self) -> None:
        """Keep the newest complete checkpoint, and set curve and policy to what it says."""
        found = [self.checkpoint, *self.path.glob(f"{_CHECKPOINT}.*"), *self._tune.glob("**/checkpoint_*")]
        complete = [(read_state(place)["iteration"], str(place)) for place in found if is_complete(place)]
        if complete:
            newest, kept = Path(max(complete)[1]), self.checkpoint.with_suffix(".new")
            if newest != self.checkpoint:
                if newest != kept:
                    shutil.rmtree(kept, ignore_errors=True)
                    newest.rename(kept)
                shutil.rmtree(self.checkpoint, ignore_errors=True)
                kept.rename(self.checkpoint)
            self.curve = read_state(self.checkpoint)["curve"]
            self.keep_policy(self.checkpoint)
        shutil.rmtree(self._tune, ignore_errors=True)
        self._write_curve()

    def check(self, identity: dict[str, Any]) -> None:
        """Refuse to go on with another training than that of the checkpoint.

        Raises
        ------
        PolicyError
            Naming what differs.
        """
        if not self.checkpoint.exists():
            return
        before = read_state(self.checkpoint)["identity"]
        if before == identity:
            return
        differing = [name for name in identity if before.get(name) != identity[name]]
        if "parameters" in differing:
            differing.remove("parameters")
            one, other = before["parameters"], identity["parameters"]
            differing += [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
        raise PolicyError(
            f"there is another training here, with another {', '.join(differing)}",
            path=self.path,
            hint="give another folder with --out, or the parameters that it was begun with",
        )

    def track(self, training: str, parameters: Mapping[str, Any], uri: str | None) -> None:
        """Follow the training into a store, with what is here: the store may be another than before."""
        self.tracker = TrainingTracker(
            f"train {training}",
            self.path.name,
            self.path,
            parameters=parameters,
            uri=uri,
            on_trouble=lambda text: print(text, file=sys.stderr),
        )
        for point in self.curve:
            self.tracker.log(point["iteration"], point)
        if self.policy.exists():
            self.tracker.checkpoint(self.policy)
        if self.checkpoint.exists():
            self.tracker.pack(self.checkpoint)

    def add(self, point: Point) -> None:
        """Add a point to the learning curve; one of an earlier iteration replaces what came after it."""
        number = int(point["iteration"])
        if number <= self.iteration:
            self.curve = self.curve[: number - 1]
            self._write_curve()
        self.curve.append(point)
        with (self.path / _CURVE).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(point) + "\n")
        if self.tracker is not None:
            self.tracker.log(number, point)

    def keep_policy(self, checkpoint: Path) -> None:
        """Copy the best policy of a checkpoint, if it has one."""
        source = checkpoint / self._policy_file
        if source.exists():
            with draft_of(self.policy) as draft:
                shutil.copyfile(source, draft)

    def _write_curve(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(point) + "\n" for point in self.curve)
        (self.path / _CURVE).write_text(text, encoding="utf-8")


#: Keys of a trial's configuration and of its result.
SEED, POINT = "seed", "point"


@dataclass(frozen=True)
class _TrainingTask:
    """Task of a trial of Tune.

    Attributes
    ----------
    code
        The training, and the code of users that it needs.
    parameters
        Its parameters.
    iterations
        The last iteration.
    seconds
        Time limit of this trial, or None.
    workloads
        The logs, read already.
    seeds
        The training's own seed by that of the trial's configuration.
    checkpoints
        The checkpoint to go on from, by the same seed.
    """

    code: SentCode
    parameters: Mapping[str, Any]
    iterations: int | None
    seconds: float | None
    workloads: Workloads
    seeds: Mapping[int, int]
    checkpoints: Mapping[int, Path]

    def fit(
        self,
        config: Any,
        folders: Mapping[int, _TrainingFolder],
        root: Path,
        *,
        every: int,
        address: str | None,
        watcher: _Watcher | None,
    ) -> None:
        """Run a trial of Tune for each seed; it writes a checkpoint every so many iterations."""
        stage = (lambda what: None) if watcher is None else watcher.stage
        resources = config.algo_class.default_resource_request(config)
        cpus, gpus = (
            math.fsum(bundle.get(name, 0.0) for bundle in resources.bundles) for name in ("CPU", "GPU")
        )
        stage("starting Ray")
        began = time.monotonic()
        with (
            environment(RAY_ENVIRONMENT),
            ray_session(address, workers=len(folders), cpus=max(1.0, cpus), gpus=gpus),
        ):
            tuner = tune.Tuner(
                tune.with_resources(tune.with_parameters(_TrainingTrial, task=self), resources),
                param_space={SEED: tune.grid_search(list(folders))},
                tune_config=tune.TuneConfig(trial_dirname_creator=lambda trial: f"seed-{trial.config[SEED]}"),
                run_config=tune.RunConfig(
                    name=_TUNE,
                    storage_path=str(root.resolve()),
                    callbacks=[_FollowTrials(folders, watcher)],
                    checkpoint_config=tune.CheckpointConfig(
                        checkpoint_frequency=every, checkpoint_at_end=True, num_to_keep=2
                    ),
                    failure_config=tune.FailureConfig(max_failures=_MOST_FAILURES),
                    verbose=0,
                ),
            )
            stage("training")
            errors = [result.error for result in tuner.fit() if result.error is not None]
        if errors:
            lines = str(errors[0]).strip().splitlines()
            raise PolicyError(f"the training failed: {lines[-1]}")
        stage(f"trained for {time.monotonic() - began:.0f} s")


class _TrainingTrial(tune.Trainable):
    """Trains; a step is an iteration of RLlib's algorithm."""

    def setup(self, config: dict[str, Any], task: _TrainingTask | None = None) -> None:
        """Make the algorithm, and go on from a checkpoint where there is one."""
        assert task is not None
        training = task.code.load()
        assert isinstance(training, Training)
        parameters = validated(training, task.parameters)
        assert isinstance(parameters, TrainingParameters)
        self._task = task
        self._run = TrainingRun(training, parameters, seed=task.seeds[config[SEED]], load=task.workloads.load)
        if config[SEED] in task.checkpoints:
            self._run.restore(task.checkpoints[config[SEED]])
        self._began = time.monotonic()

    def step(self) -> dict[str, Any]:
        """Train for an iteration; the last one is always evaluated."""
        self._run.step()
        task, passed = self._task, time.monotonic() - self._began
        done = self._run.iteration == task.iterations or (task.seconds is not None and passed >= task.seconds)
        if done:
            self._run.evaluate()
        return {POINT: finite_json(self._run.curve[-1]), "done": done}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write a checkpoint that RLlib can load."""
        self._run.save(checkpoint_dir)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from a checkpoint, after the trial's process has died."""
        self._run.restore(checkpoint)

    def cleanup(self) -> None:
        """End the algorithm."""
        self._run.close()


class _FollowTrials(tune.Callback):
    """Passes the reports and checkpoints of trials to the folders, by seed."""

    def __init__(self, folders: Mapping[int, _TrainingFolder], watcher: _Watcher | None) -> None:
        self._folders, self._watcher = folders, watcher

    def __reduce__(self) -> tuple[type[tune.Callback], tuple[()]]:
        # Tune pickles its callbacks for a restart; a training goes on from its own folder.
        return (tune.Callback, ())

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Pass on a point."""
        self._folders[trial.config[SEED]].add(result[POINT])
        if self._watcher is not None:
            self._watcher.point(trial.config[SEED], result[POINT])

    def on_checkpoint(
        self, iteration: int, trials: list[Any], trial: Any, checkpoint: Any, **info: Any
    ) -> None:
        """Pass on a checkpoint."""
        folder = self._folders[trial.config[SEED]]
        folder.keep_policy(Path(checkpoint.path))
        if folder.tracker is not None:
            if folder.policy.exists():
                folder.tracker.checkpoint(folder.policy)
            folder.tracker.pack(checkpoint.path)
