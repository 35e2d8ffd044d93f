"""The journal: every finished cell, one line of JSON each, only ever appended to.

An adaptive strategy's proposals are lines of their own, each written before its cells run. A line ends with a
CRC-32 of everything before it, and the line of a cell holds the text that the cell's id is a hash of. So a
digit that was changed by hand or by a failing disk is found when the line is read, and each result says which
code, parameters and traces made it.

Of a long journal, some thousand lines at a time become a segment, a file of columns. The header of the lines
that are left names the segments, so that both change in one step.

MLflow, tables and progress derive from the journal, and the cells left to run are the space's without the
journal's. A process killed at any moment leaves at worst one torn last line, which the next one to open the
journal cuts off.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import re
import socket
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

from gridtune.core.cells import CellResult, canonical_json, id_of_identity
from gridtune.core.sources import software_versions
from gridtune.errors import SweepError
from gridtune.storage import draft_of
from gridtune.sweep.journal.disk import AppendOnlyFile, OnFull
from gridtune.sweep.journal.segments import Segment, compact_json

#: The file in a sweep's folder.
JOURNAL_NAME = "journal.jsonl"
_CHECK = b',"check":"'
#: The check with its key, and the end of the line.
_CHECK_LENGTH = len(_CHECK) + 8 + len(b'"}')
_CELL_ID = re.compile(rb'"cell_id":"([0-9a-f]{4,40})"')
#: What is before and after the identity in a cell's line; it is there as the id was made of it.
_BEFORE_IDENTITY, _AFTER_IDENTITY = b',"identity":', b',"configuration_id":'
#: The key that makes a line a proposal.
_PROPOSAL = "proposal"
#: Attributes of a result that a line has under their own names; the metrics are converted besides.
_PLAIN = ("configuration_id", "workload", "configuration", "replicate", "traces", "state", "notes")
#: Results of a segment, and the folder of segments beside a journal.
_SEGMENT, SEGMENTS = 4_096, "journal"

#: `json.loads` without its guess of the encoding, which takes a fifth of its time.
_decode = json.JSONDecoder().decode


class _AlteredLineError(ValueError):
    """A line is not what was written."""


def _record_line(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line with its check."""
    return _checked(compact_json(record))


def _result_line(result: CellResult) -> bytes:
    """Return a cell's result as a line with its identity and its check."""
    rest: dict[str, Any] = {name: getattr(result, name) for name in _PLAIN}
    rest |= {"own": result.own_parameters, "metrics": result.metrics, "error": result.error}
    rest |= {"seconds": result.seconds, "worker": result.worker, "seed": result.seed}
    start = f'{{"cell_id":{json.dumps(result.cell_id)},"identity":{result.identity or "null"},'
    return _checked(start.encode() + compact_json(rest)[1:])


def _checked(text: bytes) -> bytes:
    """Return the text of an object as a line, with the check as its last member."""
    body = text[:-1]
    return body + _CHECK + b"%08x" % zlib.crc32(body) + b'"}\n'


def parse_line(line: bytes, *, checked: bool) -> Any:
    """Return the result in a cell's line, of this gridtune or of an earlier one; the record of another line.

    Parameters
    ----------
    line
        The line without its end.
    checked
        Whether it must have a check; one that has is checked in any case.

    Raises
    ------
    _AlteredLineError
        If the line is not what was written.
    ValueError
        If it is not JSON.
    TypeError, AttributeError, KeyError
        If it is of a cell and no result.
    """
    end = len(line) - _CHECK_LENGTH
    has_check = end > 0 and line.startswith(_CHECK, end)
    if has_check and line[end + len(_CHECK) :] != b'%08x"}' % zlib.crc32(line[:end]):
        raise _AlteredLineError("the line has been altered: its checksum does not agree with it")
    record = _decode(line.decode())
    if not has_check and checked:
        raise _AlteredLineError("the line has been altered: it has no checksum")
    if has_check:
        del record["check"]
        if "identity" in record:
            record["identity"] = _identity_text(line, record)
    if not isinstance(record, dict) or "cell_id" not in record:
        return record
    if "own" in record:
        record["parameters"] = {**record["configuration"], **record.pop("own")}
    return CellResult.from_record(record)


