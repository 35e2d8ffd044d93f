"""Reading and writing workloads: files, folders and archives of logs, and references to them.

The content of a file says its format, and its suffix where several fit. The logs of a folder can be joined
into one workload, which is passed around and has a checksum like a single log: jobs follow one another log by
log, the times of each log on its own clock, and the partition says which log a job belongs to. The number of
a partition is derived from the name of its log, so that the checksum covers the names.

A reference is one line of text that says which file to read, by which rules:

    NAME[?OPTION=VALUE…][?clean=RULE,RULE][?days[=SECONDS,FLOPS]]

`NAME` is a path or a name of the catalogue. The options are those of tables (`TableOptions`). `?clean=` names
the cleaning rules to apply while reading: only then can a lenient rule fix a faulty line. `?days` reads a
folder or archive of logs, each a day, or one log that will be cut into days; the numbers are the units of
Batsim files.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import tarfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any, Self

import numpy as np

from gridtune.arguments import require, require_path
from gridtune.errors import GridtuneWarning, WorkloadError
from gridtune.storage import is_url
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import DEFAULT_RULES
from gridtune.workload.fields import FIELDS
from gridtune.workload.formats import DEFAULT_MAX_BYTES, FORMATS, Format, format_names
from gridtune.workload.formats.accounting import log_of_records
from gridtune.workload.formats.compression import (
    LogStream,
    open_for_writing,
    open_log,
    split_compression,
    unpack,
)
from gridtune.workload.formats.log import RawLog, find_format
from gridtune.workload.formats.recognition import HEADLESS, recognise
from gridtune.workload.formats.records import Records, TableOptions
from gridtune.workload.formats.tables import arrow_log, arrow_table
from gridtune.workload.workload import JOINED, Workload

#: A file that begins with so many blanks may have content behind them.
_PEEKED = 1 << 16
#: The path in errors about a table in memory.
_IN_MEMORY = Path("table")


def read_workload(
    path: str | os.PathLike[str] | Any,
    *,
    format: str | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    clean: Iterable[str] = (),
    **options: Any,
) -> Workload:
    """Read a log from a file, or from a table in memory.

    Parameters
    ----------
    path
        The file or its URL (`s3://…`); `.gz` and `.xz` are decompressed while reading. Or the name of a
        bundled log, or of one that has been fetched (`gridtune traces list`). Or a table with a job a row: of
        Arrow, pandas or polars.
    format
        The name of the format (see `format_names`); by default, the file's content decides, and its suffix
        where that leaves it open.
    max_bytes
        The largest size of the decompressed content.
    clean
        Cleaning rules applied before the content is checked. Without any, nothing is edited, and the first
        fault is an error. The workload's `cleaning` says how many jobs each rule touched.
    **options
        `time_unit` and `speed` of Batsim, `partition_from` and `group_from` of GWF; those of tables and
        accounting: `columns`, `unit`, `timezone`, `requested`, `processors_per_job`, `cluster`
        (`gridtune.workload.formats.records.TableOptions`).

    Returns
    -------
    Workload
        The whole log: a file that cannot be read to its end is an error.

    Raises
    ------
    WorkloadError
        Naming file, line and field.
    """
    if not isinstance(path, str | os.PathLike) and (table := arrow_table(path)) is not None:
        named = replace(TableOptions(), **options)
        return _raw(arrow_log(table, _IN_MEMORY, named), named).workload(_IN_MEMORY, "table", clean)
    require_path(path, "path", error=WorkloadError)
    file = Path(path)
    if is_url(str(path)) or (not file.suffix and not file.exists()):
        file = resolve_trace(str(path))
    if is_archive(file):
        raise WorkloadError("is an archive of logs", path=file, hint="read_workloads reads it")
    with open_log(file, max_bytes) as stream:
        return _read(stream, format, clean, options)


def read_workloads(
    path: str | os.PathLike[str],
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    clean: Iterable[str] = (),
    by_format: Mapping[str, Mapping[str, Any]] | None = None,
    **options: Any,
) -> list[Workload]:
    """Read every log in a folder or tar archive, in natural order of their names (`day-2` before `day-10`).

    Files whose suffix belongs to no format are skipped. Each workload is named after its path below the
    folder that all logs share. Parameters are those of `read_workload`; a single log gives a list of one.
    `by_format` holds options for files of some formats only, by the format's name.
    """
    place = resolve_trace(str(path)) if is_url(str(path)) else Path(path)
    rules = (clean,) if isinstance(clean, str) else tuple(clean)
    read = [
        (member, _read(stream, None, rules, options, by_format)) for member, stream in _logs(place, max_bytes)
    ]
    if not read:
        raise WorkloadError("holds no logs", path=place, hint=f"formats are {', '.join(format_names())}")
    read.sort(key=lambda item: _natural_order(item[0]))
    parents = [member.parent.parts for member, _ in read]
    shared = 0
    while all(len(parent) > shared and parent[shared] == parents[0][shared] for parent in parents):
        shared += 1
    return [
        replace(workload, name="/".join((*parent[shared:], workload.name)))
        for parent, (_, workload) in zip(parents, read, strict=True)
    ]


def read_dumps(
    paths: Sequence[Path],
    *,
    format: str | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    **options: Any,
) -> Workload:
    """Read the dumps of a resource manager, such as one a month, as one log.

    A job that is in several counts once. Parameters are those of `read_workload`; `max_bytes` is for each.

    Raises
    ------
    WorkloadError
        Naming file and line; or if the files are of several formats, or of one that is no resource manager's.
    """
    parts, name = [], ""
    formats: dict[str, Format] = {}
    table, own = _split_options(options)
    for path in paths:
        with open_log(path, max_bytes) as stream:
            file_format, named = _format_of(path, format, stream)
            formats[file_format.name], name = file_format, name or named
            read = _content(file_format, stream, table, own)
            if not isinstance(read, Records) or len(formats) > 1:
                message = f"{' and '.join(formats)}: only dumps of one resource manager are joined to one log"
                hint = "import the others by themselves"
                raise WorkloadError(message, path=path, hint=hint)
            parts.append(read)
    return log_of_records(Records.joined(parts), table).workload(paths[0], name)


def _read(
    stream: LogStream,
    format: str | None,
    rules: Iterable[str],
    options: Mapping[str, Any],
    by_format: Mapping[str, Mapping[str, Any]] | None = None,
) -> Workload:
    file_format, name = _format_of(stream.path, format, stream, options.get("columns"))
    table, own = _split_options({**options, **(by_format or {}).get(file_format.name, {})})
    return _raw(_content(file_format, stream, table, own), table).workload(stream.path, name, rules)


def _raw(read: RawLog | Records, table: TableOptions) -> RawLog:
    return log_of_records(read, table) if isinstance(read, Records) else read


def _split_options(options: Mapping[str, Any]) -> tuple[TableOptions, dict[str, Any]]:
    """Return the options of tables of records, and those of formats."""
    names = {field.name for field in fields(TableOptions)}
    return (
        TableOptions(**{name: value for name, value in options.items() if name in names}),
        {name: value for name, value in options.items() if name not in names},
    )


def _content(
    file_format: Format, stream: LogStream, table: TableOptions, own: Mapping[str, Any]
) -> RawLog | Records:
    """Return what a format reads; options that it does not have are refused."""
    accepted = list(inspect.signature(file_format.read).parameters)[1:]
    tables = [field.name for field in fields(TableOptions)]
    for option in own:
        if option not in accepted or option == "table":
            hint = f"options are {', '.join([*(name for name in accepted if name != 'table'), *tables])}"
            raise WorkloadError(f"the format {file_format.name} has no option {option!r}", hint=hint)
    read = file_format.read(stream, **own, **({"table": table} if "table" in accepted else {}))
    given = next((name for name in tables if getattr(table, name) != getattr(TableOptions(), name)), None)
    if given is not None and not isinstance(read, Records):
        message = f"the format {file_format.name} has no option {given!r}"
        raise WorkloadError(
            message, path=stream.path, hint="it is for records of resource managers, and tables"
        )
    return read


def _logs(place: Path, max_bytes: int) -> Iterator[tuple[PurePosixPath, LogStream]]:
    """Yield path and content of each log in a folder or tar archive; of a single log its own.

    Files of no format are skipped. Nothing is unpacked to disk, and links and devices in an archive are
    passed over. `max_bytes` holds for an archive, and for all its logs together once they are decompressed.
    """
    if is_archive(place):
        yield from _logs_in_archive(place, max_bytes)
        return
    folder, files = place.parent, [place]
    if place.is_dir():
        try:
            files = [path for path in place.rglob("*") if find_format(path) and path.is_file()]
        except OSError as error:
            raise WorkloadError(f"cannot be read: {error.strerror}", path=error.filename or place) from error
        folder = place
    members = {PurePosixPath(file.relative_to(folder).as_posix()): file for file in files}
    for member in sorted(members, key=_natural_order):
        with open_log(members[member], max_bytes) as stream:
            yield member, stream


def _logs_in_archive(path: Path, max_bytes: int) -> Iterator[tuple[PurePosixPath, LogStream]]:
    with open_log(path, max_bytes) as stream:
        left = max_bytes
        try:
            with tarfile.open(fileobj=stream, mode="r|", name=path.name) as archive:  # type: ignore[call-overload]
                for entry in archive:
                    member = PurePosixPath(entry.name)
                    if not entry.isfile() or find_format(member.name) is None:
                        continue
                    content = archive.extractfile(entry)
                    if content is not None:
                        log = unpack(content, path / member, left, (tarfile.TarError,))
                        yield member, log
                        left -= log.taken
        except (tarfile.TarError, EOFError) as error:
            message = f"is not a tar archive, or it is cut off ({error})"
            raise WorkloadError(message, path=path) from error


def is_archive(path: Path) -> bool:
    """Return whether a file's name is that of a tar archive, plain or compressed."""
    name = path.name.lower()
    return split_compression(name)[0].endswith(".tar") or name.endswith((".tgz", ".txz"))


