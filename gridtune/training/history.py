"""The history of a training whose parameters have changed: `10: gamma=0.99; 20: gamma=0.95`.

Each segment has the last iteration with these parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["HISTORY", "segments_of", "with_segment"]

#: The parameter of a training that has it.
HISTORY = "history"


def with_segment(history: str | None, iteration: int, parameters: Mapping[str, Any]) -> str:
    """Return a history with one segment more."""
    values = ", ".join(f"{name}={value!r}" for name, value in sorted(parameters.items()))
    return "; ".join([*([history] if history else []), f"{iteration}: {values}"])


def segments_of(history: str) -> list[tuple[int, dict[str, str]]]:
    """Return the segments of a history: iteration, and parameters as texts.

    Raises
    ------
    ValueError
        If it is none.
    """
    segments = []
    for text in history.split(";"):
        iteration, _, values = text.partition(":")
        pairs = [pair.partition("=") for pair in values.split(",")]
        if not iteration.strip().isdecimal() or not all(sign for _, sign, _ in pairs):
            raise ValueError(f"must be `ITERATION: NAME=VALUE, …; …`, but got {history!r}")
        named = {name.strip(): value.strip().strip("'") for name, _, value in pairs}
        segments.append((int(iteration), named))
    return segments
