"""The traces of a sweep: found, read once in the driver, and known by their checksums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from gridtune.workload.references import WorkloadReference
from gridtune.workload.workload import Workload

__all__ = ["Workloads"]


class Workloads:
    """Workloads by reference, each read when first asked for and then kept.

    Parameters
    ----------
    base
        The folder that relative paths are relative to, beside the current one.
    """

    def __init__(self, base: Path | None = None) -> None:
        self._base = base
        self._read: dict[str, Workload] = {}

    def load(self, reference: str) -> Workload:
        """Return the workload a reference names: a file or catalogue name, and rules to read it with."""
        if reference not in self._read:
            self._read[reference] = WorkloadReference.parse(reference).read(self._base)
        return self._read[reference]

    def checksums(self, references: Iterable[str]) -> dict[str, str]:
        """Return the content's SHA-256 by reference."""
        return {reference: self.load(reference).checksum for reference in references}

    @property
    def loaded(self) -> Mapping[str, Workload]:
        """What has been read so far, by reference."""
        return self._read
