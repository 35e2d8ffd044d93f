"""The lock of a driver that writes results at a URL.

One driver at a time writes them, on whatever host, and storage such as S3 has no locks. So each driver writes
a file and looks, after that, for others. Of two drivers at least one sees the other, since a listing has
every file that was written before it, and a driver that sees a living one gives way. A driver lives while its
file changes.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter, ValidationError

from gridtune.errors import StorageError, SweepError
from gridtune.storage import Storage
from gridtune.sweep.execution.status import machine_id, process_clock, process_runs

_FOLDER = "drivers"
#: Seconds between two signs of life; after how many of silence a driver counts as dead; between two looks.
_BEAT_SECONDS, _SILENCE_SECONDS, _LOOK_SECONDS = 10.0, 60.0, 2.0


class StorageLock:
    """A driver's lock; `close` releases it, and so does a minute without the process.

    Parameters
    ----------
    storage
        Where the results are.
    say
        Is called with a sentence while a driver that may have died is waited for.
    doing
        Returns what the driver says of itself, in JSON; stored with each sign of life.

    Raises
    ------
    SweepError
        If another driver lives.
    StorageError
        If the storage cannot be read or written.

    Attributes
    ----------
    lost
        Whether the lock is gone: this process was silent for so long that another took over.
    """

    def __init__(
        self, storage: Storage, say: Callable[[str], None], doing: Callable[[], bytes] = bytes
    ) -> None:
        self.lost, self._doing = False, doing
        self._storage, self._name, self._beats = storage, f"{uuid.uuid4().hex}.json", 0
        self._over = threading.Event()
        try:
            self._outlive_others(say)
        except BaseException:
            self._storage.delete(f"{_FOLDER}/{self._name}")
            raise
        self._thread = threading.Thread(target=self._live, name="lock", daemon=True)
        self._thread.start()

    def is_lost(self) -> bool:
        """Return whether another driver has taken over; looks, where the last sign of life is long ago."""
        if not self.lost and self._is_late():
            with contextlib.suppress(StorageError):
                self.lost = self._has_successor()
        return self.lost

    def close(self) -> None:
        """Release the lock."""
        if not self._over.is_set():
            self._over.set()
            self._thread.join()
            self._storage.delete(f"{_FOLDER}/{self._name}")

    def _beat(self) -> None:
        self._beats += 1
        process, host, status = os.getpid(), socket.gethostname(), self._doing().decode()
        sign = LockSign(process, host, machine_id(), process_clock(process), status, self._beats)
        # The time before: a sign may be long on its way, and others count from when they last saw one.
        signed = time.time()
        self._storage.write(f"{_FOLDER}/{self._name}", json.dumps(asdict(sign)).encode())
        self._signed = signed

    def _live(self) -> None:
        while not self._over.wait(_BEAT_SECONDS):
            try:
                if self._has_successor():
                    self.lost = True
                    return
                self._beat()
            except StorageError:
                # It is away for all; who waits for us waits for it, too.
                continue

    def _is_late(self) -> bool:
        """Return whether the last sign of life is so long ago that another driver may take over."""
        return time.time() - self._signed > _SILENCE_SECONDS / 2

    def _has_successor(self) -> bool:
        there = self._storage.files(_FOLDER)
        # A sign that was long on its way brings back the file that another driver has removed.
        return self._name not in there or (self._is_late() and len(there) > 1)

    def _outlive_others(self, say: Callable[[str], None]) -> None:
        """Wait until no other driver lives, or raise if one does."""
        first: dict[str, bytes] = {}
        while True:
            self._beat()
            there = self._storage.files(_FOLDER)
            now = there[self._name].written
            waiting = ""
            for name in there.keys() - {self._name}:
                try:
                    content = self._storage.read(f"{_FOLDER}/{name}")
                except StorageError:
                    # It has just been given up.
                    continue
                sign = LockSign.read(content)
                silence = (now - there[name].written) / 1e9
                if silence > _SILENCE_SECONDS or sign.alive is False:
                    self._storage.delete(f"{_FOLDER}/{name}")
                elif sign.alive or content != first.setdefault(name, content):
                    raise SweepError(
                        f"{sign} is writing these results: {self._storage}",
                        hint="wait for it to end, end it, or give this sweep another --out",
                    )
                else:
                    waiting = f"waiting for {sign} to give a sign: silent for {max(0.0, silence):.0f} s"
            if not waiting:
                return
            say(waiting)
            time.sleep(_LOOK_SECONDS)


@dataclass(frozen=True)
class LockSign:
    """The latest sign of life of a driver with a lock.

    Attributes
    ----------
    process, host
        Of the driver; 0 and "" if the sign cannot be read.
    machine, clock
        The machine and the start of the process, which tell them from others of the same name and number.
    status
        The driver's status file; "" before it has begun.
    beats
        Signs so far.
    """

    process: int = 0
    host: str = ""
    machine: str = ""
    clock: int | None = None
    status: str = ""
    beats: int = 0

    @classmethod
    def read(cls, content: bytes) -> LockSign:
        """Return the sign that a file holds; an empty one if it holds none."""
        try:
            return TypeAdapter(cls).validate_json(content)
        except ValidationError:
            return cls()

    @classmethod
    def latest(cls, storage: Storage) -> tuple[LockSign, float] | None:
        """Return the latest sign at a storage, and its time in seconds since 1970; None without any."""
        signs: list[tuple[float, LockSign]] = []
        for name, facts in storage.files(_FOLDER).items():
            # A file that is gone has just been given up.
            with contextlib.suppress(StorageError):
                sign = cls.read(storage.read(f"{_FOLDER}/{name}"))
                if sign.process:
                    signs.append((facts.written / 1e9, sign))
        if not signs:
            return None
        written, sign = max(signs, key=lambda one: one[0])
        return sign, written

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"

    @property
    def alive(self) -> bool | None:
        """True if the driver lives; None if it is not on this machine, though that may have its name."""
        if self.host != socket.gethostname() or self.machine not in {"", machine_id()}:
            return None
        return process_runs(self.process, self.clock)