def _identity_text(line: bytes, record: Mapping[str, Any]) -> str:
    """Return the text that the cell's id is a hash of, as the line has it."""
    if record["identity"] is None:
        return ""
    start = line.find(_BEFORE_IDENTITY) + len(_BEFORE_IDENTITY)
    end = line.find(_AFTER_IDENTITY, start)
    text = line[start:end].decode()
    if id_of_identity(text) != record["cell_id"]:
        # A parameter may be named like the key that we have looked for.
        text = canonical_json(record["identity"])
        if id_of_identity(text) != record["cell_id"]:
            raise _AlteredLineError("the line has been altered: the cell's id is not that of its identity")
    return text


#: Versions of a journal without segments and with them; a newer one is not touched. 2 added checks.
_LINES_SCHEMA, _JOURNAL_SCHEMA = 2, 3
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


def _read(
    path: Path,
) -> tuple[dict[str, CellResult], list[Mapping[str, Any]], Mapping[str, Any], int, dict[str, CellResult]]:
    """Return results, proposals, the header, the length of whole lines, and results of cells in lines."""
    if not path.exists():
        return {}, [], {}, 0, {}
    content = path.read_bytes()
    sound = content.rfind(b"\n") + 1
    # Looking for garbage among a million new objects takes longer than making them, and there is none.
    collecting = gc.isenabled()
    gc.disable()
    try:
        results, proposals, header, last = _parse(content[:sound].split(b"\n")[:-1], path)
        return results, proposals, header, sound, {cell_id: results[cell_id] for cell_id in last}
    finally:
        if collecting:
            gc.enable()


def _parse(
    lines: Sequence[bytes], path: Path, faulty: Callable[[SweepError, bytes], None] | None = None
) -> tuple[dict[str, CellResult], list[Mapping[str, Any]], Mapping[str, Any], Iterable[str]]:
    """Return results, proposals, what headers say, and the ids in lines.

    `faulty` takes lines that are none, with the error; the error of a segment has no line.
    """
    results: dict[str, CellResult] = {}
    shared: dict[bytes, Any] = {}
    last, read = dict[str, None](), set[str]()
    proposals: list[Mapping[str, Any]] = []
    header: Mapping[str, Any] = {}
    schema = 0
    for number, line in enumerate(lines, start=1):
        try:
            record = parse_line(line, checked=schema > 1)
            if number == 1 or (isinstance(record, dict) and "journal" in record):
                schema, header = _schema(record, path, number), {**header, **record}
                # What a header adds is later than the lines before it.
                for name in (name for name in header.get("segments", ()) if name not in read):
                    read.add(name)
                    try:
                        for result in Segment.read(path.parent / SEGMENTS / name, shared):
                            results[result.cell_id] = result
                    except SweepError as altered:
                        if faulty is None:
                            raise
                        faulty(altered, line)
            elif isinstance(record, CellResult):
                results[record.cell_id] = record
                last[record.cell_id] = None
            elif _PROPOSAL in record:
                proposals.append(record[_PROPOSAL])
            else:
                raise KeyError("cell_id")
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError) as fault:
            error = _faulty_line(path, number, line, fault)
            if faulty is None:
                raise error from None
            faulty(error, line)
    return results, proposals, header, last


def _faulty_line(path: Path, number: int, line: bytes, fault: Exception) -> SweepError:
    """Return the error for a line that was not written by a sweep, or not like this."""
    reason = f"the line is no cell's result: {fault}"
    if isinstance(fault, _AlteredLineError):
        reason = str(fault)
    elif isinstance(fault, KeyError):
        reason = f"the line is no cell's result: it has no {fault}"
    elif isinstance(fault, json.JSONDecodeError):
        reason = "the line is not JSON: something else has written into the journal"
    if match := _CELL_ID.search(line):
        reason += f"; it is of the cell {match[1].decode()}"
        # As far as the line can still be read.
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
            record = json.loads(line)
            values = ", ".join(f"{name}={value}" for name, value in record["configuration"].items())
            reason += f" ({', '.join(filter(None, (record['workload'], values, record['replicate'])))})"
    return SweepError(
        reason,
        path=path,
        line=number,
        hint=f"`gridtune results repair {path.parent}` sets the line aside; the sweep then reruns the cell",
    )


