"""`TrainingTrial`: a training as a trial of Tune, and the callback that follows it in the driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray import tune

from gridtune.core.cells import finite_json, validated
from gridtune.sweep.space.code import SentCode
from gridtune.sweep.space.plan import Workloads
from gridtune.training.run import Point, TrainingRun
from gridtune.training.system import Training, TrainingParameters

__all__ = ["FollowTrials", "TrainingTask", "TrainingTrial"]

#: Keys of a trial's configuration and of its result.
SEED, POINT = "seed", "point"


@dataclass(frozen=True)
class TrainingTask:
    """What a trial of Tune is to do.

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


class TrainingTrial(tune.Trainable):
    """Trains; a step is an iteration of RLlib's algorithm."""

    def setup(self, config: dict[str, Any], task: TrainingTask | None = None) -> None:
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


class FollowTrials(tune.Callback):
    """Passes on what trials report and save.

    Parameters
    ----------
    on_point
        Called with the seed and the point of each iteration.
    on_checkpoint
        Called with the seed and the folder of each checkpoint.
    """

    def __init__(
        self, on_point: Callable[[int, Point], None], on_checkpoint: Callable[[int, Path], None]
    ) -> None:
        self._on_point, self._on_checkpoint = on_point, on_checkpoint

    def __reduce__(self) -> tuple[type[tune.Callback], tuple[()]]:
        # Tune pickles its callbacks for a restart; a training goes on from its own folder.
        return (tune.Callback, ())

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Pass on a point."""
        self._on_point(trial.config[SEED], result[POINT])

    def on_checkpoint(
        self, iteration: int, trials: list[Any], trial: Any, checkpoint: Any, **info: Any
    ) -> None:
        """Pass on a checkpoint."""
        self._on_checkpoint(trial.config[SEED], Path(checkpoint.path))
