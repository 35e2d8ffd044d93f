"""Header comments as the Standard Workload Format has them: `Key: value` lines before the jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from gridtune.errors import WorkloadError
from gridtune.workload.fields import NAMED_FIELDS
from gridtune.workload.formats.table import Comment
from gridtune.workload.workload import Workload

__all__ = ["header_lines", "machine_size", "names_in_header", "parse_header"]

Header = Mapping[str, tuple[str, ...]]

_KEY = re.compile(r"\s{0,3}([A-Za-z][\w ./()#-]{0,39}?)\s*:(?:\s+|$)(.*)", re.ASCII | re.DOTALL)
_CONTINUED = re.compile(r"\s{4,}\S")
_NUMBERED = re.compile(r"(\d{1,18})\s+(\S.*)")
#: The key of comment lines that have none.
_FREE = "Comment"


def parse_header(comments: Iterable[Comment]) -> dict[str, tuple[str, ...]]:
    r"""Return the header's values by key, in order.

    A key given several times has several values. A line indented by four blanks or more goes on with the
    value before it, after a "\n". A line without a key is a value of "Comment"; empty lines are skipped.
    """
    values: dict[str, list[str]] = {}
    last: str | None = None
    for comment in comments:
        text = comment.text.rstrip()
        if not text:
            continue
        if last is not None and _CONTINUED.match(text):
            values[last][-1] += "\n" + text.strip()
            continue
        match = _KEY.fullmatch(text)
        last, value = (match[1], match[2]) if match else (_FREE, text)
        values.setdefault(last, []).append(value.strip())
    return {key: tuple(texts) for key, texts in values.items()}


def machine_size(header: Header, comments: Iterable[Comment], path: Path) -> int | None:
    """Return the machine's processors: `MaxProcs` or, without it, `MaxNodes`; None if neither says."""
    for key in ("MaxProcs", "MaxNodes"):
        words = header.get(key, ("",))[0].replace(",", "").split()
        if not words or not words[0][0].isdigit():
            continue
        if not re.fullmatch(r"\d{1,18}", words[0]):
            line = next((c.line for c in comments if c.text.strip().startswith(key)), None)
            raise WorkloadError(f"{words[0]!r} is not a number", path=path, line=line, field=key)
        if int(words[0]) > 0:
            return int(words[0])
    return None


def names_in_header(header: Header) -> dict[str, dict[int, str]]:
    """Return the names of each field's numbers, from values such as `Partition: 12 rl.ac.uk`."""
    names: dict[str, dict[int, str]] = {}
    for field in NAMED_FIELDS:
        matches = (_NUMBERED.match(value.split("\n")[0]) for value in header.get(_key(field), ()))
        found = {int(match[1]): match[2].strip() for match in matches if match}
        if found:
            names[field] = found
    return names


def _key(field: str) -> str:
    """Return the header's key for the names of a field."""
    return field.replace("_", " ").capitalize()


def header_lines(workload: Workload, mark: str) -> list[str]:
    """Return the workload's header as comment lines that `parse_header` reads back.

    The header is written as it is, but for the machine's size and the names, which are the workload's own
    where they differ from the header's.
    """
    header = dict(workload.header)
    if machine_size(header, (), Path(workload.name)) != workload.machine_processors:
        header.pop("MaxNodes", None)
        header.pop("MaxProcs", None)
        if workload.machine_processors is not None:
            header["MaxProcs"] = (str(workload.machine_processors),)
    there = names_in_header(header)
    for field, names in workload.names.items():
        if there.get(field, {}) != dict(names):
            header[_key(field)] = tuple(f"{number} {name}" for number, name in names.items())
    lines = []
    for key, values in header.items():
        if not re.fullmatch(r"[A-Za-z][\w ./()#-]{0,39}", key, re.ASCII) or key != key.strip():
            raise WorkloadError(f"a header key that cannot be written: {key!r}", path=workload.source)
        for value in values:
            first, *others = value.split("\n")
            lines.append(f"{mark} {key}: {first}".rstrip())
            lines.extend(f"{mark}       {other}" for other in others)
    return lines
