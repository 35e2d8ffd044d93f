"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table

__all__ = ["new_table", "print_tables"]


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables one below the other."""
    console = Console()
    # Without a terminal, rich would cut the tables at 80 columns.
    if not console.is_terminal:
        console = Console(width=160)
    for table in tables:
        console.print(table)
        console.print()


def new_table(title: str, *columns: str, right: Iterable[str] = ()) -> Table:
    """Return a table with these columns; those of `right` are aligned to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in set(right) else "left", overflow="fold")
    return table
