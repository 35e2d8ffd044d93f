"""Runs readers on mutated inputs in processes of their own, and keeps what should not have happened."""

from __future__ import annotations

import collections
import dataclasses
import json
import mmap
import os
import resource
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from .readers import Reader

__all__ = ["Count", "Finding", "fuzz", "try_input"]

#: Seconds of processor time for one input, and bytes of memory for all of a process.
_MOST_SECONDS, _MOST_MEMORY = 20.0, 8 << 30
#: Seconds that a reader has before it is the next one's turn.
_TURN = 3.0


class HangError(BaseException):
    """An input took too long."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """An input that did what it should not.

    Attributes
    ----------
    reader, seed
        Which input of which reader.
    what
        The exception and the line that it came from.
    trace
        The traceback.
    """

    reader: str
    seed: int
    what: str
    trace: str

    @property
    def place(self) -> str:
        """The kind of exception and the line, which are the same for the same fault."""
        return self.what.partition(": ")[0]


@dataclasses.dataclass
class Count:
    """Inputs of a reader: how many were read, refused and findings; processor seconds."""

    inputs: int = 0
    refused: int = 0
    findings: int = 0
    seconds: float = 0.0


def try_input(reader: Reader, seed: int) -> bool | Finding:
    """Return whether an input is refused, or the finding."""
    try:
        return reader.refuses(reader.input(seed))
    except (KeyboardInterrupt, SystemExit) as end:
        fault: BaseException = end
    except BaseException as other:
        fault = other
    frames = traceback.extract_tb(fault.__traceback__)
    ours = [frame for frame in frames if "/gridtune/" in frame.filename] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
    what = f"{type(fault).__name__} at {place}: {str(fault)[:150]}"
    return Finding(reader.name, seed, what, "".join(traceback.format_exception(fault, limit=-30))[-8000:])


def fuzz(
    readers: Mapping[str, Reader],
    *,
    inputs: int,
    seconds: float,
    first: int = 0,
    report: Callable[[Mapping[str, Count], list[Finding]], None] = lambda counts, findings: None,
) -> tuple[dict[str, Count], list[Finding]]:
    """Run readers in turn until there were so many inputs or seconds; return counts and findings.

    Parameters
    ----------
    readers
        By name.
    inputs, seconds
        Whichever comes first ends it.
    first
        Number of the first input of each reader.
    report
        Is called after each round with what there is so far.
    """
    counts = {name: Count() for name in readers}
    findings: list[Finding] = []
    began = time.monotonic()
    next_seed = collections.defaultdict(lambda: first)

    def ended() -> bool:
        done = sum(count.inputs for count in counts.values())
        return done >= inputs or time.monotonic() - began >= seconds

    for reader in readers.values():
        # What is imported and compiled once is not to be charged to an input.
        try_input(reader, -1)
    while not ended():
        for name, reader in readers.items():
            if ended():
                break
            left = inputs - sum(count.inputs for count in counts.values())
            for kind, found in _turn(reader, next_seed[name], min(left, 100_000)):
                count = counts[name]
                if kind == "count":
                    inputs_done, refused, spent = found
                    count.inputs += inputs_done
                    count.refused += refused
                    count.seconds += spent
                    next_seed[name] += inputs_done
                else:
                    count.findings += 1
                    findings.append(Finding(*found))
        report(counts, findings)
    return counts, findings


def _turn(reader: Reader, seed: int, most: int) -> Iterator[tuple[str, list]]:  # type: ignore[type-arg]
    """Run a reader for a few seconds in a fork; yield findings, then the count."""
    at = mmap.mmap(-1, 16)
    at[:8] = struct.pack("q", seed)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _child(reader, seed, most, at, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        lines = pipe.read().splitlines()
    status = os.waitpid(child, 0)[1]
    for line in lines:
        kind, values = json.loads(line)
        yield kind, values
    if status != 0:
        last = struct.unpack("q", at[:8])[0]
        what = (
            f"the process ended by signal {status & 127}" if status & 127 else f"it exited with {status >> 8}"
        )
        yield "finding", [reader.name, last, what, ""]
        yield "count", [last - seed + 1, 0, 0.0]


def _child(reader: Reader, seed: int, most: int, at: mmap.mmap, writing: int) -> None:
    used = _memory()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MOST_MEMORY, resource.RLIM_INFINITY))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(null, stream)

    def hang(*_: object) -> None:
        raise HangError("it took too long")

    signal.signal(signal.SIGPROF, hang)
    began, spent, done, refused, lines = time.monotonic(), time.process_time(), 0, 0, []
    while done < most and time.monotonic() - began < _TURN:
        at[:8] = struct.pack("q", seed + done)
        signal.setitimer(signal.ITIMER_PROF, _MOST_SECONDS)
        try:
            outcome = try_input(reader, seed + done)
        except HangError as late:
            # The time ran out while the outcome was made.
            outcome = Finding(reader.name, seed + done, f"HangError at run.py:0: {late}", "")
        signal.setitimer(signal.ITIMER_PROF, 0)
        done += 1
        if isinstance(outcome, Finding):
            lines.append(json.dumps(["finding", list(dataclasses.astuple(outcome))]))
        else:
            refused += outcome
    lines.append(json.dumps(["count", [done, refused, time.process_time() - spent]]))
    content = "\n".join(lines).encode()
    while content:
        content = content[os.write(writing, content) :]
    os._exit(0)


def _memory() -> int:
    if not sys.platform.startswith("linux"):
        return 1 << 36
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
