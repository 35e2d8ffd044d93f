"""The kinds of faults: what each does to a sweep and its cluster."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.chaos.sweeps import Sweeps

__all__ = ["FAULTS", "WEIGHTS", "small_disk", "why_no_disk"]

#: How often each kind comes, beside the others: those that take long to mend are rarer.
WEIGHTS = {"worker": 50, "stall": 60, "disk": 60, "node": 8, "driver": 6, "tracking": 8, "head": 1}
#: Longest stall, seconds.
_STALL = 1.0
#: Bytes of the disk that is filled.
_DISK = 2**27


def _kill_worker(sweeps: Sweeps, moment: random.Random) -> bool:
    return _to_a_worker(sweeps, moment, signal.SIGKILL) is not None


def _stall(sweeps: Sweeps, moment: random.Random) -> bool:
    victim = _to_a_worker(sweeps, moment, signal.SIGSTOP)
    if victim is not None:
        try:
            time.sleep(moment.uniform(0.1, _STALL))
        finally:
            _signal(victim, signal.SIGCONT)
    return victim is not None


def _to_a_worker(sweeps: Sweeps, moment: random.Random, number: int) -> int | None:
    workers = sorted(worker for node in sweeps.nodes.nodes for worker in node.workers)
    victim = moment.choice(workers) if workers else None
    if victim is not None:
        _signal(victim, number)
    return victim


def _signal(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def _fill_disk(sweeps: Sweeps, moment: random.Random) -> bool:
    ballast = sweeps.disk / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        time.sleep(moment.uniform(0.1, _STALL))
    finally:
        ballast.unlink()
    return True


def _kill_node(sweeps: Sweeps, moment: random.Random) -> bool:
    others = sweeps.nodes.nodes[1:]
    if others:
        sweeps.nodes.end(moment.choice(others))
    return bool(others)


def _kill_driver(sweeps: Sweeps, moment: random.Random) -> bool:
    sweeps.end_driver()
    return True


def _kill_server(sweeps: Sweeps, moment: random.Random) -> bool:
    sweeps.end_server()
    return True


def _kill_head(sweeps: Sweeps, moment: random.Random) -> bool:
    sweeps.end_cluster()
    return True


#: What does each kind of fault; whether there was something to do it to.
FAULTS: dict[str, Callable[[Sweeps, random.Random], bool]] = {
    "worker": _kill_worker,
    "stall": _stall,
    "disk": _fill_disk,
    "node": _kill_node,
    "driver": _kill_driver,
    "tracking": _kill_server,
    "head": _kill_head,
}


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Make a folder a small disk of memory, which needs root."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "gridtune-chaos", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def why_no_disk() -> str | None:
    """Return why no disk can be filled here, or None."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with small_disk(Path(folder)):
                return None
        except (subprocess.CalledProcessError, FileNotFoundError) as fault:
            return str(getattr(fault, "stderr", b"").decode().strip() or fault)
