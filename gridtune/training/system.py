"""`Training`: the contract of whatever trains an agent for a system with an algorithm of RLlib.

A system names its trainings, and so they have a name of their own, `SYSTEM/ALGORITHM`:

    trainings = {"ppo": "my_package.training:AdmissionPPO"}

`gridtune train SYSTEM` runs one of them as a trial of Tune. A training is also a system itself, whose cells
train up to some iteration: search spaces sweep it like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gridtune.core.system import Outcome, Streams, WorkloadLoader
from gridtune.training.contract import (
    TRAINING_MEASURES,
    TRAININGS_VARIABLE,
    Count,
    TrainingContract,
    TrainingParameters,
)

__all__ = [
    "TRAININGS_VARIABLE",
    "TRAINING_MEASURES",
    "Count",
    "Training",
    "TrainingParameters",
]


class Training(TrainingContract):
    """Trains an agent with an algorithm of RLlib, and judges it on data that it does not learn from.

    What a subclass sets and defines, `TrainingContract` says. Policies are networks of
    `gridtune.training.networks` unless it writes others.
    """

    def write_policy(self, parameters: Any, algorithm: Any, path: Path, notes: Mapping[str, Any]) -> None:
        """Write the network with its weights, and with the notes of `policy_notes`."""
        from gridtune.training.checkpoints import write_checkpoint  # noqa: PLC0415 (torch)
        from gridtune.training.rllib import network_of  # noqa: PLC0415 (RLlib)

        write_checkpoint(path, network_of(algorithm), notes={**notes, **self.policy_notes(parameters)})

    def policy_notes(self, parameters: Any) -> Mapping[str, Any]:
        """Return what a policy needs beside its weights to be played; by default nothing."""
        return {}

    def run(
        self, parameters: TrainingParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Train up to the last iteration, from an earlier checkpoint if there is one.

        The metrics are those of the last evaluation; the notes hold the learning curve.
        """
        from gridtune.training.cells import train_cell  # noqa: PLC0415 (RLlib)

        return train_cell(self, parameters, seed=self.seed(streams), load=load)
