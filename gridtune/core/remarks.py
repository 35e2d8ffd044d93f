"""Remarks on a result: parts of the log that are ignored, assumptions, and jobs that were cut off.

Systems and `simulate` put remarks among the notes of each result; here they are made and put into words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gridtune.types import IntArray
from gridtune.workload.contents import FACTS, FAR_OUTLIVED, GRACE, LIMIT_UNITS, LogContents

#: Whether an answer can be acted on: in figures, in directions, not at all; or nothing was compared.
TrustLevel = Literal["yes", "signs only", "no", "not graded"]
#: The note of a result with the agreement of its waits with the recorded ones, for `System.trust`.
RECORDED = "recorded"


@dataclass(frozen=True)
class Trust:
    """The trust in an answer, with its reason in a sentence."""

    level: TrustLevel
    reason: str

    def __str__(self) -> str:
        return f"{self.level}: {self.reason}"


#: For `System.modelled_features`: jobs are scheduled by their requested times.
WALLTIMES = "walltimes"
#: What `System.modelled_features` may name: facts of a log, and its requested times.
MODELLED = (*FACTS, WALLTIMES)

#: The remarks among a result's notes. `killed` holds `jobs` and `work_lost`, a share; `orders` is a list of
#: queue orders that would go by walltimes where these are all the same; the others are texts.
_IGNORED, _PARTITIONS, _DEPENDENCIES = "ignored", "partitions", "dependencies"
_MISSING, _ORDERS = "walltimes", "orders"
_KILL, _KILLED = "kill", "killed"
_MACHINE, _UNITS, _READING = "machine", "units", "reading"
_SHORT = {"minutes": "min", "hours": "h", "milliseconds": "ms"}
#: Files that code of users has read in calls: path to SHA-256.
READ_FILES = "read_files"
_TEXTS = (_READING, _MACHINE, _UNITS, _IGNORED, _PARTITIONS, _DEPENDENCIES, _MISSING, _KILL)
REMARKS = (*_TEXTS[:-1], _ORDERS, _KILL, _KILLED, READ_FILES)

#: A machine is doubted if the log uses less of it than this share, and its jobs waited for longer than these
#: seconds on average.
_LOW_USE, _LONG_WAIT = 0.2, 3600

#: The remarks as columns of a table of results: texts, `killed_jobs` a count, `work_lost` a share.
REMARK_COLUMNS = (*_TEXTS, _ORDERS, "killed_jobs", "work_lost")


def log_remarks(contents: LogContents, models: Collection[str]) -> dict[str, str]:
    """Return remarks on what a log says and is not modelled, and on walltimes that it lacks.

    Parameters
    ----------
    contents
        Facts of the whole log.
    models
        The modelled features of it, see `MODELLED`.
    """
    remarks = {_READING: "; ".join(contents.notes)} if contents.notes else {}
    if ignored := _ignored_text(contents, models):
        remarks[_IGNORED] = ignored
    missing = contents.without_request
    if WALLTIMES in models and missing:
        remarks[_MISSING] = f"missing in {missing:,} of the log's {contents.jobs:,} jobs"
    return remarks


def _ignored_text(contents: LogContents, models: Collection[str]) -> str:
    parts = []
    for name, words in FACTS.items():
        count = contents.facts.get(name, 0)
        if count and name not in models:
            pooled = f" ({contents.partitions:,}, pooled)" if name == "partitions" else ""
            parts.append(f"{words}{pooled}, in {count:,} jobs")
    if parts:
        parts[-1] += f" (of the log's {contents.jobs:,})"
    if contents.downtime and "downtime" not in models:
        hours = contents.downtime / 3600
        parts.append(f"time the machine was down: for {hours:,.0f} h no job ran while some waited")
    return "; ".join(parts)


def doubts(contents: LogContents, processors: int, *, stated: bool, waits: bool = False) -> dict[str, str]:
    """Return remarks on a machine that does not fit the log, and on walltimes that look like minutes.

    Parameters
    ----------
    contents
        Facts of the whole log.
    processors
        The machine's size.
    stated
        True if the log has the size of its machine.
    waits
        True if a job waited in a simulation.
    """
    load, parts = contents.load, []
    size = f"{processors:,} processors"
    if contents.jobs and not waits and load.peak <= processors:
        parts.append(
            f"nothing ever waits in this log on {size}: its jobs never need more than {load.peak:,} at once, "
            "so no queue order differs from another"
        )
    use = load.work / max(load.span * processors, 1.0)
    if use < _LOW_USE and load.wait > _LONG_WAIT:
        parts.append(
            f"the log uses {100 * use:.0f} % of {size}, but its jobs waited {load.wait / 3600:,.1f} h on "
            "average: the machine is smaller, or limits held them that are not in the log"
        )
    if not stated and contents.jobs and processors == load.widest:
        parts.append(
            f"{size} is the width of the widest job, and the log does not say the machine's size: "
            "on a larger one jobs wait less"
        )
    remarks = {_MACHINE: "; ".join(parts)} if parts else {}
    if contents.limit_unit:
        unit, factor = contents.limit_unit, LIMIT_UNITS[contents.limit_unit]
        why = (
            f"{contents.exceeded:,} of {contents.requests:,} jobs ran longer than {FAR_OUTLIVED} times "
            f"theirs, but only {contents.exceeded_unit:,} longer than {factor:,.0f} times theirs"
            if factor > 1
            else "half of them are longer than 90 days, and 200 times as long as the run times"
        )
        remarks[_UNITS] = (
            f"walltimes look like {unit}, but count as seconds: {why}; multiply them by {factor:g}, or read "
            f"the log with --unit limit={_SHORT[unit]}"
        )
    return remarks


def kill_remarks(contents: LogContents, *, killing: bool) -> dict[str, str]:
    """Return a remark on a log whose machine did not kill, and on what is done with its jobs."""
    if contents.kills:
        return {}
    unit = contents.limit_unit
    why = f"its walltimes look like {unit}" if unit else "its machine did not kill"
    done = "yes, although" if killing else "no:"
    return {
        _KILL: f"{done} {contents.outlived:,} of the log's {contents.requests:,} jobs with a requested time "
        f"outlived it by more than {GRACE // 60} min: {why}"
    }


def lost_work(run: IntArray, kept: IntArray, processors: IntArray) -> dict[str, dict[str, float]]:
    """Return a remark on jobs that are cut short, if any are.

    Parameters
    ----------
    run, kept
        Shape (n,): run times as recorded and as simulated, in one unit.
    processors
        Shape (n,).
    """
    cut = run > kept
    if not cut.any():
        return {}
    rows = np.flatnonzero(cut)
    lost = np.multiply(run[rows] - kept[rows], processors[rows], dtype=np.float64).sum()
    share = lost / np.multiply(run, processors, dtype=np.float64).sum()
    return {_KILLED: {"jobs": len(rows), "work_lost": float(share)}}


def merged_remarks(notes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the remarks of many results on one log as those of one: all orders, the most jobs killed."""
    merged: dict[str, Any] = {}
    orders: dict[str, None] = {}
    files: dict[str, str] = {}
    for note in notes:
        for name in _TEXTS:
            if name in note:
                merged.setdefault(name, note[name])
        orders |= dict.fromkeys(note.get(_ORDERS, ()))
        files |= note.get(READ_FILES, {})
        killed, most = note.get(_KILLED), merged.get(_KILLED)
        if killed and (most is None or killed["work_lost"] > most["work_lost"]):
            merged[_KILLED] = killed
    more = {_ORDERS: list(orders), READ_FILES: files}
    return merged | {name: value for name, value in more.items() if value}


