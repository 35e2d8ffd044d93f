"""Reading and writing workloads: the file's suffix says the format."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from gridtune.arguments import require, require_path
from gridtune.errors import GridtuneWarning, WorkloadError
from gridtune.storage import is_url
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.formats import DEFAULT_MAX_BYTES, Format, find_format, format_names, get_format
from gridtune.workload.formats.archive import is_archive, logs_in_archive, logs_in_folder, natural_order
from gridtune.workload.formats.compression import LogStream, open_for_writing, open_log, split_compression
from gridtune.workload.formats.log import build_workload
from gridtune.workload.workload import Workload

__all__ = ["read_workload", "read_workloads", "write_workload"]


def read_workload(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    clean: Iterable[str] = (),
    **options: Any,
) -> Workload:
    """Read a log from a file.

    Parameters
    ----------
    path
        The file or its URL (`s3://…`); `.gz` and `.xz` are decompressed while reading. Or the name of a
        bundled log, or of one that has been fetched (`gridtune traces list`).
    format
        The name of the format (see `format_names`); by default, the file's suffix decides.
    max_bytes
        The largest size of the decompressed content.
    clean
        Cleaning rules applied before the content is checked. Without any, nothing is edited, and the first
        fault is an error. The workload's `cleaning` says how many jobs each rule touched.
    **options
        The format's own: `time_unit` and `speed` of Batsim, `partition_from` and `group_from` of GWF,
        `columns` and `timezone` of tables and accounting dumps.

    Returns
    -------
    Workload
        The whole log: a file that cannot be read to its end is an error.

    Raises
    ------
    WorkloadError
        Naming file, line and field.
    """
    require_path(path, "path", error=WorkloadError)
    file = Path(path)
    if is_url(str(path)) or (not file.suffix and not file.exists()):
        file = resolve_trace(str(path))
    if is_archive(file):
        raise WorkloadError("is an archive of logs", path=file, hint="read_workloads reads it")
    with open_log(file, max_bytes) as stream:
        file_format, name = _format_of(file, format, stream)
        return _workload(file_format, stream, name, clean, options)


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
    read: list[tuple[str, Workload]] = []

    def one(file: Path, stream: LogStream) -> Workload:
        file_format, name = _format_of(file, None, stream)
        own_options = (by_format or {}).get(file_format.name, {})
        return _workload(file_format, stream, name, rules, {**options, **own_options})

    if is_archive(place):
        for member, stream in logs_in_archive(place, max_bytes):
            read.append((member, one(Path(PurePosixPath(member).name), stream)))
    else:
        folder = place if place.is_dir() else place.parent
        for file in logs_in_folder(place) if place.is_dir() else [place]:
            with open_log(file, max_bytes) as stream:
                read.append((file.relative_to(folder).as_posix(), one(file, stream)))
    if not read:
        raise WorkloadError("holds no logs", path=place, hint=f"formats are {', '.join(format_names())}")
    read.sort(key=lambda item: natural_order(item[0]))
    return _named_by_path(read)


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
        written = ", ".join(name for name in format_names() if get_format(name).write is not None)
        raise WorkloadError(f"{file_format.name} is only read", path=file, hint=f"write {written}")
    lost = file_format.cannot_hold(workload)
    if lost:
        warnings.warn(f"{file_format.name} has no place for {', '.join(lost)}", GridtuneWarning, stacklevel=2)
    with open_for_writing(file) as opened:
        file_format.write(workload, opened)


def _format_of(file: Path, name: str | None, stream: LogStream | None = None) -> tuple[Format, str]:
    """Return the format of that name, of a file's suffix or of its content; its name without suffixes."""
    match = find_format(file)
    if name is not None:
        return get_format(name), match[1] if match else split_compression(file.name)[0]
    if match is not None:
        return match
    if stream is not None:
        start = stream.peek()
        for form in map(get_format, format_names()):
            if form.recognises(start):
                return form, split_compression(file.name)[0].partition(".")[0]
    suffixes = ", ".join(sorted(get_format(format).suffix for format in format_names()))
    raise WorkloadError(
        "neither its suffix nor its content is that of a format",
        path=file,
        hint=f"suffixes are {suffixes}, with .gz or .xz if compressed; or name it: format=, --format",
    )


def _workload(
    file_format: Format, stream: LogStream, name: str, rules: Iterable[str], options: dict[str, Any]
) -> Workload:
    accepted = list(inspect.signature(file_format.read).parameters)[1:]
    for option in options:
        if option not in accepted:
            hint = f"its options are {', '.join(accepted)}" if accepted else "it has no options"
            raise WorkloadError(f"the format {file_format.name} has no option {option!r}", hint=hint)
    return build_workload(file_format.read(stream, **options), stream.path, name, rules)


def _named_by_path(read: list[tuple[str, Workload]]) -> list[Workload]:
    """Return workloads named by their paths below the folder that all share."""
    parents = [PurePosixPath(path).parent.parts for path, _ in read]
    shared = 0
    while all(len(parent) > shared and parent[shared] == parents[0][shared] for parent in parents):
        shared += 1
    return [
        replace(workload, name="/".join((*parent[shared:], workload.name)))
        for parent, (_, workload) in zip(parents, read, strict=True)
    ]
