"""`CandidateNetwork`: a policy that scores the waiting jobs one by one with the same weights."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from gridtune.batch.simulator.decisions.observing import ROW, STATE
from gridtune.errors import PolicyError
from gridtune.training.networks import RowNetwork

__all__ = ["CandidateNetwork"]


class CandidateNetwork(RowNetwork):
    """Scores each candidate's row, given the machine's state; empty slots never win."""

    kind = "candidates"
    before: ClassVar[int] = STATE

    def __init__(self, features: int, actions: int) -> None:
        if features != STATE + actions * ROW:
            raise PolicyError(
                f"{actions} candidates have {STATE + actions * ROW} numbers, not {features}",
                hint="its environment is gridtune/Batch-v0 with flat=True",
            )
        super().__init__(features, actions)

    def choices(self, rows: Tensor) -> Tensor:
        """Return which slots hold a candidate: their first number says so."""
        return rows[..., :1] > 0.5
