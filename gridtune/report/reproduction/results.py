"""`Reproduced`: what a reproduction found, as the page shows it and as `verdicts.json` keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gridtune.core.cells import finite_json
from gridtune.report.facts import read_stored, write_json
from gridtune.report.reproduction.verdicts import Estimate, JudgedClaim

__all__ = ["VERDICTS_FILE", "Reproduced", "TableNumbers", "TraceUse", "read_reproduced"]

#: The verdicts in a reproduction's folder.
VERDICTS_FILE = "verdicts.json"
_SCHEMA = "gridtune-reproduction-1"


@dataclass(frozen=True)
class TraceUse:
    """A log that was read.

    Attributes
    ----------
    name
        As the space names it.
    checksum
        Its SHA-256.
    remark
        What it stands in for; "" for the log itself.
    """

    name: str
    checksum: str
    remark: str = ""


@dataclass(frozen=True)
class TableNumbers:
    """A published table with ours.

    Attributes
    ----------
    title, source, columns
        As of the `PaperTable`.
    rows
        Label, and for each column the published number and ours; None for what there is not.
    experiments
        Where ours come from.
    """

    title: str
    source: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[tuple[float | None, Estimate | None]]]]
    experiments: Sequence[str]


@dataclass(frozen=True)
class Reproduced:
    """Findings of a reproduction.

    Attributes
    ----------
    name, title, publications, data
        As of the `Reproduction`.
    system, system_version
        The system, and the version of its results.
    full
        Whether the whole experiments were run.
    command
        The command that does so again.
    commands
        Experiment to the command that runs it by itself.
    cells, missing
        Experiment to its cells, and to those without a result.
    traces
        The logs that were read.
    versions
        Software to its version.
    claims
        Each claim with its verdict.
    tables
        The published tables with ours.
    """

    name: str
    title: str
    publications: Sequence[str]
    data: str
    system: str
    system_version: str
    full: bool
    command: str
    commands: Mapping[str, str]
    cells: Mapping[str, int]
    missing: Mapping[str, int]
    traces: Sequence[TraceUse]
    versions: Mapping[str, str]
    claims: Sequence[JudgedClaim]
    tables: Sequence[TableNumbers] = field(default_factory=list)

    def write(self, folder: Path) -> Path:
        """Write the verdicts into a folder and return their file; it is never there by half."""
        return write_json(finite_json({"schema": _SCHEMA, **asdict(self)}), folder / VERDICTS_FILE)


def read_reproduced(path: Path) -> Reproduced:
    """Return what `Reproduced.write` wrote.

    Raises
    ------
    SweepError
        If the file is missing or not one of these.
    """
    other = f"holds no verdicts of this version of gridtune: give a {VERDICTS_FILE} of gridtune reproduce"
    return read_stored(Reproduced, path, _SCHEMA, other)
