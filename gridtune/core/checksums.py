"""Checksums of the files that decide a result, for `System.file_checksums`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from gridtune.errors import SimulationError

__all__ = ["file_checksums"]


def file_checksums(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of each file's content by the file's name in a cell's identity.

    Raises
    ------
    SimulationError
        If a file cannot be read.
    """
    checksums = {}
    for name, file in files.items():
        try:
            checksums[name] = hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError as error:
            raise SimulationError(f"cannot be read: {error.strerror}", path=file) from error
    return checksums