def _natural_order(path: PurePosixPath) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts `day-2` before `day-10`."""
    parts = re.findall(r"\d+|\D+", path.as_posix(), re.ASCII)
    numbers = (part.lstrip("0") if part.isdigit() else None for part in parts)
    return tuple(
        (1, 0, part) if number is None else (0, len(number), number)
        for part, number in zip(parts, numbers, strict=True)
    )


def write_workload(workload: Workload, path: str | os.PathLike[str], *, format: str | None = None) -> None:
    """Write a workload in the format of the path's suffix, compressed for `.gz` and `.xz`.

    The file appears complete or not at all; equal workloads give equal bytes. A `GridtuneWarning` names
    fields that the format cannot hold.
    """
    require(workload, Workload, "workload", error=WorkloadError)
    require_path(path, "path", error=WorkloadError)
    file = Path(path)
    file_format, _ = _format_of(file, format)
    if file_format.write is None:
        written = ", ".join(name for name in format_names() if FORMATS.find(name).write is not None)
        raise WorkloadError(f"{file_format.name} is only read", path=file, hint=f"write {written}")
    lost = file_format.cannot_hold(workload)
    if lost:
        warnings.warn(f"{file_format.name} has no place for {', '.join(lost)}", GridtuneWarning, stacklevel=2)
    with open_for_writing(file) as opened:
        file_format.write(workload, opened)


def _format_of(
    file: Path, name: str | None, stream: LogStream | None = None, columns: str | None = None
) -> tuple[Format, str]:
    """Return the format of that name, or of a file's content or suffix; its name without suffixes."""
    match = find_format(file)
    if name is not None or (stream is None and match is not None):
        form = FORMATS.find(name) if name is not None else match[0]  # type: ignore[index]
        return form, match[1] if match else split_compression(file.name)[0]
    start = b"" if stream is None else stream.peek()
    if stream is not None and not start.strip() and len(start) < _PEEKED:
        raise WorkloadError("is empty", path=file)
    found = None if stream is None else recognise(start, file.name)
    own = match[1] if match else split_compression(file.name)[0].partition(".")[0]
    if found is not None and found.name in format_names():
        return FORMATS.find(found.name), own
    if found is not None and found.name == HEADLESS and columns:
        return FORMATS.find("csv"), own
    if found is not None:
        raise WorkloadError(f"is {found.name}, by its content: {found.why}", path=file, hint=found.hint)
    suffixes = ", ".join(sorted(FORMATS.find(format).suffix for format in format_names()))
    message = "neither its content nor its suffix is that of a format"
    hint = f"suffixes are {suffixes}, with .gz or .xz if compressed; or name it: format=, --format"
    raise WorkloadError(message, path=file, hint=hint)


