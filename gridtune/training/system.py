"""`Training`: the contract of whatever trains an agent for a system with an algorithm of RLlib.

A system names its trainings, and so they have a name of their own, `SYSTEM/ALGORITHM`:

    trainings = {"ppo": "my_package.training:AdmissionPPO"}

`gridtune train SYSTEM` runs one of them as a trial of Tune. A training is also a system itself, whose cells
train up to some iteration: search spaces sweep it like any other. Either way a `TrainingRun` trains,
evaluates and stores the algorithm, iteration by iteration. The random numbers of an iteration follow from
the seed and the iteration's number: a result is the same from whichever checkpoint a training goes on.

Nothing here imports torch or RLlib before something is trained.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import random
import shutil
import tempfile
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from gridtune.core.cells import content_id, finite_json
from gridtune.core.measures import Measure
from gridtune.core.system import (
    CellResources,
    Outcome,
    Streams,
    System,
    SystemParameters,
    WorkloadLoader,
    described,
)
from gridtune.core.user_code.checksums import code_of
from gridtune.errors import PolicyError, require_module
from gridtune.storage import user_cache

#: Environment variable for the folder of the checkpoints of cells; by default one in the user's cache.
TRAININGS_VARIABLE = "GRIDTUNE_TRAININGS"

#: The parameter with the history of a training whose parameters have changed, such as
#: `10: gamma=0.99; 20: gamma=0.95`. Each segment has the last iteration with these parameters.
HISTORY = "history"

#: File of a checkpoint with the learning curve and the training's identity.
_STATE_FILE = "training.json"

Count = Annotated[int, Field(ge=1)]

#: A point of the learning curve: `iteration`, figures of the algorithm, and the metrics of an evaluation.
Point = dict[str, Any]

#: Metrics that every training has, beside those of its evaluation.
TRAINING_MEASURES: Mapping[str, Measure] = {
    "return_mean": Measure.own("1", "max", "mean sum of rewards over the episodes of the last iteration"),
    "iterations": Measure.own("iterations", "none", "iterations of the algorithm"),
}


@described(__file__)
class TrainingParameters(SystemParameters):
    """The parameters that every training has; a subclass adds those of its environment and algorithm."""

    iterations: Count = 100
    validate_every: Count = 10
    history: str | None = None
    device: Literal["cpu", "cuda"] = "cpu"

    @model_validator(mode="after")
    def _check_history(self) -> Self:
        if self.history is not None:
            last = self.earlier().iterations
            if last >= self.iterations:
                raise ValueError(f"history is up to iteration {last}, but iterations={self.iterations}")
        return self

    def earlier(self) -> Self:
        """Return the parameters at the end of the history, of a training up to there."""
        assert self.history is not None
        *before, (iteration, changed) = _segments_of(self.history)
        history = None if not before else self.history.rpartition(";")[0]
        values = self.model_dump(exclude_unset=True)
        return self.model_validate({**values, **changed, "iterations": iteration, "history": history})


class Training(System):
    """Trains an agent with an algorithm of RLlib, and judges it on data that it does not learn from.

    A subclass sets `name` ("SYSTEM/ALGORITHM"), `version`, `Parameters` (derived from `TrainingParameters`),
    `metrics` (those of `evaluate` and `TRAINING_MEASURES`) and `objective`, and defines `config` and
    `evaluate`; `traces` names the logs, as in any system. Policies are networks of
    `gridtune.training.networks` unless it defines `write_policy` too.

    Attributes
    ----------
    objective
        The metric of `evaluate` by which the best policy is chosen.
    policy_file
        Name of the file with the best policy.
    changeable
        Parameters that may change while a training goes on, so that population based training can.
    """

    Parameters: ClassVar[type[SystemParameters]] = TrainingParameters
    objective: ClassVar[str]
    policy_file: ClassVar[str] = "best.pt"
    changeable: ClassVar[tuple[str, ...]] = ()
    needs_ray: ClassVar[bool] = True

    def resources(self, parameters: Any) -> CellResources:
        """Return a processor for the learner, its GPU, and the runners: one placement group."""
        gpus = 1.0 if parameters.device == "cuda" else 0.0
        return CellResources(gpus=gpus, helpers=getattr(parameters, "runners", 0))

    @abstractmethod
    def config(self, parameters: Any, *, seed: int, load: WorkloadLoader) -> Any:
        """Return RLlib's `AlgorithmConfig`; `build_algo()` of it is trained.

        Parameters
        ----------
        parameters
            An instance of `Parameters`; `device="cuda"` asks for a GPU for the learner.
        seed
            Seed of all random numbers.
        load
            Gives the workload of a reference that `traces` returned. What the environments need of it goes
            into the configuration, which is stored in checkpoints: they are loaded without it.
        """

    @abstractmethod
    def evaluate(
        self, parameters: Any, algorithm: Any, *, rng: np.random.Generator, load: WorkloadLoader
    ) -> Mapping[str, float]:
        """Return metrics of the agent as it is now, on data that it does not learn from.

        Parameters
        ----------
        parameters, load
            As of `config`.
        algorithm
            The algorithm.
        rng
            Random numbers, the same whenever this iteration is evaluated.
        """

    def write_policy(self, parameters: Any, algorithm: Any, path: Path, notes: Mapping[str, Any]) -> None:
        """Write the agent as it is now to one file, which the system plays (`policy=ppo checkpoint=FILE`).

        By default it is the network with its weights, and with the notes of `policy_notes`.

        Parameters
        ----------
        parameters, algorithm
            As of `evaluate`.
        path
            The file, in a folder that exists.
        notes
            Iteration and metrics, to be kept in the file.
        """
        from gridtune.training.networks import write_checkpoint  # noqa: PLC0415 (torch)
        from gridtune.training.rllib import network_of  # noqa: PLC0415 (RLlib)

        write_checkpoint(path, network_of(algorithm), notes={**notes, **self.policy_notes(parameters)})

    def policy_notes(self, parameters: Any) -> Mapping[str, Any]:
        """Return notes without which a policy cannot be played; by default none."""
        return {}

    def seed(self, streams: Streams) -> int:
        """Return the seed of the training in a replicate."""
        return int(streams("training").integers(2**31))

    def preflight(self, parameters: Any, load: WorkloadLoader) -> None:
        """Refuse to train without torch."""
        require_module("torch", user="training", extra="agents")

    def identity(self, parameters: Any, seed: int, load: WorkloadLoader) -> dict[str, Any]:
        """Return what identifies a training, whatever its number of iterations, as JSON has it."""
        determining = parameters.model_dump(mode="json", exclude={"iterations"}, exclude_defaults=True)
        if "trace" in determining:
            determining["trace"] = "content"
        decided = self.values_from_log(parameters, load)
        determining |= {name: value for name, value in decided.items() if value is not None}
        return {
            "training": self.name,
            "version": self.version,
            "code": code_of(self, parameters),
            "parameters": determining,
            "seed": seed,
            "traces": sorted(load(reference).checksum for reference in self.traces(parameters)),
        }

    def run(
        self, parameters: TrainingParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Train up to the last iteration, from an earlier checkpoint if there is one.

        The metrics are those of the last evaluation; the notes hold the learning curve.
        """
        done = self.trained(parameters, self.seed(streams), load)
        curve: list[Point] = read_state(done)["curve"]
        last = {**curve[-1], "iterations": len(curve)}
        metrics = {name: math.nan if last.get(name) is None else float(last[name]) for name in self.metrics}
        names = sorted({name for point in curve for name in point})
        columns = {name: [point.get(name) for point in curve] for name in names}
        return Outcome(metrics, {"learning_curve": columns})

    def checkpoint_of(self, parameters: TrainingParameters, seed: int, load: WorkloadLoader) -> Path:
        """Return where a cell leaves its last checkpoint; `is_complete` says whether it is there."""
        trainings = Path(os.environ.get(TRAININGS_VARIABLE) or user_cache() / "trainings")
        folder = trainings / content_id(self.identity(parameters, seed, load))
        return folder / f"{parameters.iterations:06d}"

    def trained(self, parameters: TrainingParameters, seed: int, load: WorkloadLoader) -> Path:
        """Return the checkpoint of a training at its last iteration, which is trained unless it is there.

        Checkpoints are kept in `GRIDTUNE_TRAININGS`, by default in the user's cache: one at the end of each
        cell, and the last one of a training that is going on. Their folder is the same for every number of
        iterations.
        """
        done = self.checkpoint_of(parameters, seed, load)
        folder = done.parent
        if is_complete(done):
            return done
        checkpoints = sorted(place for place in folder.glob("[0-9]*") if is_complete(place))
        below = [place for place in checkpoints if int(place.name) < parameters.iterations]
        begin = below[-1] if below else None
        if begin is None and parameters.history is not None:
            # With other parameters it is the training of another configuration, which has been here before.
            begin = self.trained(parameters.earlier(), seed, load)
        with (
            _own_random_numbers(),
            contextlib.closing(TrainingRun(self, parameters, seed=seed, load=load)) as run,
        ):
            if begin is not None:
                run.restore(begin)
            passing: Path | None = None
            while run.iteration < parameters.iterations:
                run.step()
                if run.iteration == parameters.iterations:
                    run.evaluate()
                elif run.iteration % parameters.validate_every:
                    continue
                partial, place = folder / f".{uuid.uuid4().hex}", folder / f"{run.iteration:06d}"
                partial.mkdir(parents=True)
                run.save(partial)
                shutil.rmtree(place, ignore_errors=True)
                partial.rename(place)
                if passing is not None:
                    shutil.rmtree(passing, ignore_errors=True)
                passing = place
        return done


