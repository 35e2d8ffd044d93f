"""A limit on the memory of one cell: the cell that passes it fails, and its worker goes on."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

__all__ = ["limited_memory"]

_STATM = Path("/proc/self/statm")
#: The place of the private data in it, in pages.
_DATA = 5


@contextlib.contextmanager
def limited_memory(size: float) -> Iterator[None]:
    """Let this process take `size` bytes more than it has, while the context lasts.

    What asks for more gets a `MemoryError`, also in compiled code. Without a size, or on a system that does
    not count memory so, there is no limit.
    """
    if not size or not _STATM.exists():
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(_STATM.read_text(encoding="utf-8").split()[_DATA]) * resource.getpagesize()
    limit = used + int(size)
    if before[1] != resource.RLIM_INFINITY:
        limit = min(limit, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
