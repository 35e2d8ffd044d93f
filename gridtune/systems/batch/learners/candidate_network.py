"""`CandidateNetwork`, a policy that scores the waiting jobs one by one, and how a trained one is played."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gridtune.batch.environment import BatchVectorEnv
from gridtune.batch.estimates import Kill
from gridtune.batch.simulator.machines import PREDICTED, ROW, STATE
from gridtune.core.schedules.schedule import Schedule
from gridtune.errors import PolicyError
from gridtune.training.networks import ActorCritic, RowNetwork, load_policy, read_checkpoint
from gridtune.types import FloatArray, IntArray
from gridtune.workload.workload import Workload


class CandidateNetwork(RowNetwork):
    """Scores each candidate's row, given the machine's state; empty slots never win."""

    kind = "candidates"
    before: ClassVar[int] = STATE

    def __init__(self, features: int, actions: int) -> None:
        if features - STATE not in (actions * ROW, actions * (ROW + PREDICTED)):
            raise PolicyError(
                f"{actions} candidates have {STATE + actions * ROW} numbers, not {features}",
                hint="its environment is gridtune/Batch-v0 with flat=True",
            )
        super().__init__(features, actions)

    def choices(self, rows: Tensor) -> Tensor:
        """Return which slots hold a candidate: their first number says so."""
        return rows[..., :1] > 0.5


#: The note of a checkpoint with what the policy decides: options of `BatchVectorEnv`.
ENVIRONMENT = "environment"


@torch.no_grad()
def play_windows(network: ActorCritic, machines: BatchVectorEnv, first: IntArray) -> FloatArray:
    """Play the windows whose first jobs have these numbers; return the sums of rewards: shapes (count,).

    The likeliest choice is taken each time.
    """
    network = network.resized(machines.actions)
    begins, state = (
        torch.zeros(1, machines.num_envs, dtype=torch.bool),
        network.initial_state(machines.num_envs),
    )
    returns = np.zeros(machines.num_envs)
    machines.begin(np.ones(machines.num_envs, np.bool_), first)
    while not machines.over.all():
        going = ~machines.over
        logits = network(torch.from_numpy(machines.observed)[None], begins, state).logits[0]
        machines.decide(logits.argmax(-1).numpy(), going)
        returns[going] += machines.rewards[going]
    return returns


def play_log(file: Path, workload: Workload, processors: int | None, *, kill: Kill = "auto") -> Schedule:
    """Return the schedule of a whole log under the policy in a file.

    Raises
    ------
    PolicyError
        If the file holds a policy of another system.
    """
    options: dict[str, Any] | None = read_checkpoint(file)["notes"].get(ENVIRONMENT)
    if options is None:
        raise PolicyError("is not a policy of the batch system", path=file)
    machines = BatchVectorEnv(1, workload, processors=processors, jobs=len(workload), kill=kill, **options)
    play_windows(load_policy(file), machines, np.zeros(1, np.int64))
    return machines.schedule()
