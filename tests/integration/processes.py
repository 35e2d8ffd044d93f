"""What tests of real processes share: finding them, waiting for them, ending them by their numbers."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

#: Longest wait for anything: only a failure takes it.
PATIENCE_S = 600


def descendants(pid: int) -> set[int]:
    """Return the process ids below one, from /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    result: set[int] = set()
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        result.update(below)
        waiting += below
    return result


def started(pid: int) -> str | None:
    """Return when a process was started, which tells it from a later one of the same number."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def alive(processes: dict[int, str | None]) -> set[int]:
    """Return those that still run."""
    return {pid for pid, start in processes.items() if start is not None and started(pid) == start}


def is_agent(pid: int) -> bool:
    """Whether it is one of Ray's two helpers that take a minute to notice that their cluster is gone."""
    try:
        return b"Agent" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def wait_for(what: str, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"{what} took longer than {PATIENCE_S} s"
        time.sleep(0.02)


def end(processes: dict[int, str | None]) -> None:
    """Kill those that still run, by their numbers."""
    for pid in alive(processes):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