def join_workloads(workloads: Sequence[Workload], *, name: str = "logs") -> Workload:
    """Return one workload that holds many, in their order; `Workload.joined_parts` takes them apart again.

    Their partitions and headers are lost. The machine's size is kept where all logs agree on it.

    Raises
    ------
    WorkloadError
        If there are none, or two have the same name.
    """
    if not workloads:
        raise WorkloadError("there are no logs to join")
    name_most_often, times = Counter(log.name for log in workloads).most_common(1)[0]
    if times > 1:
        raise WorkloadError(f"two logs are named {name_most_often!r}", hint="rename one of them")
    # 48 bits that stand for each name.
    numbers = [int.from_bytes(hashlib.sha256(log.name.encode()).digest()[:6], "big") for log in workloads]
    fields = [name for name in FIELDS if any(name in log.columns for log in workloads)]
    columns = {name: np.concatenate([log.column(name) for log in workloads]) for name in fields}
    columns["partition"] = np.repeat(np.array(numbers, np.int64), [len(log) for log in workloads])
    machines = {log.machine_processors for log in workloads}
    cleaning: Counter[str] = Counter()
    for log in workloads:
        cleaning.update(log.cleaning)
    return Workload(
        columns,
        name=name,
        machine_processors=machines.pop() if len(machines) == 1 else None,
        header={JOINED: (str(len(workloads)),)},
        names={"partition": {number: log.name for number, log in zip(numbers, workloads, strict=True)}},
        cleaning=dict(cleaning),
    )


