"""`train`: trains an agent for a system with an algorithm of RLlib, as a trial of Tune."""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ray import tune

from gridtune.arguments import require_number
from gridtune.core.cells import finite_json, replicate_streams, validated
from gridtune.core.extras import require_module
from gridtune.core.system import get_system
from gridtune.errors import PolicyError, SweepError
from gridtune.registry import name_hint
from gridtune.sweep.execution.cluster import RAY_ENVIRONMENT, environment, ray_session
from gridtune.sweep.journal.journal import check_writable
from gridtune.sweep.space.code import SentCode, SweepCode
from gridtune.sweep.space.plan import Workloads
from gridtune.sweep.space.schema import parse_space
from gridtune.tracking.training import TrainingOutcome, TrainingTracker
from gridtune.training.run import Point, require_device, silence_rllib, training_identity
from gridtune.training.system import Training, TrainingParameters
from gridtune.tune.training_folder import TrainingFolder
from gridtune.tune.trial import SEED, FollowTrials, TrainingTask, TrainingTrial

__all__ = ["Trained", "Watcher", "train", "training_of"]

#: The folder of Tune's own files.
_TUNE = "tune"
#: How often a trial whose process died is begun again from its checkpoint.
_MOST_FAILURES = 3


class Watcher(Protocol):
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
        What was trained.
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
        How tracking ended; None if it was off.
    """

    training: str
    parameters: Mapping[str, Any]
    seed: int
    directory: Path
    curve: Sequence[Point]
    began: int
    checkpoint: Path
    policy: Path | None
    tracking: TrainingOutcome | None

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
                "uri": self.tracking.uri,
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
    watcher: Watcher | None = None,
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
        Whether to track in MLflow, and the store; by default that of the environment, else SQLite.
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
        seed: TrainingFolder(
            root if len(seeds) == 1 else root / f"seed-{seed}",
            tune=root / _TUNE / f"seed-{seed}",
            policy_file=training.policy_file,
        )
        for seed in seeds
    }
    own = {seed: training.seed(replicate_streams(seed, traces)) for seed in seeds}
    for seed, folder in folders.items():
        folder.settle()
        folder.check(training_identity(training, checked, own[seed], workloads.load))
    shutil.rmtree(root / _TUNE, ignore_errors=True)
    began = {seed: folder.iteration for seed, folder in folders.items()}
    most = None if seconds is not None and "iterations" not in parameters else checked.iterations
    trackers = (
        {seed: _tracker(training, checked, seed, folder, tracking_uri) for seed, folder in folders.items()}
        if tracking
        else {}
    )
    task = TrainingTask(
        code=_code(training, parameters, plugins),
        parameters=dict(parameters),
        iterations=most,
        seconds=seconds,
        workloads=workloads,
        seeds=own,
        checkpoints={seed: folder.checkpoint.resolve() for seed, folder in folders.items() if began[seed]},
    )
    left = [seed for seed in seeds if most is None or began[seed] < most]
    with _ended(trackers) as outcomes:
        if left:
            silence_rllib()
            config = training.config(checked, seed=own[left[0]], load=workloads.load)
            try:
                _fit(task, config, left, folders, trackers, root, address=address, watcher=watcher)
            finally:
                for seed in left:
                    folders[seed].settle()
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
            tracking=outcomes.get(seed),
        )
        for seed, folder in folders.items()
    ]


def _code(training: Training, parameters: Mapping[str, Any], plugins: Iterable[str | Path]) -> SentCode:
    content = {"name": "train", "system": training.name, "fixed": dict(parameters)}
    content |= {"objective": training.objective, "plugins": [str(path) for path in plugins]}
    return SweepCode(parse_space(content), training).sent


def _tracker(
    training: Training, parameters: TrainingParameters, seed: int, folder: TrainingFolder, uri: str | None
) -> TrainingTracker:
    tracker = TrainingTracker(
        f"train {training.name}",
        folder.path.name,
        folder.path,
        parameters={**parameters.model_dump(mode="json", exclude_none=True), "seed": seed},
        uri=uri,
        on_trouble=lambda text: print(text, file=sys.stderr),
    )
    # A training that goes on may have been one without a store.
    for point in folder.curve:
        tracker.log(point["iteration"], point)
    if folder.policy.exists():
        tracker.checkpoint(folder.policy)
    return tracker


@contextlib.contextmanager
def _ended(trackers: Mapping[int, TrainingTracker]) -> Iterator[dict[int, TrainingOutcome]]:
    """Close the trackers at the end, however it comes; yield what will have become of them."""
    outcomes: dict[int, TrainingOutcome] = {}
    status = "FAILED"
    try:
        yield outcomes
        status = "FINISHED"
    except (KeyboardInterrupt, SystemExit):
        status = "KILLED"
        raise
    finally:
        outcomes |= {seed: tracker.close(status) for seed, tracker in trackers.items()}


def _fit(
    task: TrainingTask,
    config: Any,
    seeds: Sequence[int],
    folders: Mapping[int, TrainingFolder],
    trackers: Mapping[int, TrainingTracker],
    root: Path,
    *,
    address: str | None,
    watcher: Watcher | None,
) -> None:
    """Run a trial of Tune for each seed."""

    def on_point(seed: int, point: Point) -> None:
        folders[seed].add(point)
        if seed in trackers:
            trackers[seed].log(point["iteration"], point)
        if watcher is not None:
            watcher.point(seed, point)

    def on_checkpoint(seed: int, checkpoint: Path) -> None:
        folders[seed].keep_policy(checkpoint)
        if seed in trackers and folders[seed].policy.exists():
            trackers[seed].checkpoint(folders[seed].policy)

    stage = (lambda what: None) if watcher is None else watcher.stage
    resources = config.algo_class.default_resource_request(config)
    cpus, gpus = (math.fsum(bundle.get(name, 0.0) for bundle in resources.bundles) for name in ("CPU", "GPU"))
    every = validated(task.code.load(), task.parameters).validate_every  # type: ignore[attr-defined]
    stage("starting Ray")
    began = time.monotonic()
    with (
        environment(RAY_ENVIRONMENT),
        ray_session(address, workers=len(seeds), cpus=max(1.0, cpus), gpus=gpus),
    ):
        trainable = tune.with_resources(tune.with_parameters(TrainingTrial, task=task), resources)
        tuner = tune.Tuner(
            trainable,
            param_space={SEED: tune.grid_search(list(seeds))},
            tune_config=tune.TuneConfig(
                trial_dirname_creator=lambda trial: f"seed-{trial.config[SEED]}",
            ),
            run_config=tune.RunConfig(
                name=_TUNE,
                storage_path=str(root.resolve()),
                callbacks=[FollowTrials(on_point, on_checkpoint)],
                checkpoint_config=tune.CheckpointConfig(
                    checkpoint_frequency=every, checkpoint_at_end=True, num_to_keep=2
                ),
                failure_config=tune.FailureConfig(max_failures=_MOST_FAILURES),
                verbose=0,
            ),
        )
        stage("training")
        results = tuner.fit()
        errors = [result.error for result in results if result.error is not None]
    if errors:
        lines = str(errors[0]).strip().splitlines()
        raise PolicyError(f"the training failed: {lines[-1]}")
    stage(f"trained for {time.monotonic() - began:.0f} s")
