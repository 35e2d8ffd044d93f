"""Checkpoints: one file that holds a policy and, while it is in training, what training needs to go on."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import torch
from torch import Tensor

from gridtune.errors import PolicyError
from gridtune.training.networks import ActorCritic, make_network

__all__ = ["Checkpoint", "load_policy", "read_checkpoint", "write_checkpoint"]

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds.

    Attributes
    ----------
    network
        Arguments of `make_network`.
    weights
        Its weights by name.
    trainer
        The trainer's settings, count of updates and optimiser; none for a policy alone.
    notes
        What whoever wrote it wanted kept, such as the update's scores.
    """

    network: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    trainer: Mapping[str, Any] | None
    notes: Mapping[str, Any]


def write_checkpoint(
    path: str | Path,
    network: ActorCritic,
    *,
    trainer: Mapping[str, Any] | None = None,
    notes: Mapping[str, Any] | None = None,
) -> None:
    """Write a network, and what its trainer needs, to a file; whoever reads meanwhile finds the old one."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    weights = {name: weight.cpu() for name, weight in network.state_dict().items()}
    content = {"format": FORMAT, "network": network.description(), "weights": weights}
    partial = target.with_name(target.name + ".partial")
    torch.save({**content, "trainer": trainer, "notes": dict(notes or {})}, partial)
    partial.replace(target)


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint; nothing in it is executed."""
    file = Path(path)
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}", path=file) from error
    except (RuntimeError, EOFError, BadZipFile, pickle.UnpicklingError, ValueError, KeyError) as error:
        raise PolicyError("is no checkpoint of a policy", path=file) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise PolicyError(f"is no checkpoint of format {FORMAT}", path=file)
    return Checkpoint(content["network"], content["weights"], content["trainer"], content["notes"])


def load_policy(path: str | Path) -> ActorCritic:
    """Return the network of a checkpoint, ready to play."""
    checkpoint = read_checkpoint(path)
    network = make_network(**checkpoint.network)
    network.load_state_dict(checkpoint.weights)
    return network.eval()
