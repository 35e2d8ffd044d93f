"""The GPUs of nodes, as Slurm's `Gres=` and `gres.conf` say them.

Source: https://slurm.schedmd.com/gres.conf.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from gridtune.errors import WorkloadError

__all__ = ["Gpus", "gpus_in", "gpus_of_lines"]

#: GPUs of a node by their type; "" where no type is said.
Gpus = Mapping[str, int]

_FACTORS = {"": 1, "k": 1024, "m": 1024**2}
_RANGE = re.compile(r"\[([^\]]*)\]")


def gpus_in(text: str) -> dict[str, int]:
    """Return the GPUs in a list such as `gpu:a100:4(S:0-1),gpu:2,license:1`; 0 of a type without a count.

    Raises
    ------
    ValueError
        If a count is no number.
    """
    gpus: dict[str, int] = {}
    for item in re.sub(r"\([^)]*\)", "", text).split(","):
        name, *rest = item.strip().split(":")
        if name.lower() != "gpu":
            continue
        rest = [part for part in rest if part != "no_consume"]
        last = rest[-1] if rest else ""
        counted = bool(re.fullmatch(r"\d+[kKmM]?", last))
        if len(rest) > 1 and not counted:
            raise ValueError(f"{last!r} is no number of GPUs")
        kind = ":".join(rest[:-1] if counted else rest)
        count = int(last.rstrip("kKmM")) * _FACTORS[last.lstrip("0123456789").lower()] if counted else 0
        gpus[kind] = gpus.get(kind, 0) + count
    return gpus


def gpus_of_lines(
    lines: Iterable[tuple[Path, int, Mapping[str, str], Iterable[str]]],
) -> dict[str, dict[str, int]]:
    """Return the GPUs of each node by the lines of a `gres.conf`.

    Parameters
    ----------
    lines
        File, number, settings by lower-case name and the nodes that each line is about.

    Raises
    ------
    WorkloadError
        Naming file and line of a count that is no number.
    """
    gpus: dict[str, dict[str, int]] = {}
    for path, number, settings, nodes in lines:
        if settings.get("name", "").lower() != "gpu":
            continue
        count = settings.get("count")
        if count is not None and not count.isdecimal():
            raise WorkloadError(f"{count!r} is no number of GPUs", path=path, line=number, field="Count")
        devices = settings.get("file", settings.get("multiplefiles"))
        many = int(count) if count is not None else 1 if devices is None else _devices(devices)
        for node in nodes:
            own = gpus.setdefault(node, {})
            kind = settings.get("type", "")
            own[kind] = own.get(kind, 0) + many
    return gpus


def _devices(text: str) -> int:
    """Return how many files `/dev/nvidia[0-3,6]` are, or a list of such."""
    total = 0
    for item in re.split(r",(?![^\[]*\])", text):
        count = 1
        for inside in _RANGE.findall(item):
            ends = [
                (low, high or low) for low, _, high in (part.partition("-") for part in inside.split(","))
            ]
            count *= sum(int(b) - int(a) + 1 for a, b in ends if a.isdecimal() and b.isdecimal())
        total += count
    return total
