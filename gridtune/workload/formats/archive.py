"""Folders and tar archives of logs: a set of workloads, such as days or weeks of one machine."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from gridtune.errors import WorkloadError
from gridtune.workload.formats.compression import LogStream, open_log, split_compression, unpack
from gridtune.workload.formats.registry import find_format

__all__ = ["is_archive", "logs_in_archive", "logs_in_folder", "natural_order"]


def is_archive(path: Path) -> bool:
    """Return whether a file's name is that of a tar archive, plain or compressed."""
    name = path.name.lower()
    return split_compression(name)[0].endswith(".tar") or name.endswith((".tgz", ".txz"))


def natural_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts `day-2` before `day-10`."""
    parts = re.findall(r"\d+|\D+", name, re.ASCII)
    numbers = (part.lstrip("0") if part.isdigit() else None for part in parts)
    return tuple(
        (1, 0, part) if number is None else (0, len(number), number)
        for part, number in zip(parts, numbers, strict=True)
    )


def logs_in_folder(folder: Path) -> list[Path]:
    """Return the logs below a folder, in natural order; files of no format are skipped."""
    try:
        logs = [path for path in folder.rglob("*") if find_format(path) and path.is_file()]
    except OSError as error:
        raise WorkloadError(f"cannot be read: {error.strerror}", path=error.filename or folder) from error
    return sorted(logs, key=lambda path: natural_order(path.relative_to(folder).as_posix()))


def logs_in_archive(path: Path, max_bytes: int) -> Iterator[tuple[str, LogStream]]:
    """Yield name and content of each log in a tar archive, in the archive's order.

    Nothing is unpacked to disk, and links and devices are passed over. `max_bytes` holds for the archive, and
    for all its logs together once they are decompressed.
    """
    left = max_bytes
    with open_log(path, max_bytes) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r|", name=path.name) as archive:  # type: ignore[call-overload]
                for member in archive:
                    if not member.isfile() or find_format(PurePosixPath(member.name).name) is None:
                        continue
                    content = archive.extractfile(member)
                    if content is not None:
                        log = unpack(content, path / member.name, left, (tarfile.TarError,))
                        yield member.name, log
                        left -= log.taken
        except (tarfile.TarError, EOFError) as error:
            message = f"is not a tar archive, or it is cut off ({error})"
            raise WorkloadError(message, path=path) from error