def repair_journal(path: Path) -> tuple[list[str], Path]:
    """Set the faulty lines of a journal aside, so that the sweep runs their cells again.

    Returns
    -------
    What was wrong with each, with its cell as far as it can be read; and the file that has the lines now.

    Raises
    ------
    SweepError
        If there is no journal, another process has it open, or it is of a newer gridtune.
    """
    if not path.exists():
        raise SweepError("there is no journal to repair", path=path, hint="give a sweep's folder")
    aside = path.with_suffix(".faulty")
    faults: list[str] = []
    bad: list[bytes] = []

    lost: list[str] = []

    def note(error: SweepError, line: bytes) -> None:
        if error.line is not None:
            faults.append(f"line {error.line}: {error.message}")
            bad.append(line)
            return
        segment = Path(str(error.path))
        faults.append(f"{SEGMENTS}/{segment.name}: {error.message}")
        lost.append(segment.name)
        if segment.exists():
            segment.replace(segment.with_suffix(".faulty"))

    with _locked(path.with_suffix(".lock")):
        content = path.read_bytes()
        lines = content.split(b"\n")[:-1]
        try:
            _schema(parse_line(lines[0], checked=False) if lines else {}, path, 1)
        except (ValueError, TypeError, KeyError, AttributeError):
            note(_faulty_line(path, 1, lines[0], _AlteredLineError("the header has been altered")), lines[0])
            schema = _LINES_SCHEMA if any(_CHECK in line for line in lines[1:]) else 1
            lines[0] = _record_line({"journal": "gridtune", "schema": schema})[:-1]
        of_header = len(bad)
        header = _parse(lines, path, note)[2]
        for place, line in enumerate(lines):
            if line.startswith(b'{"journal"') and line not in bad:
                record = parse_line(line, checked=False)
                left = [name for name in record.get("segments", ()) if name not in lost]
                lines[place] = _record_line({**record, "segments": left} if lost else record)[:-1]
        # A faulty line may be the header that names segments.
        there = [file.name for file in Journal.segment_files(path)] if bad else []
        if there:
            lines.append(_record_line({**header, "schema": _JOURNAL_SCHEMA, "segments": there})[:-1])
        if faults:
            with AppendOnlyFile(aside) as file:
                file.append(b"".join(line + b"\n" for line in bad))
            skipped = set(bad[of_header:])
            kept = b"".join(line + b"\n" for line in lines if line not in skipped)
            replaced = path.with_suffix(".repaired")
            replaced.write_bytes(kept)
            replaced.replace(path)
    return faults, aside


def _schema(record: Any, path: Path, line: int) -> int:
    """Return the form that the lines after a header have."""
    schema = record.get("schema") if isinstance(record, Mapping) else None
    if not isinstance(schema, int) or record.get("journal") != "gridtune":
        raise SweepError("this is no journal of a sweep", path=path, line=line)
    if schema > _JOURNAL_SCHEMA:
        raise SweepError(
            f"the journal is of schema {schema}, this gridtune knows up to {_JOURNAL_SCHEMA}",
            path=path,
            line=line,
            hint="use the gridtune that wrote it, or start in another directory",
        )
    return schema


