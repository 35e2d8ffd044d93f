"""JSON, tables and remarks that commands print."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from gridtune.tracking.tracked import TrackedRun


def print_json(content: object, *, indent: int | None = None) -> None:
    """Print a value as JSON: without a number NaN is null, an infinity the word for it."""
    from gridtune.core.cells import finite_json

    click.echo(json.dumps(finite_json(content), indent=indent, ensure_ascii=False, allow_nan=False))


def print_tracked(tracked: TrackedRun) -> None:
    """Say, on the standard error, where a run is tracked, or what could not be sent and why."""
    click.echo(f"{tracked.message}: run {tracked.run_id}" if tracked.complete else tracked.message, err=True)


def print_lines(console: Console, lines: Iterable[str], style: str = "yellow") -> None:
    """Print remarks, indented and as they are."""
    for line in lines:
        console.print(f"  {line}", style=style, highlight=False, markup=False, soft_wrap=True)


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables one below the other."""
    from gridtune.report.tables import report_console

    console = report_console()
    for table in tables:
        console.print(table)
        console.print()


def new_table(
    title: str, *columns: str, right: Iterable[str] = (), rows: Iterable[Sequence[str]] = ()
) -> Table:
    """Return a table with these columns and rows; the columns of `right` are aligned to the right."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in set(right) else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
