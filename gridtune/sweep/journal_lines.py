"""The lines of a journal: how a result becomes a line of JSON, and how an altered line is found.

A line ends with a CRC-32 of everything before it, and the line of a cell holds the text that the cell's id is
a hash of. So a digit that was changed by hand or by a failing disk is found when the line is read, and it can
be read which code, parameters and traces made a result.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

from gridtune.core.cells import CellResult, canonical_json, finite_json, id_of_identity

__all__ = ["AlteredLineError", "cell_of_line", "parse_line", "record_line", "result_line", "result_of_record"]

_CHECK = b',"check":"'
#: The check with its key, and the end of the line.
_CHECK_LENGTH = len(_CHECK) + 8 + len(b'"}')
_CELL_ID = re.compile(rb'"cell_id":"([0-9a-f]{4,40})"')
#: What is before and after the identity in a cell's line; it is there as the id was made of it.
_BEFORE_IDENTITY, _AFTER_IDENTITY = b',"identity":', b',"configuration_id":'
#: Attributes of a result that a line has under their own names; the metrics are converted besides.
_PLAIN = ("configuration_id", "workload", "configuration", "replicate", "traces", "state", "notes")

#: `json.loads` without its guess of the encoding, which takes a fifth of its time.
_decode = json.JSONDecoder().decode
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class AlteredLineError(ValueError):
    """A line is not what was written."""


def record_line(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line with its check."""
    return _checked(_json(record))


def result_line(result: CellResult) -> bytes:
    """Return a cell's result as a line with its identity and its check."""
    configuration = result.configuration
    own = {
        name: value
        for name, value in result.parameters.items()
        if name not in configuration or configuration[name] != value
    }
    rest: dict[str, Any] = {name: getattr(result, name) for name in _PLAIN}
    rest |= {"own": own, "metrics": result.metrics, "error": result.error}
    rest |= {"seconds": result.seconds, "worker": result.worker, "seed": result.seed}
    start = f'{{"cell_id":{json.dumps(result.cell_id)},"identity":{result.identity or "null"},'
    return _checked(start.encode() + _json(rest)[1:])


def _json(value: Any) -> bytes:
    try:
        return _encode(value).encode()
    except (TypeError, ValueError):
        # NaN, a NumPy number, a path: to look for them in every result takes as long as writing it.
        return _encode(finite_json(value)).encode()


def _checked(text: bytes) -> bytes:
    """Return the text of an object as a line, with the check as its last member."""
    body = text[:-1]
    return body + _CHECK + b"%08x" % zlib.crc32(body) + b'"}\n'


def parse_line(line: bytes, *, checked: bool) -> Any:
    """Return what a line holds.

    Parameters
    ----------
    line
        The line without its end.
    checked
        Whether it must have a check; one that has is checked in any case.

    Raises
    ------
    AlteredLineError
        If the line is not what was written.
    ValueError
        If it is not JSON.
    """
    end = len(line) - _CHECK_LENGTH
    has_check = end > 0 and line.startswith(_CHECK, end)
    if has_check and line[end + len(_CHECK) :] != b'%08x"}' % zlib.crc32(line[:end]):
        raise AlteredLineError("the line has been altered: its checksum does not agree with it")
    record = _decode(line.decode())
    if not has_check and checked:
        raise AlteredLineError("the line has been altered: it has no checksum")
    if has_check:
        del record["check"]
        if "identity" in record:
            record["identity"] = _identity_text(line, record)
    return record


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
            raise AlteredLineError("the line has been altered: the cell's id is not that of its identity")
    return text


def cell_of_line(line: bytes) -> str | None:
    """Return which cell a faulty line is about, as far as the line can still be read; None if it cannot."""
    found = _CELL_ID.search(line)
    if found is None:
        return None
    cell = f"the cell {found[1].decode()}"
    try:
        record = json.loads(line)
        values = ", ".join(f"{name}={value}" for name, value in record["configuration"].items())
        return f"{cell} ({', '.join(filter(None, (record['workload'], values, record['replicate'])))})"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return cell


def result_of_record(record: Mapping[str, Any]) -> CellResult:
    """Return the result in a line of this gridtune or of an earlier one.

    Raises
    ------
    TypeError, ValueError, AttributeError
        If the record is no result.
    """
    if isinstance(record, dict) and "own" in record:
        record["parameters"] = {**record["configuration"], **record.pop("own")}
    return CellResult.from_record(record)
