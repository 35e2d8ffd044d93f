"""Playing a trained policy on days: its reservations and its metrics."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
import torch

from gridtune.errors import PolicyError
from gridtune.systems.shutdown.metrics import combine_days, measure_days
from gridtune.systems.shutdown.simulator.clusters import ClusterBatch
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.observing import features_of
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from gridtune.systems.shutdown.simulator.state import View
from gridtune.training.acting import best_actions, draw
from gridtune.training.networks import ActorCritic
from gridtune.types import Float32Array, IntArray

__all__ = ["play_days", "score_days"]

#: Days that are simulated at once.
_BATCH_DAYS = 256


@torch.no_grad()
def play_days(
    network: ActorCritic,
    days: Days,
    platform: Platform | None = None,
    *,
    rng: np.random.Generator | None = None,
    tau: float = 0.5,
) -> IntArray:
    """Return the policy's reservations: shape (days, minutes), int64, as `replay` takes them.

    Parameters
    ----------
    network
        The policy.
    days, platform, tau
        As of `gridtune.systems.shutdown.simulator.clusters.ClusterBatch`.
    rng
        Samples actions from the policy; without it, the likeliest action is taken.
    """
    cluster = platform or Platform()
    network = network.resized(cluster.nodes + 1)
    features = features_of(network.view, cluster.nodes)
    if network.features != features:
        raise PolicyError(f"a policy of {network.features} features cannot read the {features} of a cluster")
    longest = int(days.minutes.max(initial=0))
    reserved = np.zeros((len(days), longest), np.int64)
    device = next(network.parameters()).device
    for first in range(0, len(days), _BATCH_DAYS):
        part = np.arange(first, min(first + _BATCH_DAYS, len(days)))
        batch = ClusterBatch(
            days.take(part), cluster, count=len(part), tau=tau, view=cast("View", network.view)
        )
        batch.reset(np.arange(len(part)))
        memory = network.memory(len(part))
        for minute in range(longest):
            seen = torch.from_numpy(batch.observations).to(device)
            chance = None if rng is None else rng.random(len(part), np.float32)
            deciding = torch.nonzero(network.decides(seen)).squeeze(-1)
            if len(deciding) == len(part):
                logits, _, memory = network.step(seen, memory)
            else:
                # Only networks without a memory have minutes in which there is nothing to decide.
                logits = network.step(seen[deciding], memory[deciding]).logits
            rows = deciding.cpu().numpy()
            reserved[part, minute] = cluster.nodes
            if len(deciding):
                drawn = None if chance is None else chance[rows]
                reserved[part[rows], minute] = _choose(logits, drawn, minute).cpu().numpy()
            # A shorter day goes on here; `replay` ends it in time.
            batch.step(reserved[part, minute])
    return reserved


def _choose(logits: torch.Tensor, chance: Float32Array | None, minute: int) -> torch.Tensor:
    if chance is None:
        return best_actions(logits, minute)
    return draw(logits, torch.from_numpy(chance).to(logits.device), minute)[0]


def score_days(
    network: ActorCritic,
    days: Days,
    platform: Platform | None = None,
    *,
    rng: np.random.Generator | None = None,
    tau: float = 0.5,
    variant: Literal["paper", "exact"] = "paper",
) -> dict[str, float]:
    """Return the shutdown system's metrics of a policy on days; see `play_days`."""
    cluster = platform or Platform()
    actions = play_days(network, days, cluster, rng=rng, tau=tau)
    results, _ = replay(days, cluster, rule=actions, tau=tau, variant=variant)
    return combine_days(measure_days(days, results, cluster, tau=tau))
