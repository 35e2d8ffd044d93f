"""Which addresses the processes below this one listen on, from /proc."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["descendants", "listening_addresses"]

_LISTENING = "0A"


def descendants(process: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
    found, new = [], [process]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        found += new
    return found


def listening_addresses(processes: list[int]) -> set[str]:
    """Return the addresses that any of the processes accepts connections on."""
    inodes = set()
    for process in processes:
        with contextlib.suppress(OSError):
            for link in Path(f"/proc/{process}/fd").iterdir():
                with contextlib.suppress(OSError):
                    inodes.add(str(link.readlink()))
    return {address for address, inode in _sockets() if f"socket:[{inode}]" in inodes}


def _sockets() -> Iterator[tuple[str, str]]:
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENING:
                packed = bytes.fromhex(fields[1].partition(":")[0])
                # The kernel writes each word of four bytes as this machine has it.
                words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
                turned = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
                yield socket.inet_ntop(family, turned), fields[9]
