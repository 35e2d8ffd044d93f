"""Status of a sweep's driver, in a small file beside the journal, for `gridtune status`.

The journal says which cells have results, and the lock whether a driver lives. This file adds
the number of cells there are to be, those of the journal that are of this sweep, the driver's stage, and its
end. It is replaced in one step and only ever holds what stays true when the driver is killed.
Its time of change is the driver's heartbeat: a lock does not reach another machine, a file's time does.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from gridtune.core.cells import CellResult
from gridtune.errors import without_secrets
from gridtune.sweep.execution.observing import SweepObserver, SweepPlan, SweepResult, TimeLeft
from gridtune.sweep.journal.journal import JOURNAL_NAME, Journal

STATUS_FILE = "status.json"
_LOCK = "journal.lock"
_SCHEMA = 1
#: Seconds between two writings of the file while nothing but the number of busy workers changes.
_REST_SECONDS = 2.0
#: Seconds between two heartbeats, and after which a driver without one is taken for gone. The clocks of two
#: machines may differ by half of it.
_BEAT_SECONDS, _STALE_SECONDS = 5.0, 60.0
_CELL_ID = re.compile(rb'^\{"cell_id":"([^"]+)"')
_OWNER = re.compile(r"process (\d{1,18}) on (\S+)")


@dataclass(frozen=True)
class DriverStatus:
    """Last status of a sweep's driver.

    Attributes
    ----------
    name
        The sweep's.
    process, host
        Of the driver.
    clock
        When the operating system says that the process was started, in its own unit, which tells it from a
        later one of the same number. None where the system does not say.
    began
        When it began, as seconds since 1970, as all times here.
    total
        Cells of the sweep.
    journal_bytes, journal_segments
        Length of the journal's lines, and number of its segments, when the sweep began: results after them
        are of this sweep.
    ignored
        Ids of cells that the journal had before and that are not finished cells of this sweep.
    stage
        What the driver is busy with.
    busy
        Workers that run cells.
    seconds_left
        About how long the rest takes; None while too little has been run to say.
    updated
        When this was written.
    counts
        Cells by state at the end; empty before.
    ended
        "finished", "interrupted" or what went wrong; None while the driver runs, and if it was killed.
    at_most
        Whether `total` is the most there can be, as the strategy may stop configurations.
    beats
        Whether the driver has a heartbeat; those of an earlier gridtune have none.
    heartbeat
        When its last one was.
    """

    name: str
    process: int
    host: str
    clock: int | None
    began: float
    total: int
    journal_bytes: int
    ignored: tuple[str, ...] = ()
    stage: str = ""
    busy: int = 0
    seconds_left: float | None = None
    updated: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    ended: str | None = None
    at_most: bool = False
    beats: bool = False
    heartbeat: float = 0.0
    journal_segments: int = 0

    @property
    def silent(self) -> float | None:
        """Seconds since the last heartbeat; None if it is not late, or there is none."""
        since = time.time() - self.heartbeat
        return since if self.beats and self.ended is None and since > _STALE_SECONDS else None

    @property
    def alive(self) -> bool:
        """True if the driver is a process of this host that still runs."""
        return self.host == socket.gethostname() and process_runs(self.process, self.clock)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return what a sweep's driver has said; None if there is nothing, or not in this form."""
        try:
            content = json.loads((folder / STATUS_FILE).read_text(encoding="utf-8"))
            heartbeat = (folder / STATUS_FILE).stat().st_mtime
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(content, dict) or content.pop("schema", None) != _SCHEMA:
            return None
        try:
            return TypeAdapter(cls).validate_python({**content, "heartbeat": heartbeat})
        except ValidationError:
            return None