def read_days(
    path: Path, *, clean: Iterable[str] = (), time_unit: float = 60, speed: float = 1e6
) -> Workload:
    """Read days: a folder or archive of logs, each a day, or one log, to be cut into days.

    A single Batsim file is one day.

    Parameters
    ----------
    path
        Folder, archive or log.
    clean
        Cleaning rules, applied to each log by itself.
    time_unit, speed
        Of Batsim files: seconds in their unit of time, and flops of a processor in one such unit.

    Returns
    -------
    Workload
        Joined (`Workload.is_joined`) unless it is one log of another format than Batsim's.
    """
    name = path.name.partition(".")[0]
    if not (path.is_dir() or is_archive(path)):
        with open_log(path) as stream:
            found, name = _format_of(path, None, stream)
        if found.name != "batsim":
            return read_workload(path, clean=clean)
    units = {"time_unit": time_unit, "speed": speed}
    return join_workloads(read_workloads(path, clean=clean, by_format={"batsim": units}), name=name)


_NUMBER = r"(\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?)"
_UNITS = re.compile(f"{_NUMBER},{_NUMBER}")
#: Of Batsim files: seconds in their unit of time, and flops that a processor does in one.
USUAL_UNITS = (60.0, 1e6)
#: Options of tables of records, by name, and what reads their values in a reference.
_OPTIONS: dict[str, Callable[[str], Any]] = {
    "columns": str,
    "unit": str,
    "timezone": str,
    "requested": lambda text: text.lower() in ("", "true", "yes", "1"),
    "processors_per_job": int,
    "cluster": str,
    "format": str,
}
_LAST_KEY = re.compile(rf"(.*)\?(clean|days|{'|'.join(_OPTIONS)})(?:=([^?]*))?", re.DOTALL)


