"""The journal: every finished cell, one line of JSON each, only ever appended to.

An adaptive strategy's proposals are lines of their own, each written before its cells run. The form of the
lines, with their checks, is in `journal_lines`.

It is the truth about a sweep. MLflow, tables and progress derive from it; what is left to run is the
space's cells without the journal's. A process killed at any moment leaves at worst one torn last line,
which the next one to open the journal cuts off.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO, Any, Self

from gridtune.core.cells import CellResult
from gridtune.errors import SweepError
from gridtune.sweep.journal_lines import (
    AlteredLineError,
    cell_of_line,
    parse_line,
    record_line,
    result_line,
    result_of_record,
)
from gridtune.sweep.room import AppendOnlyFile, OnFull

__all__ = ["JOURNAL_SCHEMA", "Journal", "is_news", "read_journal", "read_proposals"]

#: Version of the lines' form; a journal of a newer one is not touched. 2 added proposals and checks.
JOURNAL_SCHEMA = 2
#: The key that makes a line a proposal.
_PROPOSAL = "proposal"
#: Seconds between two calls that force lines onto the disk. Only a power cut can lose what is between;
#: killing the process cannot.
_SYNC_SECONDS = 1.0
#: Seconds after which a lock that somebody has only looked at is free again, many times over.
_GLANCE_SECONDS = 0.05


def read_journal(path: Path) -> dict[str, CellResult]:
    """Return the results in a journal by cell id, the last line of each cell counting; {} without a file.

    Reading takes no lock: a line still being written is passed over.
    """
    return _read(path)[0]


def read_proposals(path: Path) -> list[Mapping[str, Any]]:
    """Return what adaptive strategies have proposed, in the order it was written; [] without a file."""
    return _read(path)[1]


def _read(path: Path) -> tuple[dict[str, CellResult], list[Mapping[str, Any]], int, int]:
    """Return results, proposals, the form of the last lines, and how many bytes are whole lines."""
    if not path.exists():
        return {}, [], 0, 0
    content = path.read_bytes()
    sound = content.rfind(b"\n") + 1
    # Looking for garbage among a million new objects takes longer than making them, and there is none.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return *_parse(content[:sound].split(b"\n")[:-1], path), sound
    finally:
        if collecting:
            gc.enable()


def _parse(lines: Sequence[bytes], path: Path) -> tuple[dict[str, CellResult], list[Mapping[str, Any]], int]:
    results: dict[str, CellResult] = {}
    proposals: list[Mapping[str, Any]] = []
    schema = 0
    for number, line in enumerate(lines, start=1):
        try:
            record = parse_line(line, checked=schema > 1)
            if number == 1 or "journal" in record:
                schema = _schema(record, path, number)
            elif _PROPOSAL in record:
                proposals.append(record[_PROPOSAL])
            else:
                result = result_of_record(record)
                results[result.cell_id] = result
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError) as fault:
            raise _faulty_line(path, number, line, fault) from None
    return results, proposals, schema


def _faulty_line(path: Path, number: int, line: bytes, fault: Exception) -> SweepError:
    """Return the error for a line that was not written by a sweep, or not like this."""
    reason = f"the line is no cell's result: {fault}"
    if isinstance(fault, AlteredLineError):
        reason = str(fault)
    elif isinstance(fault, KeyError):
        reason = f"the line is no cell's result: it has no {fault}"
    elif isinstance(fault, json.JSONDecodeError):
        reason = "the line is not JSON: something else has written into the journal"
    cell = cell_of_line(line)
    return SweepError(
        reason if cell is None else f"{reason}; it is of {cell}",
        path=path,
        line=number,
        hint="put the line back from a copy, or remove it and start the sweep again: it runs the cell again",
    )


def _schema(record: Any, path: Path, line: int) -> int:
    """Return the form that the lines after a header have."""
    schema = record.get("schema") if isinstance(record, Mapping) else None
    if not isinstance(schema, int) or record.get("journal") != "gridtune":
        raise SweepError("this is no journal of a sweep", path=path, line=line)
    if schema > JOURNAL_SCHEMA:
        raise SweepError(
            f"the journal is of schema {schema}, this gridtune knows up to {JOURNAL_SCHEMA}",
            path=path,
            line=line,
            hint="use the gridtune that wrote it, or start in another directory",
        )
    return schema


def is_news(result: CellResult, earlier: CellResult | None) -> bool:
    """Return whether a result from elsewhere adds to what a journal has of its cell."""
    return earlier is None or (earlier.state != "done" and result.state == "done")


class Journal:
    """A journal open for writing; one process at a time can have it.

    Parameters
    ----------
    path
        The file; made with its folder if it is missing. A lock file is beside it.
    on_full
        Is called with a sentence when the disk is full; writing waits until there is room.
    mirror
        Takes each piece of whole lines once it is in the file; they count as written when it returns.

    Raises
    ------
    SweepError
        If another live process has it open. A dead one's lock is gone with it.
    """

    def __init__(
        self, path: Path, on_full: OnFull | None = None, mirror: Callable[[bytes], None] | None = None
    ) -> None:
        self.path, self._mirror = path, mirror
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock")
        is_new = not lock.exists()
        with contextlib.ExitStack() as opened:
            self._lock = opened.enter_context(_locked(lock))
            if is_new:
                # A sweep that is refused leaves the folder as it was.
                opened.callback(lock.unlink, missing_ok=True)
            self._file = AppendOnlyFile(path, on_full)
            opened.callback(self._file.close)
            if not _lock(self._file, path):
                # Somebody has removed the lock file of a sweep that runs.
                raise _refusal("another process", path)
            self._results, self._proposals, schema, sound = _read(path)
            if self._file.size > sound:
                self._file.truncate(sound)
            if schema < JOURNAL_SCHEMA:
                # Lines are never written again: in an old journal, a header of today goes before ours.
                self._write([record_line({"journal": "gridtune", "schema": JOURNAL_SCHEMA})])
            self._sync()
            opened.pop_all()

    @property
    def results(self) -> Mapping[str, CellResult]:
        """The last result of each cell, by id."""
        return MappingProxyType(self._results)

    @property
    def proposals(self) -> Sequence[Mapping[str, Any]]:
        """What adaptive strategies have proposed, in the order it was written."""
        return tuple(self._proposals)

    def append_proposals(self, proposals: Iterable[Mapping[str, Any]]) -> None:
        """Write what an adaptive strategy proposes, before its cells run."""
        batch = list(proposals)
        self._write([record_line({_PROPOSAL: proposal}) for proposal in batch])
        self._proposals.extend(batch)

    def append(self, results: Iterable[CellResult]) -> None:
        """Write results; a cell's later result counts."""
        batch = list(results)
        self._write(map(result_line, batch))
        self._results.update({result.cell_id: result for result in batch})
        if time.monotonic() - self._synced > _SYNC_SECONDS:
            self._sync()

    def _write(self, lines: Iterable[bytes]) -> None:
        # One write to the operating system for all of them: what it has taken survives our death.
        content = b"".join(lines)
        self._file.append(content)
        if self._mirror is not None and content:
            self._mirror(content)

    def _sync(self) -> None:
        self._file.sync()
        self._synced = time.monotonic()

    def close(self) -> None:
        """Force everything onto the disk and give the journal up."""
        if not self._file.closed:
            self._file.close()
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _lock(file: IO[str] | AppendOnlyFile, path: Path) -> bool:
    """Lock a file of the journal in `path`, and return whether nobody else has."""
    for pause in (_GLANCE_SECONDS, 0.0):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            # Who only looks whether it is locked has it for a moment.
            time.sleep(pause)
        except OSError as fault:
            raise SweepError(
                f"this file system does not lock files ({fault.strerror}), so two sweeps could write here",
                path=path,
                hint="give a folder on another disk, or a URL, with --out",
            ) from None
    return False


def _locked(path: Path) -> IO[str]:
    """Return the lock file, locked; the operating system unlocks it when this process ends, however."""
    journal = path.with_suffix(".jsonl")
    file = path.open("a+", encoding="utf-8")
    try:
        if not _lock(file, journal):
            file.seek(0)
            raise _refusal(file.read().strip() or "another process", journal)
    except BaseException:
        file.close()
        raise
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}")
    file.flush()
    return file


def _refusal(owner: str, path: Path) -> SweepError:
    return SweepError(
        f"{owner} is writing this sweep's journal",
        path=path,
        hint=f"wait for it to end (`gridtune status {path.parent}` shows how far it is), end it, or give "
        "this sweep another --out",
    )
