"""What can be found wrong with a sweep before it starts: log, machine, extras, room on the disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gridtune.core.cells import Cell, CellResult
from gridtune.core.extras import MissingExtraError
from gridtune.core.resources import CellResources
from gridtune.core.system import System, SystemParameters
from gridtune.errors import GridtuneError, SpaceError, SweepError
from gridtune.sweep.execution.cluster import is_client
from gridtune.sweep.space.checks import as_space, check_space
from gridtune.sweep.space.plan import Configuration, Planner, Stratum, Workloads
from gridtune.sweep.space.schema import SearchSpace

__all__ = [
    "Outline",
    "cell_needs",
    "check_address",
    "check_room",
    "preflight",
    "space_outline",
]

#: Bytes free below which a sweep is not started: journal, tables, figures and Tune's scratch need some.
_LEAST_FREE = 50 * 2**20


def preflight(planner: Planner) -> None:
    """Ask the system whether it can run the space's configurations on its workloads.

    Every listed value and both ends of every range are tried once on each workload, in few configurations;
    nothing is simulated.

    Raises
    ------
    SpaceError
        If it cannot, at the place of the space that is to blame.
    MissingExtraError
        If it needs a package that is not installed: nothing in the space is wrong.
    """
    for stratum, parameters in _corners(planner):
        _ask(planner, stratum, parameters)


def cell_needs(planner: Planner) -> CellResources:
    """Return what a worker needs that runs any of the space's cells.

    The system says what its cells need, and the space's `resources` what they get instead.
    """
    system, resources = planner.system, planner.space.resources
    needs = CellResources.largest(system.resources(parameters) for _, parameters in _corners(planner))
    return replace(
        needs,
        cpus=needs.cpus if resources.cpus is None else resources.cpus,
        gpus=needs.gpus if resources.gpus is None else resources.gpus,
        memory=needs.memory if resources.memory is None else resources.memory * 2**30,
    )


def _corners(planner: Planner) -> Iterator[tuple[Stratum, SystemParameters]]:
    for stratum in planner.strata:
        for point in planner.corners() or [{}]:
            stated = {**planner.space.fixed, **stratum.parameters, **point}
            try:
                yield stratum, planner.system.Parameters.model_validate(stated)
            except ValidationError:
                continue  # the cells are checked one by one, with better words


def _ask(planner: Planner, stratum: Stratum, parameters: SystemParameters) -> None:
    system, space = planner.system, planner.space
    try:
        system.preflight(parameters, planner.workloads.load)
    except (SpaceError, MissingExtraError):
        raise
    except GridtuneError as fault:
        message = f"{system.name} cannot run {stratum.label}: {fault.message}"
        raise space.fault(message, *_place(planner, stratum, fault.field), hint=fault.hint) from None


def _place(planner: Planner, stratum: Stratum, field: str | None) -> tuple[str | int, ...]:
    """Return where the space sets a parameter or, where it does not, names the workload."""
    space = planner.space
    for name in (field, "trace"):
        if name in stratum.parameters:
            return ("workloads", planner.strata.index(stratum), str(name))
        if name in space.dimensions:
            return ("dimensions", str(name))
        if name in space.fixed:
            return ("fixed", str(name))
    return ()


def check_address(address: str | None, system: System) -> None:
    """Refuse Ray Client for trainings: their checkpoints would be on the cluster, out of this process' reach.

    Raises
    ------
    SweepError
        For `ray://HOST:PORT`, given or in `RAY_ADDRESS`, with a system that needs Ray itself.
    """
    address = address or os.environ.get("RAY_ADDRESS") or ""
    if is_client(address) and system.needs_ray:
        host = address.removeprefix("ray://").partition(":")[0]
        raise SweepError(
            f"agents cannot be trained over Ray Client ({address}): the trainings' checkpoints would stay on "
            "the cluster, and this process reads them",
            hint=f"send it as a job (scripts/submit SPACE --address http://{host}:8265), or run this command "
            f"on a machine of the cluster with --address {host}:6379",
        )


def check_room(folder: Path) -> None:
    """Refuse a folder on a disk that is all but full.

    Raises
    ------
    SweepError
        With the folder and what is free.
    """
    existing = next(path for path in (folder, *folder.resolve().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < _LEAST_FREE:
        raise SweepError(
            f"only {free / 2**20:.0f} MB are free on this disk, a sweep needs {_LEAST_FREE / 2**20:.0f}",
            path=folder,
            hint="make room, or give a folder on another disk with --out",
        )


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
