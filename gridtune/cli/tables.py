"""JSON and tables that commands print, with the tables of traces and workflows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from gridtune.tracking.tracker import TrackedRun
    from gridtune.workload.describe import WorkloadStatistics

__all__ = [
    "catalogue_tables",
    "new_table",
    "print_json",
    "print_lines",
    "print_tables",
    "print_tracked",
    "statistics_tables",
    "wide_console",
    "workflow_tables",
]


def print_json(content: object, *, indent: int | None = None) -> None:
    """Print a value as JSON: without a number NaN is null, an infinity the word for it."""
    from gridtune.core.cells import finite_json

    click.echo(json.dumps(finite_json(content), indent=indent, ensure_ascii=False, allow_nan=False))


def print_tracked(tracked: TrackedRun) -> None:
    """Say, on the standard error, where a run is tracked, or what could not be sent and why."""
    if tracked.unsent:
        message = f"{len(tracked.unsent)} items were not sent to {tracked.shown_uri}: {tracked.fault}"
        click.echo(f"{message}; the same command sends them", err=True)
    else:
        click.echo(f"tracked in {tracked.shown_uri}: run {tracked.run_id}", err=True)


def wide_console() -> Console:
    """Return a console of 120 columns at least: tables with intervals need them."""
    from rich.console import Console

    console = Console()
    console.width = max(console.width, 120)
    return console


def print_lines(console: Console, lines: Iterable[str], style: str = "yellow") -> None:
    """Print remarks, indented and as they are."""
    for line in lines:
        console.print(f"  {line}", style=style, highlight=False, markup=False, soft_wrap=True)


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables one below the other."""
    from rich.console import Console

    console = Console()
    # Without a terminal, rich would cut the tables at 80 columns.
    if not console.is_terminal:
        console = Console(width=160)
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


def _facts_table(title: str, facts: Mapping[str, str]) -> Table:
    """Return a table without a head that has a name and a text in each row."""
    table = new_table(title, "", "", rows=facts.items())
    table.show_header = False
    return table


def catalogue_tables(listing: Mapping[str, Any]) -> list[Table]:
    """Return tables of the bundled traces, the public logs, the generators and the formats."""
    logs = []
    for log in listing["logs"]:
        if log["path"]:
            here = "yes"
        elif log["url"] is None:
            here = "no: --mirror"
        else:
            here = "no" if log["sha256"] else "no: unverified"
        what = f"{log['title']}\n[dim]{log['caveat']}[/dim]"
        logs.append((log["name"], f"{log['jobs']:,}", f"{log['processors']:,}", here, what))
    formats = [(name, values["suffix"], values["summary"]) for name, values in listing["formats"].items()]
    return [
        new_table("Bundled traces", "name", "file", rows=listing["bundled"].items()),
        new_table(
            "Public logs: gridtune traces fetch NAME",
            *("name", "jobs", "processors", "here", "what"),
            right=("jobs", "processors"),
            rows=logs,
        ),
        new_table(
            "Generators: gridtune traces generate NAME --show",
            *("name", "what"),
            rows=listing["generators"].items(),
        ),
        new_table("Formats", "name", "suffix", "holds", rows=formats),
    ]


def statistics_tables(statistics: WorkloadStatistics) -> list[Table]:
    """Return tables of a workload's figures, spreads and gaps."""
    return [_figures(statistics), _spreads(statistics), _hours(statistics)]


