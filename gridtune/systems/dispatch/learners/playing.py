"""A trained network sends jobs to machines, by its likeliest actions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gridtune.errors import PolicyError
from gridtune.systems.dispatch.simulator.batch import BrokerBatch
from gridtune.systems.dispatch.simulator.model import DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.replay import ORDERS, DispatchOutcome
from gridtune.training.networks import ActorCritic, load_policy, read_checkpoint

__all__ = ["BROKER", "play", "play_file"]

#: The note of a checkpoint with the order of the queues, and how much a job counts for the learned speeds.
BROKER = "broker"


@torch.no_grad()
def play(
    network: ActorCritic, episodes: Sequence[DispatchJobs], machines: Machines, *, order: str, forget: float
) -> list[DispatchOutcome]:
    """Play episodes of as many jobs each, all of them side by side.

    Parameters
    ----------
    network
        The agent.
    episodes
        Their jobs.
    machines
        They neither change nor fail.
    order, forget
        See `gridtune.systems.dispatch.simulator.replay.dispatch`.
    """
    count = len(episodes)
    brokers = BrokerBatch(episodes[0], machines, order=ORDERS[order], count=count, forget=forget)
    for index, jobs in enumerate(episodes):
        brokers.begin(index, jobs)
    begins = np.ones(count, np.bool_)
    brokers.step(np.zeros(count, np.int64), begins)
    state = network.initial_state(count)
    # There is one decision for each job, so all episodes end with the same step.
    while not brokers.observed.over[0]:
        seen = torch.from_numpy(brokers.observed.features)[None]
        logits, _, state = network(seen, torch.from_numpy(begins)[None], state)
        brokers.step(logits[0].argmax(-1).numpy())
        begins = np.zeros(count, np.bool_)
    return [brokers.outcome(index) for index in range(count)]


def play_file(file: Path, jobs: DispatchJobs, machines: Machines) -> DispatchOutcome:
    """Return the results of jobs under the policy in a file.

    Raises
    ------
    PolicyError
        If the file holds a policy of another system, or one for another number of machines.
    """
    settings: dict[str, Any] | None = read_checkpoint(file).notes.get(BROKER)
    if settings is None:
        raise PolicyError("is not a policy of the dispatch system", path=file)
    (outcome,) = play(load_policy(file).resized(len(machines)), [jobs], machines, **settings)
    return outcome
