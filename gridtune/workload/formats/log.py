"""Trace formats and the raw logs that their readers return.

A format is a name, a suffix, a reader and a writer. A reader returns a `RawLog`, which is cleaned, checked
and made a `Workload`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gridtune.errors import WorkloadError
from gridtune.registry import Registry
from gridtune.workload.cleaning import Jobs, apply_rules
from gridtune.workload.contents import LogContents
from gridtune.workload.fields import FLOAT_FIELDS, find_fault
from gridtune.workload.formats.compression import split_compression
from gridtune.workload.workload import Workload

if TYPE_CHECKING:
    from gridtune.workload.formats.records import Records

_ROW = "row of the file"


def metadata_to_json(workload: Workload) -> dict[str, Any]:
    """Return what a workload says beside its columns, as values for JSON."""
    return {
        "machine_processors": workload.machine_processors,
        "header": {key: list(values) for key, values in workload.header.items()},
        "names": {
            field: {str(number): name for number, name in names.items()}
            for field, names in workload.names.items()
        },
    }


@dataclass(frozen=True)
class _Metadata:
    """The content of what `metadata_to_json` returns."""

    machine_processors: int | None
    header: dict[str, tuple[str, ...]]
    names: dict[str, dict[int, str]]
    cleaning: dict[str, int] = field(default_factory=dict)


def metadata_from_json(values: Any) -> dict[str, Any]:
    """Return the fields of a `RawLog` that `metadata_to_json` wrote.

    Raises
    ------
    ValueError
        If it did not write them.
    """
    from pydantic import TypeAdapter  # noqa: PLC0415 - costs more to import than other formats need

    return dict(vars(TypeAdapter(_Metadata).validate_python(values)))


@dataclass(frozen=True)
class RawLog:
    """A file's content, before its values are checked.

    Attributes
    ----------
    columns
        Field to column: int64, or float64 where the file holds fractions.
    line_of
        Gives the line (1-based) of a row (0-based) and field, or None where the format has no lines.
    header, machine_processors, names, cleaning
        As in `Workload`.
    path_of
        Gives the file of a row where the rows come from several.
    """

    columns: Mapping[str, npt.NDArray[Any]]
    line_of: Callable[[int, str], int | None]
    header: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    machine_processors: int | None = None
    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    cleaning: Mapping[str, int] = field(default_factory=dict)
    path_of: Callable[[int], Path] | None = None

    def workload(self, path: Path, name: str, rules: Iterable[str] = ()) -> Workload:
        """Return the workload, or raise the error that names the line and field of the first faulty job.

        Rules are applied first, so values that they correct are no fault.
        """
        jobs = len(next(iter(self.columns.values()), ()))
        if jobs == 0:
            raise WorkloadError("holds no jobs", path=path)
        missing = next((name for name in ("submit_time", "run_time") if name not in self.columns), None)
        if missing is not None:
            raise WorkloadError("there is no such column, which every log has", path=path, field=missing)
        columns = {**self.columns, _ROW: np.arange(jobs)}
        try:
            cleaned, report = apply_rules(Jobs(columns, self.machine_processors), rules)
        except WorkloadError as error:
            place = error.path or path
            raise WorkloadError(error.message, path=place, field=error.field, hint=error.hint) from error
        columns = dict(cleaned.columns)
        rows = columns.pop(_ROW)
        if len(rows) == 0:
            raise WorkloadError(f"no job is left: cleaning dropped all {jobs}", path=path)
        fault = find_fault(columns, self.machine_processors)
        if fault is not None:
            row = int(rows[fault.row])
            line = self.line_of(row, fault.field)
            message = fault.message if line is not None else f"job {row + 1} of {jobs}: {fault.message}"
            place = path if self.path_of is None else self.path_of(row)
            raise WorkloadError(message, path=place, line=line, field=fault.field, hint=fault.hint)
        typed = {
            key: column if key in FLOAT_FIELDS else column.astype(np.int64, copy=False)
            for key, column in columns.items()
        }
        done = Counter(self.cleaning)
        done.update(report.counts)
        header, contents = dict(self.header), LogContents.of(self.columns, self.header)
        return Workload(typed, name, path, self.machine_processors, header, self.names, dict(done), contents)


@dataclass(frozen=True)
class Format:
    """A trace format.

    Attributes
    ----------
    name
        Its name for users.
    suffix
        The end of its files' names, before `.gz` or `.xz`.
    read
        Takes a `LogStream` and the format's own options (keywords). Returns a `RawLog`, or the `Records` of a
        resource manager, which several files can share; one that takes `table` gets the `TableOptions`.
    write
        Takes a workload and an open binary file; None for a format that is only read.
    summary
        One line about its content.
    cannot_hold
        Names the fields of a workload that the format has no place for.
    recognises
        Returns whether a file begins like this format.
    """

    name: str
    suffix: str
    read: Callable[..., RawLog | Records]
    write: Callable[[Workload, BinaryIO], None] | None
    summary: str
    cannot_hold: Callable[[Workload], list[str]] = lambda workload: []
    recognises: Callable[[bytes], bool] = lambda start: False

    def checked(self) -> Format:
        """Return it; refuse what is no format."""
        if not isinstance(self, Format):
            raise WorkloadError(f"a format is a gridtune.workload.formats.Format, not {self!r}")
        if not self.suffix.startswith(".") or self.suffix != self.suffix.lower():
            raise WorkloadError(f"a suffix is lower-case and starts with a dot, but got {self.suffix!r}")
        if self.name in OWN:
            return self
        # Gridtune's own are imported when asked for: no other may take their suffixes before.
        own = [FORMATS.find(name) for name in OWN]
        others = [*own, *(other for other in FORMATS.imported.values() if other.name != self.name)]
        if any(self.suffix == other.suffix for other in others):
            raise WorkloadError(f"a format for {self.suffix!r} is registered already")
        return self


#: The formats that come with gridtune.
OWN = {
    "swf": "gridtune.workload.formats.swf:SWF",
    "gwf": "gridtune.workload.formats.swf:GWF",
    "batsim": "gridtune.workload.formats.batsim:BATSIM",
    "parquet": "gridtune.workload.formats.tables:PARQUET",
    "csv": "gridtune.workload.formats.tables:CSV",
    "sacct": "gridtune.workload.formats.sacct:SACCT",
    "pbs": "gridtune.workload.formats.event_logs:PBS",
    "lsf": "gridtune.workload.formats.event_logs:LSF",
}
#: All formats by name, those that come with gridtune before those that other packages announce.
FORMATS: Registry[Format] = Registry(
    "format",
    "gridtune.formats",
    WorkloadError,
    convert=Format.checked,
    code=lambda added: added.read,
    own=OWN,
)


def register_format(added: Format) -> None:
    """Add a format; neither name nor suffix is ever overwritten."""
    FORMATS.register(added.checked().name, added)


def format_names() -> list[str]:
    """Return the names of all registered formats, sorted."""
    return FORMATS.names()


def find_format(path: Path | str) -> tuple[Format, str] | None:
    """Return the format that a file's suffix stands for and the name without suffixes, or None."""
    name, _ = split_compression(Path(path).name)
    for format in FORMATS.values():
        if name.lower().endswith(format.suffix) and len(name) > len(format.suffix):
            return format, name[: -len(format.suffix)]
    return None