def _environment() -> dict[str, str]:
    """Return the versions of the software that decides about results and proposals."""
    versions = software_versions(("numpy", "numba", "optuna"))
    return {name: version for name, version in versions.items() if name != "platform"}


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

    Attributes
    ----------
    results
        The last result of each cell, by id.
    proposals
        What adaptive strategies have proposed, in the order it was written.
    before
        The versions of software that the last lines were written with; empty where they do not say.
    """

    def __init__(
        self, path: Path, on_full: OnFull | None = None, mirror: Callable[[bytes], None] | None = None
    ) -> None:
        self.path, self._mirror, self._on_full = path, mirror, on_full
        self._environment, self._stale = _environment(), False
        self._file: AppendOnlyFile
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock")
        is_new = not lock.exists()
        with contextlib.ExitStack() as opened:
            self._lock = opened.enter_context(_locked(lock))
            if is_new:
                # A sweep that is refused leaves the folder as it was.
                opened.callback(lock.unlink, missing_ok=True)
            self._open()
            opened.callback(self._file.close)
            self.results, self.proposals, header, sound, self._last = _read(path)
            self._segments = list(header.get("segments", ()))
            if self._file.size > sound:
                self._file.truncate(sound)
            before = header.get("environment")
            self.before = before if isinstance(before, Mapping) else {}
            # Lines are never written again: in an old journal, or one that was written with other software, a
            # header of today goes before ours.
            self._header_is_due = self.before != self._environment
            if header.get("schema", 0) < _LINES_SCHEMA:
                self._write([])
            # A place in the lines that are there now stays one, unless they are as many as a segment has.
            self._kept, self._proposed = 0, 0
            if mirror is None and len(self._last) >= _SEGMENT:
                self._fold()
            self._kept, self._proposed, self._last = path.stat().st_size, len(self.proposals), {}
            self._sync()
            opened.pop_all()

    @staticmethod
    def segment_files(path: Path) -> list[Path]:
        """Return the files of the segments of the journal in `path`, in the order of their writing."""
        return sorted((path.parent / SEGMENTS).glob("*.arrow"), key=lambda file: file.stat().st_mtime_ns)

    @property
    def mixes(self) -> str | None:
        """The sentence about results that were made with other software; None if there are none."""
        changed = [
            f"{name} {self.before[name]}, now {now}"
            for name, now in self._environment.items()
            if self.before.get(name, now) != now
        ]
        if not changed or not self.results:
            return None
        return f"the results so far were made with other software: {'; '.join(changed)}"

    def append_proposals(self, proposals: Iterable[Mapping[str, Any]]) -> None:
        """Write what an adaptive strategy proposes, before its cells run."""
        batch = list(proposals)
        self._write([_record_line({_PROPOSAL: proposal}) for proposal in batch])
        self.proposals.extend(batch)

    def append(self, results: Iterable[CellResult]) -> None:
        """Write results; a cell's later result counts."""
        batch = list(results)
        self._write(map(_result_line, batch))
        added = {result.cell_id: result for result in batch}
        self.results.update(added)
        self._last.update(added)
        # A mirror has the lines.
        if len(self._last) >= _SEGMENT and self._mirror is None:
            self._fold()
        if time.monotonic() - self._synced > _SYNC_SECONDS:
            self._sync()

    def _write(self, lines: Iterable[bytes]) -> None:
        # One write to the operating system for all of them: what it has taken survives our death.
        content = b"".join(lines)
        if self._stale:
            self._open()
        if self._header_is_due:
            content, self._header_is_due = self._header([]) + content, False
        self._file.append(content)
        if self._mirror is not None and content:
            self._mirror(content)

    def _open(self) -> None:
        """Open the file of lines, and close the one that it has replaced."""
        if self._stale:
            self._file.close()
        self._file, self._stale = AppendOnlyFile(self.path, self._on_full), False
        if not _lock(self._file, self.path):
            # Somebody has removed the lock file of a sweep that runs.
            self._file.close()
            raise _refusal("another process", self.path)

    def _fold(self) -> None:
        """Make segments of the results in lines since the journal was opened; other lines stay.

        Whatever interrupts it, the file names segments that are whole, and no line is left out that none has.
        """
        results, segments = list(self._last.values()), list(self._segments)
        size = -(-len(results) // (len(results) // _SEGMENT))
        for first in range(0, len(results), size):
            content = Segment.of(results[first : first + size])
            segments.append(Segment.name(content))
            self._replace(self.path.parent / SEGMENTS / segments[-1], content)
        with self.path.open("rb") as file:
            before = file.read(self._kept)
        proposals = (_record_line({_PROPOSAL: one}) for one in self.proposals[self._proposed :])
        # The next line goes into the new file.
        self._stale = True
        self._replace(self.path, b"".join([before, self._header(segments), *proposals]))
        self._segments = segments
        self._last = {}

    def _replace(self, path: Path, content: bytes) -> None:
        """Write a file in one step, so that it survives a power cut."""
        with draft_of(path) as draft, AppendOnlyFile(draft, self._on_full) as file:
            file.append(content)
            file.sync()

    def _header(self, segments: Sequence[str]) -> bytes:
        header = {"journal": "gridtune", "schema": _JOURNAL_SCHEMA if segments else _LINES_SCHEMA}
        more = {"segments": segments} if segments else {}
        return _record_line({**header, "environment": self._environment, **more})

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

    def __exit__(self, *fault: object) -> None:
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


#: Where sweeps are by default, a folder each.
RESULTS = Path("results")


def sweep_folders(root: Path = RESULTS) -> list[Path]:
    """Return the folders in `root` that hold a sweep's journal, sorted by name."""
    return sorted(path.parent for path in root.glob(f"*/{JOURNAL_NAME}"))
