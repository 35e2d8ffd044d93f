"""What a reproduction names: the configurations of its experiments, and where its numbers come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gridtune.core.reproduction import Experiment, Reproduction
from gridtune.core.system import System
from gridtune.sweep.space.overriding import trimmed_space
from gridtune.sweep.space.plan import space_points, space_strata

__all__ = ["configurations", "named_numbers", "selected"]


def configurations(experiment: Experiment, system: System) -> list[tuple[str, dict[str, Any]]]:
    """Return label of the workload and parameters of each configuration of the whole experiment."""
    space = trimmed_space(experiment, quick=False)
    every = [
        (stratum.label, {**space.fixed, **stratum.parameters, **point})
        for stratum in space_strata(space, system)
        for point in space_points(space)
    ]
    for _, parameters in every:
        log = experiment.logs.get(str(parameters.get("trace")))
        parameters["trace"] = parameters.get("trace") if log is None else log.real
    return every


def selected(where: Mapping[str, Any], every: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the workload's label of each configuration that a reading selects."""
    return [
        label
        for label, parameters in every
        if all(
            (label if name == "workload" else parameters.get(name)) == value for name, value in where.items()
        )
    ]


def named_numbers(reproduction: Reproduction) -> Iterator[tuple[object, object]]:
    """Yield where each of our numbers comes from, with the published one's name."""
    for claim in reproduction.claims:
        yield from ((criterion.ours, criterion.published) for criterion in claim.criteria)
    for table in reproduction.tables:
        yield from ((cell.ours, cell.published) for row in table.rows for cell in row.cells)