def _figures(statistics: WorkloadStatistics) -> Table:
    machine = "unknown" if statistics.processors is None else f"{statistics.processors:,} processors"
    rows = {
        "jobs": f"{statistics.jobs:,}",
        "users, groups": f"{_count(statistics.users)}, {_count(statistics.groups)}",
        "queues, partitions": f"{_count(statistics.queues)}, {_count(statistics.partitions)}",
        "machine": machine,
        "submissions": f"{statistics.first_submit or '?'} to {statistics.last_submit or '?'}",
        "span": f"{statistics.span_seconds / 86_400:,.1f} days",
        "work": f"{statistics.area_processor_seconds / 3600:,.0f} processor-hours",
        "offered load": _number(statistics.offered_load, 3),
        "recorded utilisation": _number(statistics.recorded_utilisation, 3),
        "serial jobs": _percent(statistics.serial_share),
        "sizes 2, 4, 8, …": _percent(statistics.power_of_two_share),
        "at their limit": _percent(statistics.at_limit_share),
        "of the busiest user": _percent(statistics.busiest_user_share),
        "to be cleaned": f"{statistics.zero_run_time:,} with run time 0, "
        f"{statistics.wider_than_machine:,} wider than the machine, {statistics.unsorted:,} out of order",
        "missing": ", ".join(
            f"{field} ({'all' if count == statistics.jobs else f'{count:,}'})"
            for field, count in statistics.unknown.items()
        )
        or "nothing",
        "content": statistics.checksum,
    }
    return _facts_table(statistics.name, rows)


def _spreads(statistics: WorkloadStatistics) -> Table:
    columns = ("mean", "min", "10 %", "25 %", "median", "75 %", "90 %", "99 %", "max")
    table = new_table("Spread over the jobs", "", "jobs", *columns, right=("jobs", *columns))
    rows = (
        ("run time, s", statistics.run_time, 0),
        ("requested time, s", statistics.requested_time, 0),
        ("run / requested time", statistics.estimate_accuracy, 3),
        ("processors", statistics.size, 0),
        ("between submissions, s", statistics.inter_arrival, 0),
        ("recorded wait, s", statistics.wait_time, 0),
    )
    for name, spread, digits in rows:
        count, mean, *values = astuple(spread)
        numbers = (_number(mean, max(digits, 1)), *(_number(value, digits) for value in values))
        table.add_row(name, *((f"{count:,}", *numbers) if count else ("none",)))
    return table


def _hours(statistics: WorkloadStatistics) -> Table:
    table = new_table(f"Submissions by hour ({statistics.clock})", "hour", "share", "", right=("share",))
    most = max(statistics.arrivals_by_hour)
    for hour, share in enumerate(statistics.arrivals_by_hour):
        table.add_row(f"{hour:02d}", f"{100 * share:.1f} %", "█" * round(40 * share / most))
    return table


def workflow_tables(description: Mapping[str, Any]) -> list[Table]:
    """Return tables of a workflow's figures and of its kinds of tasks."""
    levels = ", ".join(f"{tasks:,}" for tasks in description["levels"])
    rows = {
        "tasks, edges": f"{description['tasks']:,}, {description['edges']:,}",
        "levels": f"{len(description['levels'])}: {levels} tasks",
        "work": f"{description['work_processor_seconds'] / 3600:,.1f} processor-hours",
        "longest path": f"{description['critical_path_seconds']:,.1f} s",
        "widest task": f"{description['widest_task']:,} processors",
        "sent between tasks": f"{description['bytes_sent'] / 1e9:,.3f} GB",
        "to be cleaned": ", ".join(f"{count:,} by {rule}" for rule, count in description["cleaning"].items()),
        "content": description["content"],
    }
    columns = ("tasks", "processors", "mean, s", "least, s", "most, s")
    kinds = new_table("Kinds of tasks", "kind", *columns, right=columns)
    for kind in description["kinds"]:
        times = [_number(kind["run_time"][name], 1) for name in ("mean", "least", "most")]
        kinds.add_row(kind["kind"], f"{kind['tasks']:,}", f"{kind['processors']:,}", *times)
    return [_facts_table(description["name"], rows), kinds]


def _count(count: int) -> str:
    return f"{count:,}" if count else "unknown"


def _number(value: float, digits: int) -> str:
    return "unknown" if math.isnan(value) else f"{value:,.{digits}f}"


def _percent(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{100 * value:.1f} %"