def remark_columns(notes: Mapping[str, Any]) -> dict[str, str | int | float]:
    """Return the remarks among a result's notes, by `REMARK_COLUMNS`; those that it has."""
    columns: dict[str, str | int | float] = {name: notes[name] for name in _TEXTS if name in notes}
    if _ORDERS in notes:
        columns[_ORDERS] = ", ".join(notes[_ORDERS])
    if _KILLED in notes:
        columns |= {"killed_jobs": notes[_KILLED]["jobs"], "work_lost": notes[_KILLED]["work_lost"]}
    return columns


def remark_lines(notes: Mapping[str, Any], *, most: bool = False) -> list[str]:
    """Return the remarks among a result's notes as sentences; with `most`, of many results together."""
    lines = {name: f"{name}: {notes[name]}" for name in REMARKS if name in notes}
    if _MISSING in notes:
        lines[_MISSING] += "; each of these gets the log's longest"
    if _ORDERS in notes:
        names = ", ".join(notes[_ORDERS])
        lines[_ORDERS] = f"warning: {names} cannot order jobs by walltime: all walltimes are the same"
    if READ_FILES in notes:
        lines[READ_FILES] = (
            f"files: {', '.join(notes[READ_FILES])} decided these results when they were computed; ids do "
            "not count what code of yours reads in a call, unless it is declared: files=[…]"
        )
    if _KILLED in notes:
        killed = notes[_KILLED]
        jobs = f"{'up to ' if most else ''}{killed['jobs']:,} jobs were cut at their walltime"
        lines[_KILLED] = f"killed: {jobs}, {100 * killed['work_lost']:.2f} % of the work"
    return list(lines.values())
