"""Mutations of valid inputs: of bytes, words, fields and lines, of the values in JSON and YAML."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

__all__ = ["WILD", "mutated", "mutated_values", "wild_value"]

#: Words that have broken readers: numbers at the edges of types, dates that are none, marks of other formats.
WILD = (
    *("", "0", "-0", "-1", "1", "-2", "00", "1.5", "1e3", "1e999", "-1e999", "1e-999", "nan", "-nan"),
    *("inf", "Infinity", "NaN", "2147483648", "9007199254740993", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551616"),
    *("1" * 400, "9" * 5000, "0x1f", "0b1", "0o17", "1_000", "1,000", "１２", "²", "½", "٣", "+1", "--1"),
    *("1-", "1:60:61", "99:99:99", "null", "None", "~", "true", "no", "[]", "{}", "[[", "{{", "]", "}"),
    *('"', "'", "`", "\\", "|", "&a", "*a", "<<", "!!python/object/apply:os.system ['true']"),
    *("!!binary x", "? x", "- - -", "%", "%s", "@", "#", ";", "2024-02-30", "2024-13-45"),
    *("2024-13-45 25:61:61", "0000-00-00", "9999-12-31T23:59:59", "10000-01-01", "1969-12-31T23:59:59"),
    *("-1-01-01", "Unknown", "INVALID", "UNLIMITED", "Partition_Limit", "1-00:00:00"),
    *("999999999-00:00:00", "16G", "99999999999999999T", "4Kn", "-5M", "n[1-3]", "n[1-999999999]"),
    *("n[3-1]", "n[", "a[1][2][3]", "cpu=8,mem=16G", "billing=", "=", "==", "a=b=c", "gres/gpu=4"),
    *("\x00", "\x1a", "\x7f", "\u202e", "\ufeff", "\u2028", "é", "é", "😀", "\ud800", "A" * 70_000),
    *("../../etc/passwd", "/", "..", "//", "s3://x", "<!ENTITY a 'b'>", "&a;", "<![CDATA[", "<!--"),
    *("-->", "\t", "\r", "\n", "\r\n", " "),
)  # fmt: skip
_BYTES = tuple(word.encode("utf-8", "surrogatepass") for word in WILD)
_SEPARATORS = (b"|", b",", b";", b" ", b"\t", b"=", b":", b"-")
_WORD = re.compile(rb"[\w.+-]+")
_NUMBER = re.compile(rb"\d+")

Mutation = Callable[[random.Random, bytes], bytes]


def mutated(rng: random.Random, sample: bytes) -> bytes:
    """Return the sample after one to four mutations."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        sample = rng.choice(_MUTATIONS)(rng, sample)
    return sample[: 1 << 20]


def wild_value(rng: random.Random) -> Any:
    """Return a value of JSON that is rarely wanted."""
    values: tuple[Any, ...] = (None, True, False, 0, -1, 1, 1.5, 1e308, -1e-308, 2**63, -(2**63) - 1, 10**400)
    values += (float("nan"), float("inf"), [], {}, [[]], {"": None}, [None, {"a": [1]}], [1, "1", 1.0])
    return rng.choice(values) if rng.random() < 0.6 else rng.choice(WILD)


def mutated_values(rng: random.Random, document: Any) -> Any:
    """Return a document of JSON with one to three of its keys and values changed."""
    document = json.loads(json.dumps(document))
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(document))
        if not places:
            return wild_value(rng)
        holder, key = rng.choice(places)
        action = rng.randrange(5)
        if action == 0:
            del holder[key]
        elif action == 1:
            holder[key] = rng.choice(places)[0]
            document = _cut(document)
        elif action == 2 and isinstance(holder, dict):
            holder[rng.choice(WILD)] = holder.pop(key)
        elif action == 3 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = rng.choice((-holder[key], holder[key] * 10**9, str(holder[key]), [holder[key]]))
        else:
            holder[key] = wild_value(rng)
    return document


