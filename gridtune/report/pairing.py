"""The cells of two sides of a comparison: which of them are pairs, and what is to be said of the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gridtune.errors import SweepError
from gridtune.report.labels import PARAMETER_PREFIX

__all__ = ["Pairs", "SideCells", "cells_of", "common_cells", "value_of"]


def value_of(row: Mapping[str, Any], name: str, defaults: Mapping[str, Any]) -> Any:
    """Return a parameter of a row of a table of cells, its default where the table has no such column."""
    return row.get(PARAMETER_PREFIX + name, defaults.get(name))


@dataclass(frozen=True)
class SideCells:
    """A side's cells: by workload and configuration, by replicate."""

    rows: Mapping[tuple[str, tuple[Any, ...]], Mapping[tuple[str, int], Mapping[str, Any]]]
    checksums: Mapping[str, str]


def cells_of(
    table: Sequence[Mapping[str, Any]], apart: Sequence[str], defaults: Mapping[str, Any]
) -> SideCells:
    """Return a side's cells, configurations told apart by the parameters `apart`.

    Raises
    ------
    SweepError
        If two configurations of a workload have the same values of them.
    """
    rows: dict[tuple[str, tuple[Any, ...]], dict[tuple[str, int], Mapping[str, Any]]] = {}
    checksums: dict[str, str] = {}
    for row in table:
        configuration = tuple(value_of(row, name, defaults) for name in apart)
        replicates = rows.setdefault((row["workload"], configuration), {})
        before = replicates.setdefault((row["replicate"], row["seed"]), row)
        if before["configuration_id"] != row["configuration_id"]:
            raise SweepError(
                "several configurations of a side cannot be told apart by their parameters",
                hint="name more of their parameters with --configuration",
            )
        checksums[row["workload"]] = row["trace_checksum"]
    return SideCells(rows, checksums)


#: Workload and configuration on both sides, to the replicates that both have.
Pairs = dict[tuple[tuple[str, tuple[Any, ...]], tuple[str, tuple[Any, ...]]], list[tuple[str, int]]]


def common_cells(sides: Sequence[SideCells], names: tuple[str, str]) -> tuple[Pairs, list[str]]:
    """Return what both sides have, and what is to be said of the rest."""
    workloads = _workloads(sides, names)
    pairs: Pairs = {}
    notes = []
    single = incomplete = 0
    for key, replicates in sides[0].rows.items():
        if key[0] not in workloads:
            continue
        other = (workloads[key[0]], key[1])
        if other not in sides[1].rows:
            single += 1
            continue
        both = [replicate for replicate in replicates if replicate in sides[1].rows[other]]
        if not both:
            texts = (_replicates_text(side, place) for side, place in zip(sides, (key, other), strict=True))
            has, have = (f"{name} has {text}" for name, text in zip(names, texts, strict=True))
            raise SweepError(f"on {key[0]} the two have no replicate in common: {has}, {have}")
        incomplete += len(both) < max(len(replicates), len(sides[1].rows[other]))
        pairs[key, other] = both
    single += sum(
        place[0] in workloads.values() and place not in {other for _, other in pairs}
        for place in sides[1].rows
    )
    left = [set(side.checksums) - set(taken) for side, taken in zip(sides, _both(workloads), strict=True)]
    if any(left):
        listed = ", ".join(sorted(left[0] | left[1]))
        notes.append(f"only one of the two has the workload {listed}")
    if single:
        notes.append(f"{single} configurations are in one of the two only, and left out")
    if incomplete:
        verb = "comparisons leave" if incomplete > 1 else "comparison leaves"
        notes.append(f"{incomplete} {verb} out replicates that only one of the two has")
    return pairs, notes


def _both(workloads: Mapping[str, str]) -> tuple[Iterable[str], Iterable[str]]:
    return workloads.keys(), workloads.values()


def _replicates_text(side: SideCells, place: tuple[str, tuple[Any, ...]]) -> str:
    labels = [label for label, _ in side.rows[place]]
    return labels[0] if len(labels) == 1 else f"{labels[0]} … {labels[-1]}"


def _workloads(sides: Sequence[SideCells], names: tuple[str, str]) -> dict[str, str]:
    """Return the first side's workloads that the second has: by name or else by content."""
    first, second = (side.checksums for side in sides)
    found = {}
    for name, checksum in first.items():
        if name in second:
            if second[name] != checksum:
                contents = f"{checksum[:12]} in {names[0]}, {second[name][:12]} in {names[1]}"
                raise SweepError(f"{name} is not the same log on both sides: its SHA-256 is {contents}")
            found[name] = name
            continue
        same = [other for other, content in second.items() if content == checksum and other not in first]
        if len(same) == 1:
            found[name] = same[0]
    if not found:
        lists = [", ".join(sorted(side.checksums)) for side in sides]
        raise SweepError(
            f"the two have no workload in common: {names[0]} has {lists[0]}, {names[1]} has {lists[1]}"
        )
    return found
