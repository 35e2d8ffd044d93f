"""What systems that read job logs share: the rules that clean a log, a part of it, keeping it prepared."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BeforeValidator

from gridtune.systems.system import CLEANED_MARK
from gridtune.workload.cleaning import DEFAULT_RULES

__all__ = ["CleanRules", "Kept", "Partition", "Window", "as_read", "log_reference", "rule_names"]

#: Prepared logs that each process keeps: a block's cells share one or two.
_KEPT = 8
_WINDOW = re.compile(r"(\d+)/(\d+)")

T = TypeVar("T")


def _split(value: Any) -> Any:
    """Take `one,two` for a list of two: the command line has no lists."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _check_window(value: str) -> str:
    match = _WINDOW.fullmatch(value)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"must be `i/n` with 1 ≤ i ≤ n, such as 3/10, but got {value!r}")
    return value


def _numbered(value: Any) -> Any:
    """Take `12` from the command line for a number: no partition has a number for a name."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


#: A partition of a log by its number or its name.
Partition = Annotated[int | str, BeforeValidator(_numbered)]
#: Cleaning rules in order; `default` stands for the default ones, `none` for no rule.
CleanRules = Annotated[tuple[str, ...], BeforeValidator(_split)]
#: `i/n`: which part of how many; a search space's windows set it.
Window = Annotated[str, AfterValidator(_check_window)]


def rule_names(clean: tuple[str, ...]) -> tuple[str, ...]:
    """Return the cleaning rules by name, in order, each once."""
    rules: list[str] = []
    for rule in clean:
        rules += DEFAULT_RULES if rule == "default" else [] if rule == "none" else [rule]
    return tuple(dict.fromkeys(rules))


def as_read(trace: str, clean: tuple[str, ...]) -> str:
    """Return the reference of a log that the reader is to clean by these rules.

    A lenient rule can only take care of a faulty line while the file is read.
    """
    return f"{trace}{CLEANED_MARK}{','.join(rule_names(clean))}"


def log_reference(trace: str, clean: tuple[str, ...]) -> str:
    """Return the reference of a log; the reader is told of rules only where they were asked for by name."""
    return trace if clean in {("default",), ("none",), ()} else as_read(trace, clean)


class Kept(Generic[T]):
    """The last few things that were made, by what they were made of."""

    def __init__(self, size: int = _KEPT) -> None:
        self._size = size
        self._held: OrderedDict[Hashable, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what is kept under the key, made now if it is not."""
        if key not in self._held:
            self._held[key] = make()
            while len(self._held) > self._size:
                self._held.popitem(last=False)
        self._held.move_to_end(key)
        return self._held[key]
