"""The files in a sweep's folder that are derived from its cells, listed so that outdated ones can go.

A sweep whose space has changed writes other tables and figures than before. Those of before would stand
beside them as if they were of the same study. Only what is on the list is ever removed: the journal, the
facts and whatever a person has put into the folder are not on it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from gridtune.report.cells import collect, value_matrix
from gridtune.types import FloatArray

__all__ = ["BOUND", "DERIVED_FILE", "add_derived", "bounds_of", "gap_to_bound", "replace_derived"]

#: The list in a sweep's folder.
DERIVED_FILE = "derived.json"


def add_derived(folder: Path, written: Iterable[Path]) -> None:
    """Add files that were written to the list; whatever else is on it stays."""
    _write(folder, _listed(folder) | _names(folder, written))


def replace_derived(folder: Path, written: Iterable[Path]) -> list[Path]:
    """Remove the files on the list that were not written again, and list those that were.

    Returns
    -------
    list of Path
        What was removed; folders left empty by it go too.
    """
    names = _names(folder, written)
    removed = [path for name in sorted(_listed(folder) - names) if (path := _inside(folder, name))]
    for path in removed:
        path.unlink()
        for parent in path.parents:
            if parent == folder:
                break
            # A folder that still holds something refuses.
            with contextlib.suppress(OSError):
                parent.rmdir()
    _write(folder, names)
    return removed


def _names(folder: Path, written: Iterable[Path]) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in written}


def _listed(folder: Path) -> set[str]:
    try:
        content = json.loads((folder / DERIVED_FILE).read_text(encoding="utf-8"))
        return {str(name) for name in content["files"]}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # Without a list nothing is known to be derived, and so nothing is removed.
        return set()


def _inside(folder: Path, name: str) -> Path | None:
    """Return a listed file that is there; None for one that is not, or lies outside the folder."""
    path = folder / name
    return path if path.is_file() and path.resolve().is_relative_to(folder.resolve()) else None


def _write(folder: Path, names: set[str]) -> None:
    draft = folder / f"{DERIVED_FILE}.draft"
    draft.write_text(json.dumps({"files": sorted(names)}, indent=1) + "\n", encoding="utf-8")
    draft.replace(folder / DERIVED_FILE)


#: What the name of a bound has after its metric's.
BOUND = "_bound"


def bounds_of(
    table: pa.Table, objective: str, columns: Sequence[str], parameters: Sequence[str]
) -> dict[tuple[object, ...], FloatArray]:
    """Return the bounds of an objective in each stratum, in the form of `value_matrix`.

    Parameters
    ----------
    table
        One row per cell.
    objective
        The metric to rank by.
    columns, parameters
        As of `collect`.

    Returns
    -------
    dict
        Stratum to bounds of shape (configurations, replicates); empty if no cell has one.
    """
    if f"metric.{objective}{BOUND}" not in table.column_names:
        return {}
    groups = collect(table, f"{objective}{BOUND}", columns, parameters)
    return {stratum: value_matrix(configurations) for stratum, configurations in groups.items()}


def gap_to_bound(values: FloatArray, bounds: FloatArray | None, direction: str) -> FloatArray:
    """Return by how much the mean of each row is worse than the mean of its bounds, as a share of the latter.

    Parameters
    ----------
    values, bounds
        Shape (configurations, replicates); NaN where there is none. Replicates without both are left out.
    direction
        "min" or "max": which values are better.

    Returns
    -------
    numpy.ndarray
        Shape (configurations,): Σ values / Σ bounds − 1, with the other sign for "max"; NaN without bounds,
        or where they are not above 0.
    """
    if bounds is None:
        return np.full(len(values), np.nan)
    both = np.isfinite(values) & np.isfinite(bounds)
    total, least = (np.where(both, columns, 0.0).sum(axis=1) for columns in (values, bounds))
    ratio = np.divide(total, least, out=np.full(len(values), np.nan), where=least > 0)
    return np.asarray((ratio - 1.0) * (1.0 if direction == "min" else -1.0))