def with_segment(history: str | None, iteration: int, parameters: Mapping[str, Any]) -> str:
    """Return a history with one segment more."""
    values = ", ".join(f"{name}={value!r}" for name, value in sorted(parameters.items()))
    return "; ".join([*([history] if history else []), f"{iteration}: {values}"])


def _segments_of(history: str) -> list[tuple[int, dict[str, str]]]:
    """Return the segments of a history: iteration, and parameters as texts.

    Raises
    ------
    ValueError
        If it is none.
    """
    segments = []
    for text in history.split(";"):
        iteration, _, values = text.partition(":")
        pairs = [pair.partition("=") for pair in values.split(",")]
        if not iteration.strip().isdecimal() or not all(sign for _, sign, _ in pairs):
            raise ValueError(f"must be `ITERATION: NAME=VALUE, …; …`, but got {history!r}")
        named = {name.strip(): value.strip().strip("'") for name, _, value in pairs}
        segments.append((int(iteration), named))
    return segments


class TrainingRun:
    """An algorithm of RLlib that is trained, evaluated and stored, iteration by iteration.

    A checkpoint is one of RLlib's own (`Algorithm.from_checkpoint` loads it) with two files more: the best
    policy so far, and the learning curve with the training's identity.

    Parameters
    ----------
    training, parameters
        The training and its parameters.
    seed
        The seed of all random numbers.
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
        self, training: Training, parameters: TrainingParameters, *, seed: int, load: WorkloadLoader
    ) -> None:
        import torch  # noqa: PLC0415

        require_device(parameters.device)
        # RLlib warns of the API that is the only one used here.
        logging.getLogger("ray.rllib").setLevel(logging.ERROR)
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
        """Evaluate the agent, unless that has been done; keep its policy if none before it was better."""
        point, objective = self.curve[-1], self._training.objective
        if objective in point:
            return
        rng = np.random.default_rng([self._seed, self.iteration])
        metrics = self._training.evaluate(self._parameters, self.algorithm, rng=rng, load=self._load)
        point |= {name: float(value) for name, value in metrics.items()}
        sign = 1.0 if self._training.metrics[objective].direction == "max" else -1.0
        score = sign * point[objective]
        if math.isfinite(score) and (self._best is None or score >= self._best):
            self._best = score
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / self._training.policy_file
                self._training.write_policy(self._parameters, self.algorithm, path, point)
                self._best_policy = path.read_bytes()

    def save(self, folder: str | Path) -> None:
        """Write a checkpoint into a folder."""
        folder = Path(folder)
        self.algorithm.save_to_path(str(folder.resolve()))
        if self._best_policy:
            (folder / self._training.policy_file).write_bytes(self._best_policy)
        state = {
            "identity": self._training.identity(self._parameters, self._seed, self._load),
            "iteration": self.iteration,
            "best": self._best,
            "curve": finite_json(self.curve),
            "files": {
                str(file.relative_to(folder)): file.stat().st_size
                for file in sorted(folder.rglob("*"))
                if file.is_file()
            },
        }
        (folder / _STATE_FILE).write_text(json.dumps(state), encoding="utf-8")

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


def read_state(folder: str | Path) -> dict[str, Any]:
    """Return the state of a training that its checkpoint has.

    Raises
    ------
    PolicyError
        If the folder is no checkpoint of a training.
    """
    file = Path(folder) / _STATE_FILE
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


def require_device(device: str) -> None:
    """Refuse cuda where there is none.

    Raises
    ------
    PolicyError
        If this machine has no GPU that torch can use.
    """
    import torch  # noqa: PLC0415

    if device == "cuda" and not torch.cuda.is_available():
        raise PolicyError(
            "there is no GPU that torch can use here", field="device", hint="leave device=cuda out"
        )


def _figures(result: Mapping[str, Any]) -> Point:
    """Return the figures of RLlib's result that a learning curve has: returns, steps, losses."""
    from ray.rllib.core import DEFAULT_MODULE_ID  # noqa: PLC0415

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


@contextlib.contextmanager
def _own_random_numbers() -> Iterator[None]:
    """Leave the global generators as they were: algorithms seed them."""
    import torch  # noqa: PLC0415

    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
