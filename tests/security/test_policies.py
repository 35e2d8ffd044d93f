"""A stranger's agent can be played: of its files only weights are read."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import pytest
import torch

from gridtune.errors import PolicyError
from gridtune.tracking.checkpoints import find_policy
from gridtune.training.networks import load_policy, make_network, write_checkpoint
from tests.security.evil import Evil


def test_a_strangers_policy_executes_nothing(tmp_path: Path) -> None:
    made = tmp_path / "made"
    for name, content in (("zip.pt", _saved(Evil(made))), ("plain.pt", pickle.dumps(Evil(made), protocol=2))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(PolicyError, match="is not a checkpoint"):
            load_policy(tmp_path / name)
    assert not made.exists()


def _saved(value: object) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def test_of_a_strangers_checkpoint_only_the_weights_are_read(tmp_path: Path) -> None:
    """RLlib's checkpoints are pickles; a policy that is played has a file of its own in them."""
    write_checkpoint(tmp_path / "best.pt", make_network(kind="mlp", features=3, actions=2))
    for name in ("algorithm_state.pkl", "rllib_checkpoint.json", "class_and_ctor_args.pkl"):
        (tmp_path / name).write_bytes(pickle.dumps(Evil(tmp_path / "made")))
    assert load_policy(find_policy(tmp_path)) is not None
    assert not (tmp_path / "made").exists()
