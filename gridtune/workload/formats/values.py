"""The values that resource managers write: times, durations, counts, memory, resources; columns of them.

Each function takes a text without blanks around it that is not empty. A text that it cannot read is a
`ValueError` that names what is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, TypeVar

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.types import FloatArray, IntArray
from gridtune.workload.fields import LARGEST_TIME, UNKNOWN
from gridtune.workload.formats.records import UNITS, Records, Texts

_T = TypeVar("_T")

#: What stands where there is no value.
_UNKNOWN_TEXTS = frozenset(
    {"", "unknown", "none", "n/a", "na", "nan", "nat", "null", "(null)", "-", "invalid"}
)

#: Limits that are none: also Slurm's numbers for infinite and for no value.
_UNLIMITED = frozenset({"unlimited", "infinite", "partition_limit", "4294967295", "4294967294"})

#: What slurmdbd stores for "not set" and "infinite".
_NO_VALUE = frozenset({"4294967294", "4294967295"})

#: Digits of a count that is believed.
_DIGITS = 9

_DURATION = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(?:\.(\d+))?")
_SPELT = re.compile(r"(?:\d+(?:\.\d*)?\s*(?:ms|s|m|min|h|d)\s*)+")
_SHORT = {"m": "min"}
_PIECE = re.compile(r"(\d+(?:\.\d*)?)\s*([a-z]+)")
_SPELT_DAYS = re.compile(r" days? \+?(?=\d+:\d+:\d+)")
#: Seconds since 1970 up to the last day but one of the year 9999.
_LAST_MOMENT = 253_402_214_400
#: From these numbers on, a time is in nanoseconds, microseconds or milliseconds since 1970.
_FINER = ((10**17, 10**9), (10**14, 10**6), (10**11, 10**3))
_DOTTED = re.compile(r"(\d\d)\.(\d\d)\.(\d{4})((?:[T ].*)?)")
_SLASHES = re.compile(r"^(\d{4})/(\d\d)/(\d\d)(?=[T ])")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_MEMORY = re.compile(r"(\d+(?:\.\d*)?)\s*([KMGTP]?)i?B?([cn]?)", re.IGNORECASE)
#: How a trackable resource of a kind of GPU begins.
GPU = "gres/gpu:"
_KILO = {"": 0, "K": 0, "M": 1, "G": 2, "T": 3, "P": 4}


def _whole_number(text: str) -> int:
    """Return a whole number; a fraction, such as a share of a processor, is rounded up."""
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    # sacct abbreviates counts: 1.5K, 2M.
    suffixed = re.fullmatch(r"(\d+(?:\.\d*)?)([KMG])", text, re.IGNORECASE)
    if suffixed:
        return round(float(suffixed[1]) * 1000 ** "KMG".index(suffixed[2].upper()) * 1000)
    if not _NUMBER.fullmatch(text) or abs(float(text)) > 2**53:
        raise ValueError("is not a number")
    return -int(-float(text) // 1)


def _duration_seconds(text: str, unit: float = 1) -> int | None:
    """Return a duration in seconds, rounded to whole ones; None for no limit.

    Parameters
    ----------
    text
        `D-HH:MM:SS`, `HH:MM:SS` or `MM:SS`, each with or without a fraction; `D-HH`, `D-HH:MM`; `2 days
        01:00:00`; `1h 5m 3s`; or a plain number of units.
    unit
        Seconds in the unit of a plain number: 60 for minutes.
    """
    if text.lower() in _UNLIMITED or text in _NO_VALUE:
        return None
    if _NUMBER.fullmatch(text):
        if abs(float(text)) > 2**53:
            raise ValueError("is beyond the largest time, 2**53 seconds")
        return round(float(text) * unit)
    if _SPELT.fullmatch(text):
        return round(sum(float(many) * UNITS[_SHORT.get(of, of)] for many, of in _PIECE.findall(text)))
    match = _DURATION.fullmatch(_SPELT_DAYS.sub("-", text))
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


def _moment_seconds(text: str, zone: tzinfo) -> int | None:
    """Return an instant in seconds since 1970, rounded down; None for a database's date of zeros.

    Parameters
    ----------
    text
        ISO 8601 with a date and a time, such as `2024-05-01T13:00:00`, with a blank for the `T`, a fraction
        or an offset; `01.05.2024 13:00:00`; or a number of seconds or, from 10^11 on, of milliseconds (from
        10^14 on microseconds, from 10^17 on nanoseconds).
    zone
        The zone of times without an offset. Where clocks are set back, an hour that comes twice is taken the
        first time.
    """
    if _NUMBER.fullmatch(text):
        number = float(text)
        seconds = number / next((each for least, each in _FINER if abs(number) >= least), 1)
        if abs(seconds) > _LAST_MOMENT:
            raise ValueError("is no time: it is beyond the year 9999")
        return int(seconds // 1)
    if text.startswith("0000-00-00"):
        # A database's word for none.
        return None
    dotted = _DOTTED.fullmatch(text)
    text = f"{dotted[3]}-{dotted[2]}-{dotted[1]}{dotted[4]}" if dotted else _SLASHES.sub(r"\1-\2-\3", text)
    try:
        moment = datetime.fromisoformat(text.removesuffix(" UTC"))
    except ValueError:
        raise ValueError("is no time: 2024-05-01T13:00:00, or seconds since 1970") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    return int(moment.timestamp() // 1)


def _clock_seconds(values: Any, zone: tzinfo) -> IntArray:
    """Return the instants of texts that are all of the form `2024-05-01T13:00:00`, as `_moment_seconds` does.

    Raises
    ------
    pyarrow.ArrowInvalid
        If one of them is no time.
    """
    import pyarrow as pa  # noqa: PLC0415 - tables of numbers do without

    seconds: IntArray = values.cast(pa.timestamp("s")).cast(pa.int64()).to_numpy()
    if zone is UTC:
        return seconds
    # Clocks are set at full quarters of an hour.
    quarters, of = np.unique(seconds // 900, return_inverse=True)
    beside = [
        datetime.fromtimestamp(900 * quarter, UTC).replace(tzinfo=zone).utcoffset()
        for quarter in quarters.tolist()
    ]
    offsets = np.array(
        [0 if offset is None else offset // timedelta(seconds=1) for offset in beside], np.int64
    )
    return seconds - offsets[of]


def repeated_hours(instants: IntArray, zone: tzinfo) -> IntArray:
    """Return by how many seconds an instant is later if it belongs to the second of two equal hours.

    Where clocks are set back, one hour of local times comes twice; 0 for every other instant.
    """
    quarters, of = np.unique(instants // 900, return_inverse=True)
    later = np.zeros(len(quarters), np.int64)
    for position, quarter in enumerate(quarters.tolist()):
        local = datetime.fromtimestamp(900 * quarter, UTC).astimezone(zone)
        first, second = (local.replace(fold=fold).utcoffset() for fold in (0, 1))
        if first is not None and second is not None and local.fold == 0:
            later[position] = (first - second) // timedelta(seconds=1)
    return np.maximum(later, 0)[of]


def kilobytes(text: str) -> tuple[int, str]:
    """Return memory in kilobytes, and what it is of: "c" a processor, "n" a node, "" the whole job.

    Without a suffix a number counts megabytes, as Slurm's and most tables' do.
    """
    match = _MEMORY.fullmatch(text)
    power = _KILO[match[2].upper()] if match and match[2] else 1
    if match is None or float(match[1]) * 1024**power > 2**53:
        raise ValueError("is no amount of memory: 4000M, 2800Mc (a processor), 4Gn (a node)")
    return round(float(match[1]) * 1024**power), match[3].lower()


def count_in(resources: dict[str, str], name: str) -> int:
    """Return how many of a trackable resource there are; `UNKNOWN` where it is not said."""
    text = resources.get(name, "")
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else UNKNOWN


def gpus_in(resources: dict[str, str]) -> int:
    """Return the GPUs among trackable resources; `UNKNOWN` where there are none, or one lacks a name."""
    total = count_in(resources, "gres/gpu")
    if total != UNKNOWN or not resources or any(name.isdecimal() for name in resources):
        return total
    return sum(max(count_in(resources, name), 0) for name in resources if name.startswith(GPU))


class Columns:
    """The columns of records by quantity, as texts and as numbers.

    Parameters
    ----------
    records
        The rows.
    chosen
        The column of each quantity.
    units
        The unit of plain numbers by quantity; seconds where none is named.
    zone
        That of times without an offset.
    """

    def __init__(
        self, records: Records, chosen: Mapping[str, str], units: Mapping[str, str], zone: tzinfo
    ) -> None:
        self.records, self.chosen, self.units, self.zone = records, dict(chosen), units, zone

    @staticmethod
    def leading_number(text: str) -> int | None:
        """Return the number that a text begins with, of fifteen digits at most; None without one."""
        digits = text[: len(text) - len(text.lstrip("0123456789"))]
        return int(digits) if digits and len(digits) <= 15 else None

    @staticmethod
    def resources_in(text: str) -> dict[str, str]:
        """Return trackable resources by name, from `cpu=12,mem=33600M,node=1,gres/gpu:v100=2`."""
        pairs = [part.partition("=") for part in text.split(",") if part]
        if not all(equals for _, equals, _ in pairs):
            raise ValueError("is no list of resources: cpu=12,mem=33600M,node=1")
        return {name.lower(): value for name, _, value in pairs}

    def texts(self, quantity: str) -> Texts:
        """Return the texts of a column without blanks around them, empty where nothing is known."""
        import pyarrow as pa  # noqa: PLC0415 - tables of numbers do without
        from pyarrow import compute  # noqa: PLC0415

        column = self.chosen.get(quantity)
        if column is None:
            return Texts(np.zeros(len(self.records), np.int64), pa.array([""]))
        codes, values = self.records.columns[column]
        values = compute.utf8_trim_whitespace(values)
        unknown = compute.is_in(compute.utf8_lower(values), value_set=pa.array(sorted(_UNKNOWN_TEXTS)))
        return Texts(codes, compute.if_else(unknown, "", values))

    def read(self, quantity: str, read: Callable[[str], _T], texts: Texts | None = None) -> list[_T | None]:
        """Return the value of each distinct text of a column, or of other texts; None for unknown."""
        codes, distinct = self.texts(quantity) if texts is None else texts
        values: list[_T | None] = []
        for code, text in enumerate(distinct.to_pylist()):
            try:
                values.append(read(text) if text else None)
            except ValueError as error:
                row = int(np.argmax(codes == code))
                raise self.fault(row, quantity, f"{text[:40]!r} {error}") from None
        return values

    def numbers(
        self,
        quantity: str,
        read: Callable[[str], int | None] = _whole_number,
        shape: str = r"^\d{1,10}$",
        many: Callable[[Any], IntArray] | None = None,
    ) -> IntArray:
        """Return a column of whole numbers; `UNKNOWN` where there is none.

        Texts of a shape are read all at once by `many`, as numbers unless it is given, the others one by one.
        """
        import pyarrow as pa  # noqa: PLC0415 - tables of numbers do without
        from pyarrow import compute  # noqa: PLC0415

        def number(text: str) -> int | None:
            value = read(text)
            if value is not None and not -LARGEST_TIME <= value <= LARGEST_TIME:
                raise ValueError("is beyond 2**53")
            return value

        codes, distinct = self.texts(quantity)
        plain = compute.match_substring_regex(distinct, shape)
        mask = plain.to_numpy(zero_copy_only=False)
        numbers = np.full(len(distinct), UNKNOWN)
        try:
            shaped = distinct.filter(plain)
            numbers[mask] = shaped.cast(pa.int64()).to_numpy() if many is None else many(shaped)
        except pa.ArrowInvalid:
            mask = np.zeros(len(distinct), np.bool_)
        if not mask.all():
            rest = compute.if_else(pa.array(mask), "", distinct)
            values = self.read(quantity, number, Texts(codes, rest))
            others = [UNKNOWN if value is None else value for value in values]
            numbers = np.where(mask, numbers, np.array(others, np.int64))
        return numbers[codes]

    def moments(self, quantity: str) -> IntArray:
        """Return a column of instants, seconds since 1970 or on the log's own clock."""
        unit = self.units.get(quantity)
        if unit is not None and self.plain(quantity) is not None:
            return self.numbers(quantity, lambda text: _duration_seconds(text, UNITS[unit]), shape="^$")
        return self.numbers(
            quantity,
            lambda text: _moment_seconds(text, self.zone),
            r"^(19|20)\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d$",
            lambda values: _clock_seconds(values, self.zone),
        )

    def plain(self, quantity: str) -> FloatArray | None:
        """Return a column of plain numbers, NaN where there is none; None for one that has other texts."""
        from pyarrow import compute  # noqa: PLC0415 - tables of numbers do without

        codes, distinct = self.texts(quantity)
        plain = compute.match_substring_regex(distinct, r"^$|^[+-]?\d{1,30}(\.\d*)?([eE][+-]?\d{1,3})?$")
        if not plain.to_numpy(zero_copy_only=False).all():
            return None
        numbers = np.array([float(text) if text else np.nan for text in distinct.to_pylist()], np.float64)
        return numbers[codes]

    def durations(self, quantity: str, unit: str | None = None) -> IntArray:
        """Return a column of durations, seconds; plain numbers are in a unit, by default the column's."""
        unit = self.units.get(quantity, "s") if unit is None else unit
        # Seconds are read all at once; with another unit no text is of a shape for that.
        factor, shape = UNITS[unit], r"^\d{1,9}$" if unit == "s" else "^$"
        return self.numbers(quantity, lambda text: _duration_seconds(text, factor), shape=shape)

    def fault(self, row: int, quantity: str, message: str, hint: str | None = None) -> WorkloadError:
        """Return the error that names file, line and column of a row's quantity."""
        return self.records.fault(row, self.chosen.get(quantity, quantity), message, hint)
