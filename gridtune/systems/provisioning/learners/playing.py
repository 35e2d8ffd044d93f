"""A trained network goes through the slots of problems, with its likeliest actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from gridtune.systems.provisioning.environment.choices import ChoiceBatch
from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.types import IntArray

if TYPE_CHECKING:
    from gridtune.training.networks import ActorCritic

__all__ = ["play"]


@torch.no_grad()
def play(
    network: ActorCritic, problems: Sequence[PlanProblem], *, release: bool = True
) -> tuple[ChoiceBatch, IntArray]:
    """Play one episode of each problem, all of them side by side.

    Parameters
    ----------
    network
        The agent.
    problems
        With equal scheduler and rules.
    release
        Whether plans release the slots that no task uses.

    Returns
    -------
    batch
        Its state has the slots kept, and the costs of the plans.
    plans
        Shape (problems,): how many plans were made for each.
    """
    count = len(problems)
    batch = ChoiceBatch(problems, count, release=release)
    everywhere, nowhere = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    batch.step(np.ones(count, np.int64), everywhere, np.arange(count))
    plans, state, begins = np.ones(count, np.int64), network.initial_state(count), everywhere
    while not batch.observed.over.all():
        rows = torch.as_tensor(batch.observed.rows[None])
        logits, _, state = network(rows, torch.as_tensor(begins[None]), state)
        actions = logits[0].argmax(-1).numpy()
        plans += (actions == 0) & ~batch.observed.over
        batch.step(actions, nowhere, np.arange(count))
        begins = nowhere
    return batch, plans
