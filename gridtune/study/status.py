"""`sweep_status`: the state of a sweep, seen from another process, also after its driver has died."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from gridtune.core.cells import CellResult
from gridtune.errors import SweepError
from gridtune.report.facts import FACTS_FILE, SweepFacts
from gridtune.sweep.execution.observing import clock_text
from gridtune.sweep.execution.status import DriverStatus, LockOwner, cells_since
from gridtune.sweep.journal.journal import JOURNAL_NAME, read_journal
from gridtune.sweep.remote.results import Place, SweepView, place_name, view_sweep

#: running: a driver lives, or has had a heartbeat within a minute. finished: every cell has a result and the
#: driver has ended. interrupted: it was stopped. stopped: it ended with an error. died: it was killed, or
#: has no heartbeat any more. unknown: it is on a host that cannot be seen from here.
SweepState = Literal["running", "finished", "interrupted", "stopped", "died", "unknown"]


@dataclass(frozen=True)
class SweepStatus:
    """The state of a sweep.

    Attributes
    ----------
    folder
        Where it is: a folder, or a URL.
    name
        Of its search space.
    state
        In a word.
    total
        Cells it is to have; for an adaptive strategy as many as it comes to. None if it never got so far.
    counts
        Cells by state: done, failed, timed_out, lost.
    process, host
        Of the driver that lives or was the last; None if there was none.
    stage
        The stage that the driver is, or was, at.
    busy
        Workers that run cells.
    began
        When the driver began, in seconds since 1970, as all times here; None if it does not say.
    last_result
        When the last result was written; None without any.
    last_sign
        When the driver last wrote anything; None if it does not say.
    seconds_left
        About how long the cells that are left take, at the pace of this driver; None if that is not known.
    error
        The error that the driver ended with.
    at_most
        Whether `total` is the most there can be, as the strategy may stop configurations.
    silent
        Seconds for which a driver that should have a heartbeat had none; None if it has one.
    """

    folder: Place
    name: str
    state: SweepState
    total: int | None
    counts: Mapping[str, int] = field(default_factory=dict)
    process: int | None = None
    host: str | None = None
    stage: str = ""
    busy: int = 0
    began: float | None = None
    last_result: float | None = None
    last_sign: float | None = None
    seconds_left: float | None = None
    error: str | None = None
    at_most: bool = False
    silent: float | None = None

    @property
    def left(self) -> int | None:
        """Cells without a result; None if their number is not known."""
        return None if self.total is None else max(0, self.total - sum(self.counts.values()))

    @property
    def complete(self) -> bool:
        """True if it is finished and every cell is done."""
        return self.state == "finished" and self.counts.get("done", 0) == self.total

    @property
    def time_left(self) -> str:
        """The time that the cells that are left take; empty if it is not known."""
        return "" if self.seconds_left is None else clock_text(self.seconds_left)

    @property
    def state_text(self) -> str:
        """The state in words, with the driver."""
        who = "" if self.process is None else f"process {self.process} on {self.host}"
        if self.state == "running":
            busy = f", {self.busy} worker{'s' if self.busy > 1 else ''} busy" if self.busy else ""
            since = "" if self.began is None else f" for {clock_text(time.time() - self.began)}"
            doing = "" if self.stage == "running" else f": {self.stage or 'starting'}"
            text = f"running{since}{doing}{busy} ({who})"
            if self.silent is not None:
                text += f", but without a sign of life for {clock_text(self.silent)}: is it suspended?"
            return text
        if self.state == "died":
            doing = f" while {self.stage}" if self.stage else ""
            sign = "" if self.last_sign is None else f"; last sign of life {when(self.last_sign)}"
            return f"not running: its driver ({who or 'unknown'}) died{doing}{sign}"
        if self.state == "stopped":
            return f"not running: its driver stopped: {self.error}"
        if self.state == "unknown":
            return f"not known: its driver is {who}, which cannot be seen from here"
        return self.state

    def __str__(self) -> str:
        up_to = "up to " if self.at_most else ""
        total = "an unknown number of" if self.total is None else f"{up_to}{self.total:,}"
        states = {state: count for state, count in self.counts.items() if count or state == "done"}
        counts = ", ".join(f"{count:,} {state.replace('_', ' ')}" for state, count in states.items())
        left = "" if self.left is None else f", {up_to}{self.left:,} left"
        lines = [f"{self.name}: {self.state_text}", f"  {counts}{left}, of {total} cells"]
        if self.last_result is not None:
            lines.append(f"  last result {when(self.last_result)}")
        if self.time_left:
            what = "left" if self.state == "running" else "to run what is left, at the same pace"
            lines.append(f"  {'at most' if self.at_most else 'about'} {self.time_left} {what}")
        if self.state in {"interrupted", "stopped", "died"}:
            lines.append("  the same command as before goes on with what is left")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        return {**asdict(self), "folder": str(self.folder), "left": self.left, "complete": self.complete}


def when(moment: float) -> str:
    """Return how long ago a moment was, and when, in local time."""
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
    return f"{clock_text(max(0.0, time.time() - moment))} ago ({text})"


def sweep_status(place: Place) -> SweepStatus:
    """Return the state of a sweep, from its journal, its lock and the status that its driver writes.

    Parameters
    ----------
    place
        The sweep's folder, or its URL.

    Raises
    ------
    SweepError
        If there is no sweep, or its journal is faulty.
    StorageError
        If the storage at the URL cannot be read.
    """
    with view_sweep(place, FACTS_FILE) as view:
        return _status(view)


def _status(view: SweepView) -> SweepStatus:
    folder, owner = view.folder, view.owner
    journal = folder / JOURNAL_NAME
    if not journal.exists():
        raise SweepError("no sweep is there", path=folder, hint="give a sweep's folder: results/NAME")
    driver = DriverStatus.read(folder)
    facts = SweepFacts.read(folder) if (folder / FACTS_FILE).exists() else None
    if owner and driver and (driver.process, driver.host) != (owner.process, owner.host):
        # A driver that has just begun, or one of an earlier gridtune, has not said anything yet.
        driver = None
    if driver and driver.counts:
        counts = Counter(driver.counts)
    else:
        counts = Counter(result.state for result in _own_results(journal, driver).values())
    total = driver.total if driver else facts.cells if facts else None
    status = SweepStatus(
        folder=view.place,
        name=facts.name if facts else place_name(view.place),
        state=_state(driver, owner, total, counts.total()),
        total=total,
        counts={state: counts[state] for state in ("done", "failed", "timed_out", "lost")},
        last_result=journal.stat().st_mtime if counts else None,
    )
    if owner:
        status = replace(status, process=owner.process, host=owner.host)
    if driver:
        status = replace(
            status,
            name=driver.name,
            began=driver.began,
            last_sign=max(driver.updated, driver.heartbeat, status.last_result or 0.0),
            silent=driver.silent,
            at_most=driver.at_most,
            error=None if driver.ended in {"finished", "interrupted"} else driver.ended,
            seconds_left=driver.seconds_left if status.left else None,
        )
        if driver.ended is None:
            status = replace(status, stage=driver.stage, busy=driver.busy)
    return status


def _own_results(journal: Path, driver: DriverStatus | None) -> dict[str, CellResult]:
    """Return the journal's results of this sweep: it may also have those of an earlier space."""
    results = read_journal(journal)
    if driver is None or not driver.ignored:
        return results
    since = cells_since(journal, driver.journal_segments, driver.journal_bytes)
    others = set(driver.ignored) - since
    return {cell_id: result for cell_id, result in results.items() if cell_id not in others}


def _state(
    driver: DriverStatus | None, owner: LockOwner | None, total: int | None, finished: int
) -> SweepState:
    if owner is not None and owner.alive:
        return "running"
    if driver is not None and driver.ended is None and driver.alive:
        # One of an earlier gridtune gave the journal up before it wrote the report.
        return "running"
    if driver is not None and driver.ended is not None:
        words: dict[str, SweepState] = {"finished": "finished", "interrupted": "interrupted"}
        return words.get(driver.ended, "stopped")
    if owner is not None and owner.alive is None:
        if driver is None or not driver.beats:
            return "unknown"
        return "running" if driver.silent is None else "died"
    # Without a word from its driver: one of an earlier gridtune, or of Python's `run_space`.
    return "finished" if driver is None and total is not None and finished >= total else "died"