class StatusFile(SweepObserver):
    """Writes what the driver says of itself, and takes the stages of a sweep."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        process = os.getpid()
        self._status = DriverStatus(
            "", process, socket.gethostname(), process_clock(process), time.time(), 0, 0, beats=True
        )
        self._written, self._stale = 0.0, False
        self._left = TimeLeft()
        self._lock, self._over = threading.Lock(), threading.Event()

    def stage(self, what: str, busy: int) -> None:
        """Take what the sweep is busy with, and with how many workers."""
        before, now = self._status, time.time()
        self._left.stage(busy)
        self._status = replace(before, stage=what, busy=busy)
        if what != before.stage or now - self._written > _REST_SECONDS:
            self._write()
        else:
            self._stale = True

    def started(self, plan: SweepPlan) -> None:
        """Take the plan."""
        self._folder = plan.directory
        self._left.started(plan)
        finished = {result.cell_id for result in plan.finished}
        journal = self._folder / JOURNAL_NAME
        self._status = replace(
            self._status,
            name=plan.space.name,
            total=plan.total,
            at_most=plan.at_most,
            journal_bytes=journal.stat().st_size if journal.exists() else 0,
            journal_segments=len(Journal.segment_files(journal)),
            ignored=tuple(sorted(cells_since(journal, 0, 0) - finished)),
        )
        self._write()
        threading.Thread(target=self._beat, args=[self._folder], name="heartbeat", daemon=True).start()

    def finished(self, results: Sequence[CellResult]) -> None:
        """Take results, for the time that is left."""
        self._left.finished(results)
        self._status = replace(self._status, seconds_left=self._left.seconds)
        self._stale = True

    def _beat(self, folder: Path) -> None:
        while not self._over.wait(_BEAT_SECONDS):
            if self._stale:
                # What changed too soon after the last writing.
                self._write()
                continue
            with contextlib.suppress(OSError):
                os.utime(folder / STATUS_FILE)

    def ended(self, result: SweepResult) -> None:
        """Take the totals."""
        counts = dict(result.counts)
        self._status = replace(self._status, total=len(result.results), at_most=False, counts=counts)
        self._write()

    def close(self, how: str) -> None:
        """Say how the driver ended: "finished", "interrupted" or what went wrong."""
        self._over.set()
        self._status = replace(self._status, ended=without_secrets(how))
        self._write()

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Say how the driver ended, by what ends this context."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            self.close("interrupted")
            raise
        except BaseException as fault:
            self.close(str(fault) or type(fault).__name__)
            raise
        self.close("finished")

    def _write(self) -> None:
        if self._folder is None:
            return
        draft = self._folder / f".{STATUS_FILE}.draft"
        # What is written last must be what was true last. A full disk must not end a sweep for this file.
        with self._lock, contextlib.suppress(OSError):
            self._written, self._stale = time.time(), False
            content = {"schema": _SCHEMA, **vars(self._status), "updated": self._written}
            draft.write_text(json.dumps(content), encoding="utf-8")
            draft.replace(self._folder / STATUS_FILE)


def cells_since(journal: Path, segments: int, position: int) -> set[str]:
    """Return the ids of the cells in the journal after a number of segments and a position in its lines."""
    found: set[str] = set()
    if not journal.exists():
        return found
    for path in Journal.segment_files(journal)[segments:]:
        only = pa.ipc.IpcReadOptions(included_fields=[0])
        found.update(pa.ipc.open_file(path, options=only).read_all()["cell_id"].to_pylist())
    with journal.open("rb") as file:
        file.seek(position)
        for line in file:
            match = _CELL_ID.match(line)
            if match is not None and line.endswith(b"\n"):
                found.add(match[1].decode())
    return found


@dataclass(frozen=True)
class LockOwner:
    """The process that has a sweep's journal open, or was the last to have it.

    Attributes
    ----------
    process, host
        Of it.
    alive
        Whether it still has it. None if that cannot be seen from here: it is on another host, and its lock
        does not reach us.
    """

    process: int
    host: str
    alive: bool | None

    @classmethod
    def of(cls, folder: Path) -> Self | None:
        """Return who has or had the journal of a sweep's folder; None if nobody ever had."""
        path = folder / _LOCK
        try:
            file = path.open(encoding="utf-8", errors="replace")
        except OSError:
            return None
        with file:
            match = _OWNER.match(file.read())
            if match is None:
                return None
            process, host = int(match[1]), match[2]
            try:
                # Shared, and given back at once. The lock is what counts, not whether a process of that
                # number exists: it may be another's by now, or be in another container.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return cls(process, host, alive=True)
            except OSError:
                return cls(process, host, alive=None)
            fcntl.flock(file, fcntl.LOCK_UN)
            return cls(process, host, alive=False if host == socket.gethostname() else None)


def process_runs(process: int, clock: int | None) -> bool:
    """Return whether this host has a process of that number that was started at that time of its clock."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return process_clock(process) == clock


def process_clock(process: int) -> int | None:
    """Return when a process was started, in clock ticks since the machine was; None without /proc."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    # A process that has ended and that nobody has waited for yet still has an entry.
    return None if fields[0] == "Z" else int(fields[19])


def machine_id() -> str:
    """Return what tells this machine, or container, from others of its name and from itself before a restart.

    It is "" where the system does not say.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""