@dataclass(frozen=True)
class WorkloadReference:
    """A workload to read.

    Attributes
    ----------
    name
        A path or a name of the catalogue.
    clean
        Cleaning rules by name, applied while reading; None for the reader's default: no rule for a log, the
        default rules for days.
    days
        Read days (`read_days`) instead of one log.
    units
        With `days`, of Batsim files: seconds in their unit of time, and flops a processor does in one.
    options
        Options of tables of records (`TableOptions`), and `format`, by name.
    """

    name: str
    clean: Sequence[str] | None = None
    days: bool = False
    units: tuple[float, float] = USUAL_UNITS
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the reference that `str` wrote.

        Raises
        ------
        WorkloadError
            If the units of its days are not two numbers, or another value is none.
        """
        keys: dict[str, str] = {}
        name = text
        while (match := _LAST_KEY.fullmatch(name)) is not None:
            name, key, value = match.groups()
            keys.setdefault(key, value or "")
        clean = tuple(rule for rule in keys["clean"].split(",") if rule) if "clean" in keys else None
        units = USUAL_UNITS
        if keys.get("days"):
            numbers = _UNITS.fullmatch(keys["days"])
            if numbers is None:
                hint = "two numbers above 0: ?days=SECONDS,FLOPS"
                raise WorkloadError(f"?days={keys['days'][:40]} names no units", field=text[:200], hint=hint)
            units = (float(numbers[1]), float(numbers[2]))
        options = {}
        for key in (key for key in _OPTIONS if key in keys):
            try:
                options[key] = _OPTIONS[key](keys[key])
            except ValueError:
                message = f"?{key}={keys[key][:40]} is no whole number"
                raise WorkloadError(message, field=text[:200]) from None
        return cls(name, clean, "days" in keys, units, options)

    def __str__(self) -> str:
        """Return the text that results and journals hold."""
        parts = [self.name]
        parts += [f"{key}={self.options[key]}" for key in _OPTIONS if key in self.options]
        parts += [] if self.clean is None else ["clean=" + ",".join(self.clean)]
        units = "" if self.units == USUAL_UNITS else f"={self.units[0]!r},{self.units[1]!r}"
        return "?".join([*parts, *([f"days{units}"] if self.days else [])])

    def read(self, base: Path | None = None) -> Workload:
        """Read the workload; relative paths are relative to the current folder, or else to `base`."""
        # The name may hold options, as the value of a parameter does.
        whole = self.parse(str(self)) if "?" in self.name else self
        path = resolve_trace(whole.name, base=base)
        if not whole.days:
            return read_workload(path, clean=whole.clean or (), **whole.options)
        clean = DEFAULT_RULES if whole.clean is None else whole.clean
        time_unit, speed = whole.units
        return read_days(path, clean=clean, time_unit=time_unit, speed=speed)


def reference_text(value: Any) -> Any:
    """Return the text of a log's reference that may be a mapping: {file: jobs.csv, unit: {limit: h}}.

    Anything else is returned as it is.

    Raises
    ------
    WorkloadError
        For a mapping without a file, or with another key.
    """
    if not isinstance(value, Mapping):
        return value
    unknown = next((key for key in value if key != "file" and key not in _OPTIONS), None)
    if unknown is not None or "file" not in value:
        message = f"{unknown!r} is no key of a log" if unknown else "a log in parts has a file"
        raise WorkloadError(message, field="trace", hint=f"keys are file, {', '.join(_OPTIONS)}")
    options = {
        key: ",".join(f"{name}={part}" for name, part in given.items())
        if isinstance(given, Mapping)
        else given
        for key, given in value.items()
        if key != "file"
    }
    return str(WorkloadReference(str(value["file"]), options=options))


def workload_of(log: Workload | str | Path) -> Workload:
    """Return a log that is given as a workload, a path, a name of the catalogue or a reference."""
    return log if isinstance(log, Workload) else WorkloadReference.parse(str(log)).read()
