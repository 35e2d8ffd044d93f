"""`LogParameters`: the parameters that all systems that read a job log share."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from gridtune.core.system import SystemParameters
from gridtune.workload.cleaning import DEFAULT_RULES
from gridtune.workload.files import WorkloadReference

__all__ = ["CleanRules", "Count", "LogParameters", "Partition", "Window"]

_WINDOW = re.compile(r"(\d+)/(\d+)")


def _split(value: Any) -> Any:
    """Read `one,two` as a list of two: the command line has no lists."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _check_window(value: str) -> str:
    match = _WINDOW.fullmatch(value)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"must be `i/n` with 1 ≤ i ≤ n, such as 3/10, but got {value!r}")
    return value


def _number_of(value: Any) -> Any:
    """Read `12` from the command line as a number: no partition's name is a number."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


#: A partition of a log by its number or its name.
Partition = Annotated[int | str, BeforeValidator(_number_of)]
#: Cleaning rules in order; `default` stands for the default ones, `none` for no rule.
CleanRules = Annotated[tuple[str, ...], BeforeValidator(_split)]
#: `i/n`: part i of n; a search space's windows set it.
Window = Annotated[str, AfterValidator(_check_window)]
#: A number of at least 1.
Count = Annotated[int, Field(gt=0)]


class LogParameters(SystemParameters):
    """The log that a cell reads, and the rules that clean it.

    A system that can do without a log redefines `trace` with the default None.
    """

    trace: str = Field(
        description="the log: a name or a file in one of the formats that `gridtune traces list` shows",
        examples=["kth-sp2", "my_log.swf.gz"],
    )
    clean: CleanRules = Field(
        ("default",),
        description="cleaning rules in order; `default` stands for the default ones, `none` for no rule",
        examples=["default,drop_wider"],
    )
    first: Count | None = Field(None, description="only the first N jobs of the log", examples=[5000])

    @property
    def rules(self) -> tuple[str, ...]:
        """The cleaning rules by name, in order, each once."""
        groups = {"default": DEFAULT_RULES, "none": ()}
        return tuple(dict.fromkeys(rule for name in self.clean for rule in groups.get(name, (name,))))

    @property
    def reference(self) -> WorkloadReference:
        """The log; the reader applies cleaning rules only if they are named one by one."""
        unnamed = self.clean in {("default",), ("none",), ()}
        return WorkloadReference(self.trace, None if unnamed else self.rules)
