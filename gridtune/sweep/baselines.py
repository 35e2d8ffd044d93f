"""Which configuration each other one is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["baseline_indices"]


def baseline_indices(configurations: Sequence[Mapping[str, Any]], wanted: Mapping[str, Any]) -> list[int]:
    """Return each configuration's baseline as an index, its own for a baseline, -1 where it has none.

    The baseline of a configuration has the same parameters but for those that `wanted` names.

    Parameters
    ----------
    configurations
        Parameters of each; one that does not apply is None or left out.
    wanted
        Parameters that make a configuration a baseline; empty for none.
    """
    if not wanted:
        return [-1] * len(configurations)
    candidates = [
        index
        for index, parameters in enumerate(configurations)
        if all(parameters.get(name) == value for name, value in wanted.items())
    ]
    exact = {_key(configurations[index]): index for index in candidates}

    def find(parameters: Mapping[str, Any]) -> int:
        target = {**parameters, **wanted}
        if _key(target) in exact:
            return exact[_key(target)]
        # A conditional parameter may not apply on one of the two sides; it cannot tell them apart.
        near = [
            index
            for index in candidates
            if all(
                value == target.get(name) or value is None or target.get(name) is None
                for name, value in configurations[index].items()
            )
        ]
        return near[0] if len(near) == 1 else -1

    return [find(parameters) for parameters in configurations]


def _key(parameters: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return what tells configurations apart; a list counts by its text."""
    return tuple(
        (name, str(value) if isinstance(value, list | dict) else value)
        for name, value in sorted(parameters.items(), key=lambda item: item[0])
        if value is not None
    )
