"""`TrainingRun`: an algorithm of RLlib that is trained, evaluated and stored, iteration by iteration.

A checkpoint is one of RLlib's own (`Algorithm.from_checkpoint` loads it) with two files more: the best policy
so far, and the learning curve with what identifies the training. So whoever has a checkpoint can go on as if
nothing had happened.
"""

from __future__ import annotations

import json
import logging
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

from gridtune.core.cells import finite_json
from gridtune.core.system import WorkloadLoader
from gridtune.core.user_code import code_of
from gridtune.errors import PolicyError
from gridtune.training.contract import TrainingContract, TrainingParameters

__all__ = [
    "STATE_FILE",
    "Point",
    "TrainingRun",
    "is_complete",
    "read_state",
    "require_device",
    "silence_rllib",
    "training_identity",
]

#: A point of the learning curve: `iteration`, figures of the algorithm, and the metrics of an evaluation.
Point = dict[str, Any]

#: File of a checkpoint with the learning curve and what identifies the training.
STATE_FILE = "training.json"


class TrainingRun:
    """One training.

    Parameters
    ----------
    training, parameters
        What is trained.
    seed
        What all random numbers derive from.
    load
        Gives the workloads.

    Attributes
    ----------
    algorithm
        RLlib's.
    curve
        A point for each iteration so far.
    """

    def __init__(
        self, training: TrainingContract, parameters: TrainingParameters, *, seed: int, load: WorkloadLoader
    ) -> None:
        require_device(parameters.device)
        silence_rllib()
        # The same number of threads gives the same bits.
        torch.set_num_threads(1)
        self._training, self._parameters, self._seed, self._load = training, parameters, seed, load
        self.algorithm = training.config(parameters, seed=seed, load=load).build_algo()
        self.curve: list[Point] = []
        self._best: float | None = None
        self._best_policy = b""

    @property
    def iteration(self) -> int:
        """Iterations so far."""
        return len(self.curve)

    def step(self) -> Point:
        """Train for an iteration, and evaluate if it is time to; return the new point of the curve."""
        result = self.algorithm.train()
        point = {"iteration": self.iteration + 1, **_figures(result)}
        self.curve.append(point)
        if self.iteration % self._parameters.validate_every == 0:
            self.evaluate()
        return point

    def evaluate(self) -> None:
        """Evaluate the agent, unless that has been done; keep its policy if it is the best so far."""
        point, objective = self.curve[-1], self._training.objective
        if objective in point:
            return
        rng = np.random.default_rng([self._seed, self.iteration])
        metrics = self._training.evaluate(self._parameters, self.algorithm, rng=rng, load=self._load)
        point |= {name: float(value) for name, value in metrics.items()}
        sign = 1.0 if self._training.metrics[objective].direction == "max" else -1.0
        score = sign * point[objective]
        if math.isfinite(score) and (self._best is None or score > self._best):
            self._best, self._best_policy = score, self._policy(point)

    def _policy(self, notes: Mapping[str, Any]) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / self._training.policy_file
            self._training.write_policy(self._parameters, self.algorithm, path, notes)
            return path.read_bytes()

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for a training that goes on, as JSON has it."""
        return training_identity(self._training, self._parameters, self._seed, self._load)

    def save(self, folder: str | Path) -> None:
        """Write a checkpoint into a folder."""
        folder = Path(folder)
        self.algorithm.save_to_path(str(folder.resolve()))
        if self._best_policy:
            (folder / self._training.policy_file).write_bytes(self._best_policy)
        state = {
            "identity": self.identity,
            "iteration": self.iteration,
            "best": self._best,
            "curve": finite_json(self.curve),
            "files": {
                str(file.relative_to(folder)): file.stat().st_size
                for file in sorted(folder.rglob("*"))
                if file.is_file()
            },
        }
        (folder / STATE_FILE).write_text(json.dumps(state), encoding="utf-8")

    def restore(self, folder: str | Path) -> None:
        """Go on from a checkpoint of this training."""
        folder = Path(folder)
        state = read_state(folder)
        self.algorithm.restore_from_path(str(folder.resolve()))
        self.curve, self._best = state["curve"], state["best"]
        if self._best is not None:
            self._best_policy = (folder / self._training.policy_file).read_bytes()

    def close(self) -> None:
        """End the algorithm and its runners."""
        self.algorithm.stop()


def training_identity(
    training: TrainingContract, parameters: TrainingParameters, seed: int, load: WorkloadLoader
) -> dict[str, Any]:
    """Return what identifies a training, whatever its number of iterations, as JSON has it."""
    determining = parameters.model_dump(mode="json", exclude={"iterations"}, exclude_defaults=True)
    if "trace" in determining:
        determining["trace"] = "content"
    decided = training.values_from_log(parameters, load)
    determining |= {name: value for name, value in decided.items() if value is not None}
    return {
        "training": training.name,
        "version": training.version,
        "code": code_of(training, parameters),
        "parameters": determining,
        "seed": seed,
        "traces": sorted(load(reference).checksum for reference in training.traces(parameters)),
    }


def read_state(folder: str | Path) -> dict[str, Any]:
    """Return what a checkpoint says of its training.

    Raises
    ------
    PolicyError
        If the folder is no checkpoint of a training.
    """
    file = Path(folder) / STATE_FILE
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PolicyError("is no checkpoint of a training", path=folder) from error
    return content


def is_complete(folder: str | Path) -> bool:
    """Return whether a checkpoint has all its files: a kill may have come while they were copied."""
    try:
        files = read_state(folder)["files"]
        return all((Path(folder) / name).stat().st_size == size for name, size in files.items())
    except (PolicyError, OSError):
        return False


def silence_rllib() -> None:
    """Keep RLlib from warning of the API that is the only one used here."""
    logging.getLogger("ray.rllib").setLevel(logging.ERROR)


def require_device(device: str) -> None:
    """Refuse cuda where there is none.

    Raises
    ------
    PolicyError
        If this machine has no GPU that torch can use.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise PolicyError(
            "there is no GPU that torch can use here", field="device", hint="leave device=cuda out"
        )


def _figures(result: Mapping[str, Any]) -> Point:
    """Return what is worth a curve of RLlib's result: returns, steps, losses."""
    sampled = result.get("env_runners", {})
    figures = {
        "return_mean": sampled.get("episode_return_mean", math.nan),
        "steps": sampled.get("num_env_steps_sampled", math.nan),
        **result.get("learners", {}).get(DEFAULT_MODULE_ID, {}),
    }
    figures["learning_rate"] = figures.pop("default_optimizer_learning_rate", None)
    return {
        name: float(value)
        for name, value in sorted(figures.items())
        if isinstance(value, int | float | np.number) and not name.startswith(("num_", "curr_"))
    }
