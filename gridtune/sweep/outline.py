"""What a sweep is made of, counted without making its cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gridtune.core.cells import Cell, CellResult
from gridtune.sweep.plan import Configuration, Planner
from gridtune.sweep.preflight import preflight
from gridtune.sweep.space import SearchSpace
from gridtune.sweep.space_check import as_space, check_space
from gridtune.sweep.workloads import Workloads

__all__ = ["Outline", "space_outline"]


class Outline:
    """The cells of a space that are known up front, by configuration.

    A cell is a configuration with a replicate. There may be a hundred million, of few configurations.

    Parameters
    ----------
    planner
        The space's.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._configurations: dict[str, Configuration] = {}
        with planner.blaming_values():
            for configuration in planner.configurations():
                self._configurations.setdefault(configuration.configuration_id, configuration)
                # What the system refuses with a replicate, it refuses with the first.
                planner.cell(configuration, planner.replicates[0])

    def __len__(self) -> int:
        return len(self._configurations) * len(self._planner.replicates)

    @property
    def configurations(self) -> Mapping[str, Configuration]:
        """The configurations by id, in the order of the results."""
        return self._configurations

    def cells(self) -> Iterator[Cell]:
        """Yield each cell, in the order of the results."""
        for configuration in self._configurations.values():
            for replicate in self._planner.replicates:
                yield self._planner.cell(configuration, replicate)

    def has(self, result: CellResult) -> bool:
        """Return whether a result is of a cell of the space."""
        configuration = self._configurations.get(result.configuration_id)
        if configuration is None or not 0 <= result.seed < len(self._planner.replicates):
            return False
        # A replicate's seed is its number.
        cell = self._planner.cell(configuration, self._planner.replicates[result.seed])
        return cell.cell_id == result.cell_id


def space_outline(space: SearchSpace | Mapping[str, Any] | str | Path) -> Outline:
    """Return what a sweep of a space is made of, checked as before a run.

    Raises
    ------
    SpaceError
        If the space is malformed, or the system refuses a configuration.
    """
    checked = as_space(space)
    planner = Planner(checked, check_space(checked), Workloads(checked.base))
    outline = Outline(planner)
    preflight(planner)
    return outline
