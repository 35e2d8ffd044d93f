"""Policies as files: a network with its weights, and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gridtune.core.array_files import check_unpacked_size
from gridtune.errors import PolicyError
from gridtune.training.networks import ActorCritic, make_network

__all__ = ["Checkpoint", "load_policy", "read_checkpoint", "write_checkpoint"]

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint.

    Attributes
    ----------
    network
        Arguments of `make_network`.
    weights
        Its weights by name.
    notes
        Notes of the writer, such as the scores of a validation.
    """

    network: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    notes: Mapping[str, Any]


def write_checkpoint(
    path: str | Path, network: ActorCritic, *, notes: Mapping[str, Any] | None = None
) -> None:
    """Write a network to a file; the file is replaced atomically."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    weights = {name: weight.cpu() for name, weight in network.state_dict().items()}
    content = {"format": FORMAT, "network": network.description(), "weights": weights}
    partial = target.with_name(target.name + ".partial")
    torch.save({**content, "notes": dict(notes or {})}, partial)
    partial.replace(target)


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint without executing anything in it."""
    file = Path(path)
    try:
        check_unpacked_size(file, error=PolicyError)
        content = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}", path=file) from error
    except PolicyError:
        raise
    except Exception as error:  # what a damaged file raises depends on where in it torch stumbles
        raise PolicyError("is not a checkpoint of a policy", path=file) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise PolicyError(f"is not a checkpoint of format {FORMAT}", path=file)
    parts: list[Any] = [content.get(name) for name in ("network", "weights", "notes")]
    if not all(isinstance(part, dict) for part in parts):
        raise PolicyError("is not a checkpoint of a policy", path=file)
    return Checkpoint(*parts)


def load_policy(path: str | Path) -> ActorCritic:
    """Return the network of a checkpoint in evaluation mode."""
    checkpoint = read_checkpoint(path)
    try:
        network = make_network(**checkpoint.network)
        network.load_state_dict(dict(checkpoint.weights))
    except (TypeError, ValueError, RuntimeError, AttributeError, OverflowError, MemoryError) as error:
        raise PolicyError("its weights are not those of its network", path=path) from error
    return network.eval()
