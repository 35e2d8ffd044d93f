"""How a sweep was made: the command that runs it again, software, checksums, what was cleaned or lost."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gridtune.core.cells import CellResult
from gridtune.report.facts import SweepFacts
from gridtune.report.labels import configuration_label, number_text

__all__ = ["MOST_FAILED", "cell_notes", "command_of", "failed_cells", "space_yaml"]

#: Cells without a result that the page lists.
MOST_FAILED = 200
#: Characters of an error that the page shows: the end says what went wrong.
_LONGEST_ERROR = 4_000


def command_of(facts: SweepFacts, directory: Path) -> str:
    """Return the command that runs the sweep again, as it was given where that is known."""
    if facts.command:
        return f"cd {shlex.quote(facts.folder)}\n{facts.command}"
    source = facts.source or f"{facts.name}.yaml"
    return f"gridtune sweep {shlex.quote(source)} --out {shlex.quote(str(directory))}"


def space_yaml(facts: SweepFacts) -> str:
    """Return the search space as a YAML file; paths in it are those of the file it came from."""
    return str(yaml.safe_dump(dict(facts.space), sort_keys=False, allow_unicode=True, width=100))


def failed_cells(results: Iterable[CellResult]) -> Iterator[tuple[CellResult, str, str]]:
    """Yield each cell without a result, its configuration in words, and the end of its error."""
    for result in results:
        if result.state != "done":
            label = configuration_label(result.configuration, sorted(result.configuration))
            error = (result.error or result.state).strip()
            yield result, label, error if len(error) <= _LONGEST_ERROR else f"… {error[-_LONGEST_ERROR:]}"


def cell_notes(results: Sequence[CellResult]) -> list[tuple[str, str, str]]:
    """Return (workload, note, value) of what the cells say beside their metrics: jobs, cleaning, and so on.

    A note that differs among the cells of a workload is given as its range; words that differ are left out.
    """
    found: dict[tuple[str, str], list[Any]] = {}
    last: dict[tuple[str, str], Mapping[str, Any]] = {}
    for result in results:
        # Most configurations note the same of a replicate.
        if last.get((result.workload, result.replicate)) == result.notes:
            continue
        last[result.workload, result.replicate] = result.notes
        for name, value in _flat(result.notes):
            found.setdefault((result.workload, name), []).append(value)
    return [
        (workload, name, text)
        for (workload, name), values in found.items()
        if (text := _range_text(values)) is not None
    ]


def _flat(notes: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in notes.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}: ")
        elif isinstance(value, int | float | str):
            yield f"{prefix}{name}", value


def _range_text(values: Sequence[Any]) -> str | None:
    distinct = set(values)
    numbers = [value for value in distinct if _is_number(value) and math.isfinite(value)]
    if len(distinct) == 1:
        return _text(values[0])
    if len(numbers) < len(distinct):
        return None
    return f"{_text(min(numbers))} … {_text(max(numbers))}"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return number_text(value, 6)
    return f"{value:,}" if _is_number(value) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
