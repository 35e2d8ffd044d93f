"""`Strategy`: which configurations of a search space are run."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from gridtune.registry import name_hint
from gridtune.sweep.strategies import (
    Adaptive,
    Halving,
    HyperBand,
    MedianStopping,
    Racing,
    Sampling,
    SpacePart,
    Stopping,
)
from gridtune.sweep.training_strategy import TrainingSearch

__all__ = ["Strategy"]


class Strategy(SpacePart):
    """Which configurations are run: exactly one of these."""

    grid: dict[str, Any] | None = None
    random: Sampling | None = None
    sobol: Sampling | None = None
    optuna: Adaptive | None = None
    asha: Halving | None = None
    hyperband: HyperBand | None = None
    median: MedianStopping | None = None
    race: Racing | None = None
    train: TrainingSearch | None = None

    @property
    def drawn(self) -> tuple[Literal["random", "sobol"], Sampling] | None:
        """How points that are known up front are drawn; None where they are not drawn."""
        source = self.race or self
        if source.random is not None:
            return "random", source.random
        return None if source.sobol is None else ("sobol", source.sobol)

    @property
    def adaptive(self) -> Adaptive | None:
        """The options of a strategy that chooses by what was found before, else None."""
        return self.optuna or self.stopping or (self.train.search if self.train else None)

    @property
    def stopping(self) -> Stopping | None:
        """The options of a strategy that stops configurations early, else None."""
        search = self.train.search if self.train else None
        return (
            self.asha or self.hyperband or self.median or (search if isinstance(search, Stopping) else None)
        )

    @model_validator(mode="before")
    @classmethod
    def _bare_word(cls, value: Any) -> Any:
        if value in ("grid", "race"):
            return {value: {}}
        if isinstance(value, str) and value in cls.model_fields:
            raise ValueError(f"{value} needs numbers, such as `{value}: {{samples: 100, seed: 1}}`")
        if isinstance(value, str):
            raise ValueError(f"no strategy is named {value!r}: {name_hint(value, cls.model_fields)}")
        return value

    @model_validator(mode="after")
    def _one_kind(self) -> Strategy:
        kinds = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise ValueError(
                f"exactly one of {', '.join(type(self).model_fields)} is needed, but got {kinds or 'none'}"
            )
        if self.grid:
            raise ValueError(f"grid takes no options, but got {sorted(self.grid)}")
        return self

    @property
    def kind(self) -> str:
        """Which of them it is."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)
