"""Text of parameters and numbers in tables, plots and run names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from gridtune.core.cells import canonical_json

#: What the column of a parameter starts with in a table of cells.
PARAMETER_PREFIX = "param."
#: Numbers from here on are grouped into thousands, and above the second written as powers.
_GROUPED_FROM, _POWERS_FROM = 10_000, 1e9


def parameter_names(table: pa.Table) -> list[str]:
    """Return the names of the parameters a table of cells or a ranking has columns for."""
    return list(row_parameters(dict.fromkeys(table.column_names)))


def in_table(table: pa.Table, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as a table of cells holds them: lists, and numbers among words, are JSON text there.

    Parameters
    ----------
    table
        A row per cell, as `results_table` makes it.
    parameters
        Name to value; one without a column stays as it is.
    """
    columns = {field.name for field in table.schema if pa.types.is_string(field.type)}
    return {
        name: canonical_json(value)
        if f"{PARAMETER_PREFIX}{name}" in columns and not isinstance(value, str | None)
        else value
        for name, value in parameters.items()
    }


def distinct(values: Sequence[Any]) -> list[Any]:
    """Return the different values: numbers ascending, anything else in order of appearance."""
    distinct_values = list(dict.fromkeys(values))
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in distinct_values):
        return sorted(distinct_values)
    return distinct_values


def varying_parameters(table: pa.Table, without: Sequence[str] = ()) -> list[str]:
    """Return the parameters that take more than one value; all others say nothing in a table."""
    return [
        name
        for name in parameter_names(table)
        if name not in without and len(table[PARAMETER_PREFIX + name].unique()) > 1
    ]


def value_text(value: Any) -> str:
    """Write one parameter's value; a dash where a conditional parameter does not apply."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def configuration_label(parameters: Mapping[str, Any], varying: Sequence[str]) -> str:
    """Write a configuration in one short line: words stand alone, numbers and switches with their name."""
    given = {name: parameters[name] for name in varying if parameters.get(name) is not None}
    parts = (
        value if isinstance(value, str) else f"{name}={value_text(value)}" for name, value in given.items()
    )
    return " · ".join(parts) or "the only configuration"


def row_parameters(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters in a row of a table of cells or a ranking, by their names."""
    return {
        name.removeprefix(PARAMETER_PREFIX): value
        for name, value in row.items()
        if name.startswith(PARAMETER_PREFIX)
    }


def number_text(value: float | None) -> str:
    """Write a measured number to four significant digits; thousands are grouped, NaN is a dash."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size >= _POWERS_FROM or 0 < size < 1e-4:
        return f"{value:.3e}".replace("-", "−")
    if not size:
        return "0"
    text = f"{value:,.{max(0, 3 - math.floor(math.log10(size)))}f}"
    if size < _GROUPED_FROM:
        text = text.replace(",", "")
    return text.replace("-", "−")


#: Per cent from which on a difference is written as more than that.
_LARGEST = 1e6


def percent_text(fraction: float | None) -> str:
    """Write a fraction as a signed percentage; the end of an interval that has nearly none is cut."""
    if fraction is None or math.isnan(fraction):
        return "–"
    percent = min(fraction * 100, _LARGEST)
    digits = 0 if abs(percent) >= 100 else 1
    return ("> " if percent == _LARGEST else "") + f"{percent:+,.{digits}f} %".replace("-", "−")


def file_text(name: str) -> str:
    """Return the name of a metric, such as `wait_mean[wide]`, as a file's name has it."""
    return re.sub(r"[^\w.=-]+", "-", name).strip("-")


def interval_text(low: float | None, high: float | None, write: Callable[[float], str]) -> str:
    """Write an interval; "" where there is none."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    return f"{write(low).removesuffix(' %')} … {write(high)}"


def count_text(number: int, noun: str) -> str:
    """Return how many of something there are, such as `3 cells`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


#: Largest over smallest value from which an axis is logarithmic.
_LOGARITHMIC_FROM = 30.0


def is_logarithmic(values: Iterable[float | None]) -> bool:
    """Return whether values reach so far that only a logarithmic axis shows them all."""
    finite = [value for value in values if value is not None and not math.isnan(value)]
    return bool(finite) and min(finite) > 0 and max(finite) / min(finite) > _LOGARITHMIC_FROM


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """Return a table as Markdown; columns from the one numbered `left` on are aligned to the right."""
    rules = ["---"] * left + ["---:"] * (len(heads) - left)
    return "".join("| " + " | ".join(cells) + " |\n" for cells in (heads, rules, *rows))
