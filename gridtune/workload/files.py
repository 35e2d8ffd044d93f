"""Reading and writing workloads: the file's suffix says the format."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from gridtune.errors import GridtuneWarning, WorkloadError
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
    """Read a log.

    Parameters
    ----------
    path
        A file; `.gz` and `.xz` are decompressed as they are read.
    format
        A format's name, where the file's suffix does not say it (see `format_names`).
    max_bytes
        The most the file may hold once decompressed.
    clean
        Cleaning rules applied before the content is judged; without any, nothing is edited, and the first
        fault is an error. The workload's `cleaning` says how many jobs each rule touched.
    **options
        The format's own: `time_unit` and `speed` of Batsim, `partition_from` and `group_from` of GWF.

    Returns
    -------
    Workload
        Complete: a file that cannot be read to its end gives none.

    Raises
    ------
    WorkloadError
        Naming file, line and field.
    """
    file = Path(path)
    if is_archive(file):
        raise WorkloadError("is an archive of logs", path=file, hint="read_workloads reads it")
    with open_log(file, max_bytes) as stream:
        chosen, name = _chosen_format(file, format)
        return _workload(chosen, stream, name, clean, options)


def read_workloads(
    path: str | os.PathLike[str],
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    clean: Iterable[str] = (),
    by_format: Mapping[str, Mapping[str, Any]] | None = None,
    **options: Any,
) -> list[Workload]:
    """Read every log in a folder or tar archive, in natural order of their names (`day-2` before `day-10`).

    Files whose suffix no format claims are passed over. Each workload is named after its path below the
    folder that all logs share. Parameters are those of `read_workload`; a single log gives a list of one.
    `by_format` holds options for files of some formats only, by the format's name.
    """
    place = Path(path)
    rules = (clean,) if isinstance(clean, str) else tuple(clean)
    some = by_format or {}
    read: list[tuple[str, Workload]] = []

    def one(file: Path, stream: LogStream) -> Workload:
        chosen, name = _chosen_format(file, None)
        return _workload(chosen, stream, name, rules, {**options, **some.get(chosen.name, {})})

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

    The file appears whole or not at all; equal workloads give equal bytes. A `GridtuneWarning` names fields
    that the format has no place for.
    """
    file = Path(path)
    chosen, _ = _chosen_format(file, format)
    lost = chosen.cannot_hold(workload)
    if lost:
        warnings.warn(f"{chosen.name} has no place for {', '.join(lost)}", GridtuneWarning, stacklevel=2)
    with open_for_writing(file) as opened:
        chosen.write(workload, opened)


def _chosen_format(file: Path, name: str | None) -> tuple[Format, str]:
    found = find_format(file)
    if name is not None:
        return get_format(name), found[1] if found else split_compression(file.name)[0]
    if found is None:
        known = ", ".join(sorted(get_format(known).suffix for known in format_names()))
        raise WorkloadError(
            "its suffix says no known format",
            path=file,
            hint=f"suffixes are {known}, with .gz or .xz if compressed; or pass format=",
        )
    return found


def _workload(
    chosen: Format, stream: LogStream, name: str, rules: Iterable[str], options: dict[str, Any]
) -> Workload:
    known = list(inspect.signature(chosen.read).parameters)[1:]
    for option in options:
        if option not in known:
            hint = f"its options are {', '.join(known)}" if known else "it has no options"
            raise WorkloadError(f"the format {chosen.name} has no option {option!r}", hint=hint)
    return build_workload(chosen.read(stream, **options), stream.path, name, rules)


def _named_by_path(read: list[tuple[str, Workload]]) -> list[Workload]:

    parents = [PurePosixPath(place).parent.parts for place, _ in read]
    shared = 0
    while all(len(parent) > shared and parent[shared] == parents[0][shared] for parent in parents):
        shared += 1
    return [
        replace(workload, name="/".join((*parent[shared:], workload.name)))
        for parent, (_, workload) in zip(parents, read, strict=True)
    ]
