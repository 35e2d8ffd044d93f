"""`TrainingContract`: what is known of a training by everything that runs one.

A training of your own derives from `gridtune.training.system.Training`, which can also be run as a cell.

Nothing here imports torch or RLlib before something is trained.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from gridtune.core.extras import require_module
from gridtune.core.measure import Measure
from gridtune.core.resources import CellResources
from gridtune.core.system import Streams, System, SystemParameters, WorkloadLoader
from gridtune.training.history import segments_of

__all__ = [
    "TRAININGS_VARIABLE",
    "TRAINING_MEASURES",
    "Count",
    "TrainingContract",
    "TrainingParameters",
]

#: Environment variable for the folder of the checkpoints of cells; by default one in the user's cache.
TRAININGS_VARIABLE = "GRIDTUNE_TRAININGS"

Count = Annotated[int, Field(ge=1)]

#: Metrics that every training has, beside those of its evaluation.
TRAINING_MEASURES: Mapping[str, Measure] = {
    "return_mean": Measure(
        "1", "max", "mean sum of rewards over the episodes of the last iteration", source="gridtune"
    ),
    "iterations": Measure("iterations", "none", "iterations of the algorithm", source="gridtune"),
}


class TrainingParameters(SystemParameters):
    """The parameters that every training has; a subclass adds those of its environment and algorithm."""

    iterations: Count = Field(100, description="iterations of the algorithm", examples=[10])
    validate_every: Count = Field(10, description="iterations between evaluations on held-out data")
    history: str | None = Field(
        None,
        description="parameters that were others before, each segment up to its iteration: population based "
        "training sets it",
        examples=["10: learning_rate=0.001; 20: learning_rate=0.002"],
    )
    device: Literal["cpu", "cuda"] = Field(
        "cpu", description="where the network learns; results on cuda differ in their last bits"
    )

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
        *before, (iteration, changed) = segments_of(self.history)
        history = None if not before else self.history.rpartition(";")[0]
        values = self.model_dump(exclude_unset=True)
        return self.model_validate({**values, **changed, "iterations": iteration, "history": history})


class TrainingContract(System):
    """Trains an agent with an algorithm of RLlib, and judges it on data that it does not learn from.

    A subclass sets `name` ("SYSTEM/ALGORITHM"), `version`, `Parameters` (derived from `TrainingParameters`),
    `metrics` (those of `evaluate` and `TRAINING_MEASURES`) and `objective`, and defines `config`, `evaluate`
    and `write_policy`; `traces` names the logs, as in any system.

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
            What all random numbers derive from.
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

    @abstractmethod
    def write_policy(self, parameters: Any, algorithm: Any, path: Path, notes: Mapping[str, Any]) -> None:
        """Write the agent as it is now to one file, which the system plays (`policy=ppo checkpoint=FILE`).

        Parameters
        ----------
        parameters, algorithm
            As of `evaluate`.
        path
            The file, in a folder that exists.
        notes
            Iteration and metrics, to be kept in the file.
        """

    def seed(self, streams: Streams) -> int:
        """Return the seed of the training in a replicate."""
        return int(streams("training").integers(2**31))

    def preflight(self, parameters: Any, load: WorkloadLoader) -> None:
        """Refuse to train without torch."""
        require_module("torch", user="training", extra="agents")
