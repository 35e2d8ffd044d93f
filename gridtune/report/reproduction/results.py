"""`Reproduced`: what a reproduction found, as the page shows it and as `verdicts.json` keeps it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gridtune.core.cells import finite_json
from gridtune.errors import SweepError
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
    """What a reproduction found.

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
        path = folder / VERDICTS_FILE
        content = finite_json({"schema": _SCHEMA, **asdict(self)})
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        draft.replace(path)
        return path


def read_reproduced(path: Path) -> Reproduced:
    """Return what `Reproduced.write` wrote.

    Raises
    ------
    SweepError
        If the file is missing or not one of these.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise SweepError(f"cannot be read: {fault}", path=path) from None
    if not isinstance(content, dict) or content.pop("schema", None) != _SCHEMA:
        hint = f"give a {VERDICTS_FILE} of gridtune reproduce"
        raise SweepError("are no verdicts of this version of gridtune", path=path, hint=hint)
    try:
        return TypeAdapter(Reproduced).validate_python(_numbers(content))
    except ValidationError as fault:
        first = fault.errors()[0]
        raise SweepError(
            f"is damaged: {first['msg'].lower()}", path=path, field=".".join(map(str, first["loc"]))
        ) from None


def _numbers(content: Any) -> Any:
    """Return the content with the ends of intervals that there are not as NaN, which JSON cannot say."""
    if isinstance(content, Mapping):
        return {
            name: math.nan if name in {"low", "high"} and value is None else _numbers(value)
            for name, value in content.items()
        }
    return [_numbers(item) for item in content] if isinstance(content, list) else content