def _places(value: Any) -> Any:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _cut(value: Any, depth: int = 12) -> Any:
    """Return a copy that ends, of a document that may hold itself."""
    if depth == 0:
        return None
    if isinstance(value, dict):
        return {key: _cut(one, depth - 1) for key, one in value.items()}
    return [_cut(one, depth - 1) for one in value] if isinstance(value, list) else value


def _at(rng: random.Random, sample: bytes) -> int:
    return rng.randrange(len(sample) + 1)


def _flip(rng: random.Random, sample: bytes) -> bytes:
    changed = bytearray(sample or b"\0")
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _insert(rng: random.Random, sample: bytes) -> bytes:
    place = _at(rng, sample)
    new = rng.choice(_BYTES) if rng.random() < 0.7 else rng.randbytes(rng.randrange(1, 9))
    return sample[:place] + new + sample[place:]


def _remove(rng: random.Random, sample: bytes) -> bytes:
    first, last = sorted((_at(rng, sample), _at(rng, sample)))
    return sample[:first] + sample[min(last, first + rng.choice((1, 4, 64, 4096))) :]


def _truncate(rng: random.Random, sample: bytes) -> bytes:
    return sample[: _at(rng, sample)]


def _replace_word(rng: random.Random, sample: bytes) -> bytes:
    words = list(_WORD.finditer(sample))
    if not words:
        return _insert(rng, sample)
    word = rng.choice(words)
    return sample[: word.start()] + rng.choice(_BYTES) + sample[word.end() :]


def _change_number(rng: random.Random, sample: bytes) -> bytes:
    numbers = list(_NUMBER.finditer(sample))
    if not numbers:
        return _insert(rng, sample)
    number = rng.choice(numbers)
    value = int(number[0][:18])
    near = rng.choice((value + 1, value - 1, -value, value * 10, value * 10**12, 2**31, 2**53, 2**63, 2**64))
    return sample[: number.start()] + str(near).encode() + sample[number.end() :]


def _change_lines(rng: random.Random, sample: bytes) -> bytes:
    lines = sample.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    action = rng.randrange(5)
    if action == 0:
        del lines[one]
    elif action == 1:
        lines.insert(one, lines[other])
    elif action == 2:
        lines[one], lines[other] = lines[other], lines[one]
    elif action == 3:
        lines[one:one] = [lines[other]] * rng.choice((3, 50))
    else:
        lines[one] = rng.choice(_BYTES)
    return b"\n".join(lines)


def _change_fields(rng: random.Random, sample: bytes) -> bytes:
    lines = sample.split(b"\n")
    row = rng.randrange(len(lines))
    separator = rng.choice([mark for mark in _SEPARATORS if mark in lines[row]] or [b","])
    fields = lines[row].split(separator)
    one, other = rng.randrange(len(fields)), rng.randrange(len(fields))
    action = rng.randrange(4)
    if action == 0:
        del fields[one]
    elif action == 1:
        fields[one], fields[other] = fields[other], fields[one]
    elif action == 2:
        fields.insert(one, fields[other])
    else:
        fields[one] = rng.choice(_BYTES)
    lines[row] = separator.join(fields)
    return b"\n".join(lines)


def _encode(rng: random.Random, sample: bytes) -> bytes:
    text = sample.decode("utf-8", "replace")
    coding = rng.choice(("utf-16", "utf-8-sig", "utf-16-le", "utf-32", "latin-1"))
    return text.encode(coding, "replace")


def _mix(rng: random.Random, sample: bytes) -> bytes:
    """Return the beginning of the sample and its end, cut at other places."""
    return sample[: _at(rng, sample)] + sample[_at(rng, sample) :]


def _nest(rng: random.Random, sample: bytes) -> bytes:
    opening = rng.choice((b"[", b"{", b'{"a":', b"(", b"<a>", b"- ", b"-"))
    place = _at(rng, sample)
    return sample[:place] + opening * rng.choice((10, 200, 5000)) + sample[place:]


_MUTATIONS: tuple[Mutation, ...] = (
    *(_flip, _insert, _remove, _truncate, _mix, _encode, _nest),
    *(_replace_word, _change_number, _change_lines, _change_fields) * 3,
)
