"""The values that resource managers write: times, durations, memory, trackable resources, states.

Each reader takes a text and returns None where it says that nothing is known. What it cannot read is a
`ValueError`, whose message says what would be accepted.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

__all__ = [
    "UNKNOWN_TEXTS",
    "count_in",
    "duration_seconds",
    "gpus_in",
    "kilobytes",
    "moment_seconds",
    "resources_in",
    "swf_status",
    "whole_number",
]

#: What stands where there is no value.
UNKNOWN_TEXTS = frozenset(
    {"", "unknown", "none", "n/a", "na", "nan", "nat", "null", "(null)", "-", "invalid"}
)

#: Limits that are none.
_UNLIMITED = frozenset({"unlimited", "infinite", "partition_limit"})

#: Digits of a count that is believed.
_DIGITS = 9

_DURATION = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(?:\.(\d+))?")
_TIMEDELTA = re.compile(r"(\d+) days? (?:\+?)(\d+:\d+:\d+(?:\.\d+)?)")
#: Seconds since 1970 up to the last day but one of the year 9999.
_LAST_MOMENT = 253_402_214_400
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_MEMORY = re.compile(r"(\d+(?:\.\d*)?)\s*([KMGTP]?)i?B?([cn]?)", re.IGNORECASE)
_KILO = {"": 0, "K": 0, "M": 1, "G": 2, "T": 3, "P": 4}


def _nothing(text: str) -> bool:
    return text.strip().lower() in UNKNOWN_TEXTS


def whole_number(text: str) -> int | None:
    """Return a whole number; a fraction, such as a share of a processor, is rounded up."""
    if _nothing(text):
        return None
    stripped = text.strip()
    if re.fullmatch(r"[+-]?\d{1,18}", stripped):
        return int(stripped)
    # sacct abbreviates counts: 1.5K, 2M.
    suffixed = re.fullmatch(r"(\d+(?:\.\d*)?)([KMG])", stripped, re.IGNORECASE)
    if suffixed:
        return round(float(suffixed[1]) * 1000 ** "KMG".index(suffixed[2].upper()) * 1000)
    if not _NUMBER.fullmatch(stripped) or abs(float(stripped)) > 2**53:
        raise ValueError("is not a number")
    return -int(-float(stripped) // 1)


def duration_seconds(text: str, unit: int = 1) -> int | None:
    """Return a duration in seconds, rounded to whole ones; None for unknown and for no limit.

    Parameters
    ----------
    text
        `D-HH:MM:SS`, `HH:MM:SS` or `MM:SS`, each with or without a fraction; `D-HH`, `D-HH:MM`; `2 days
        01:00:00`; or a plain number of units.
    unit
        Seconds in the unit of a plain number: 60 for minutes.
    """
    if _nothing(text) or text.strip().lower() in _UNLIMITED:
        return None
    stripped = text.strip()
    if _NUMBER.fullmatch(stripped):
        if abs(float(stripped)) > 2**53:
            raise ValueError("is beyond the largest time, 2**53 seconds")
        return round(float(stripped) * unit)
    spelt = _TIMEDELTA.fullmatch(stripped)
    if spelt:
        stripped = f"{spelt[1]}-{spelt[2]}"
    match = _DURATION.fullmatch(stripped)
    if match is None:
        raise ValueError("is no duration: D-HH:MM:SS, HH:MM:SS, MM:SS or a number")
    days, first, second, third, fraction = match.groups()
    parts = [int(part) for part in (first, second, third) if part is not None]
    if days is None:
        # Without days the last part is seconds: MM:SS; with days the first is hours: D-HH:MM.
        parts = [0] * (3 - len(parts)) + parts
    else:
        parts += [0] * (3 - len(parts))
    hours, minutes, seconds = parts
    whole = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return whole + round(float(f"0.{fraction or 0}"))


def moment_seconds(text: str, zone: tzinfo = UTC) -> int | None:
    """Return an instant in seconds since 1970, rounded down.

    Parameters
    ----------
    text
        ISO 8601 with a date and a time, such as `2024-05-01T13:00:00`, with a blank for the `T`, a fraction
        or an offset; or a number of seconds.
    zone
        The zone of times without an offset. Where clocks are set back, an hour that comes twice is taken the
        first time.
    """
    if _nothing(text):
        return None
    stripped = text.strip()
    if _NUMBER.fullmatch(stripped):
        if abs(float(stripped)) > _LAST_MOMENT:
            raise ValueError("is no time: it is beyond the year 9999")
        return int(float(stripped) // 1)
    try:
        moment = datetime.fromisoformat(stripped)
    except ValueError:
        raise ValueError("is no time: 2024-05-01T13:00:00, or seconds since 1970") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    return int(moment.timestamp() // 1)


def kilobytes(text: str) -> tuple[int, str] | None:
    """Return memory in kilobytes, and what it is of: "c" a processor, "n" a node, "" the whole job.

    Without a suffix a number counts megabytes, as Slurm's and most tables' do.
    """
    if _nothing(text):
        return None
    match = _MEMORY.fullmatch(text.strip())
    power = _KILO[match[2].upper()] if match and match[2] else 1
    if match is None or float(match[1]) * 1024**power > 2**53:
        raise ValueError("is no amount of memory: 4000M, 2800Mc (a processor), 4Gn (a node)")
    return round(float(match[1]) * 1024**power), match[3].lower()


def resources_in(text: str) -> dict[str, str]:
    """Return trackable resources by name, from `cpu=12,mem=33600M,node=1,gres/gpu:v100=2`."""
    if _nothing(text):
        return {}
    pairs = [part.partition("=") for part in text.strip().split(",") if part]
    if not all(equals for _, equals, _ in pairs):
        raise ValueError("is no list of resources: cpu=12,mem=33600M,node=1")
    return {name.lower(): value for name, _, value in pairs}


def count_in(resources: dict[str, str], name: str) -> int | None:
    """Return how many of a trackable resource there are; None where it is not said."""
    text = resources.get(name, "")
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


def gpus_in(resources: dict[str, str]) -> tuple[int, str | None]:
    """Return the GPUs among trackable resources, and their type where one is named."""
    of_type = {
        name.partition(":")[2]: count_in(resources, name) or 0
        for name in resources
        if name.startswith("gres/gpu:")
    }
    total = count_in(resources, "gres/gpu")
    return sum(of_type.values()) if total is None else total, "+".join(sorted(of_type)) or None


#: States of Slurm to SWF's status: 1 completed, 0 failed, 5 cancelled, 2 an attempt that another follows.
_STATUS = {
    "COMPLETED": 1,
    "FAILED": 0,
    "TIMEOUT": 0,
    "OUT_OF_MEMORY": 0,
    "NODE_FAIL": 0,
    "BOOT_FAIL": 0,
    "DEADLINE": 0,
    "LAUNCH_FAILED": 0,
    "CANCELLED": 5,
    "REVOKED": 5,
    "REQUEUED": 2,
    "PREEMPTED": 2,
}


def swf_status(state: str) -> int:
    """Return SWF's status of a state such as `CANCELLED by 1001`; -1 for one that is no end."""
    return _STATUS.get(first_word(state), -1)


def first_word(state: str) -> str:
    """Return a state without what follows it: `CANCELLED by 1001` is CANCELLED, `RUNNING+` RUNNING."""
    words = state.split()
    return words[0].rstrip("+").upper() if words else ""
