"""The journal: every finished cell, one line of JSON each, only ever appended to.

An adaptive strategy's proposals are lines of their own, each written before its cells run.

It is the truth about a sweep. MLflow, tables and progress derive from it; what is left to run is the
space's cells without the journal's. A process killed at any moment leaves at worst one torn last line,
which the next one to open the journal cuts off.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO, Any, Self

from gridtune.core.cells import CellResult
from gridtune.errors import SweepError

__all__ = ["JOURNAL_SCHEMA", "Journal", "read_journal"]

#: Version of the lines' form; a journal of a newer one is not touched. 2 added proposals.
JOURNAL_SCHEMA = 2
#: The key that makes a line a proposal.
_PROPOSAL = "proposal"
#: Seconds between two calls that force lines onto the disk. Only a power cut can lose what is between;
#: killing the process cannot.
_SYNC_SECONDS = 1.0


def read_journal(path: Path) -> dict[str, CellResult]:
    """Return the results in a journal by cell id, the last line of each cell counting; {} without a file.

    Reading takes no lock: a line still being written is passed over.
    """
    return _read(path)[0]


def _read(path: Path) -> tuple[dict[str, CellResult], list[Mapping[str, Any]], int]:
    """Return the results, the proposals and how many bytes of the file are sound lines."""
    results: dict[str, CellResult] = {}
    proposals: list[Mapping[str, Any]] = []
    if not path.exists():
        return results, proposals, 0
    content = path.read_bytes()
    sound = content.rfind(b"\n") + 1
    for number, line in enumerate(content[:sound].split(b"\n")[:-1], start=1):
        try:
            record = json.loads(line)
        except ValueError:
            raise SweepError(
                "the line is not JSON: something else has written into the journal",
                path=path,
                line=number,
                hint="remove the line to run its cell again, or start in another directory",
            ) from None
        if number == 1:
            _check_header(record, path)
            continue
        if isinstance(record, Mapping) and _PROPOSAL in record:
            proposals.append(record[_PROPOSAL])
            continue
        try:
            result = CellResult.from_record(record)
        except (TypeError, ValueError, AttributeError) as fault:
            raise SweepError(f"the line is no cell's result: {fault}", path=path, line=number) from None
        results[result.cell_id] = result
    return results, proposals, sound


def _check_header(record: Any, path: Path) -> None:
    schema = record.get("schema") if isinstance(record, Mapping) else None
    if not isinstance(schema, int) or record.get("journal") != "gridtune":
        raise SweepError("this is no journal of a sweep", path=path, line=1)
    if schema > JOURNAL_SCHEMA:
        raise SweepError(
            f"the journal is of schema {schema}, this gridtune knows up to {JOURNAL_SCHEMA}",
            path=path,
            line=1,
            hint="use the gridtune that wrote it, or start in another directory",
        )


class Journal:
    """A journal open for writing; one process at a time can have it.

    Parameters
    ----------
    path
        The file; made with its folder if it is missing. A lock file is beside it.

    Raises
    ------
    SweepError
        If another live process has it open. A dead one's lock is gone with it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(path.with_suffix(".lock"))
        try:
            self._results, self._proposals, sound = _read(path)
            self._file = path.open("ab")
            if self._file.tell() > sound:
                self._file.truncate(sound)
            if sound == 0:
                self._write([{"journal": "gridtune", "schema": JOURNAL_SCHEMA}])
            self._sync()
        except BaseException:
            self._lock.close()
            raise

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
        self._write([{_PROPOSAL: proposal} for proposal in batch])
        self._proposals.extend(batch)

    def append(self, results: Iterable[CellResult]) -> None:
        """Write results; a cell's later result counts."""
        batch = list(results)
        self._write([result.as_record() for result in batch])
        self._results.update({result.cell_id: result for result in batch})
        if time.monotonic() - self._synced > _SYNC_SECONDS:
            self._sync()

    def _write(self, records: Iterable[Mapping[str, Any]]) -> None:
        lines = [json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n" for record in records]
        # One write to the operating system for all of them: what it has taken survives our death.
        self._file.write("".join(lines).encode())
        self._file.flush()

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def close(self) -> None:
        """Force everything onto the disk and give the journal up."""
        if not self._file.closed:
            self._sync()
            self._file.close()
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _locked(path: Path) -> IO[str]:
    """Return the lock file, locked; the operating system unlocks it when this process ends, however."""
    file = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        owner = file.read().strip() or "another process"
        file.close()
        raise SweepError(
            f"{owner} is writing this sweep's journal",
            path=path.with_suffix(".jsonl"),
            hint="wait for it to end, end it, or give this sweep another --out",
        ) from None
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}")
    file.flush()
    return file
