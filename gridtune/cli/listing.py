"""`gridtune list` and `gridtune systems`: the systems, metrics, orders, spaces and traces to choose from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from gridtune.cli.parameters import complete_systems
from gridtune.cli.tables import new_table, print_json, print_tables

if TYPE_CHECKING:
    from rich.table import Table

    from gridtune.core.system import System

__all__ = ["list_command", "systems"]

Kind = Literal["systems", "orders", "metrics", "spaces", "traces"]


@click.command("list")
@click.argument("kind", type=click.Choice(["systems", "orders", "metrics", "spaces", "traces"]))
@click.option(
    "--system",
    "name",
    metavar="NAME",
    shell_complete=complete_systems,
    help="Only the metrics or search spaces of this system.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def list_command(kind: Kind, name: str | None, as_json: bool) -> None:
    """List what a study can be made of, with descriptions, units and directions.

    \b
    KIND is one of
      systems   what can be swept; `gridtune systems NAME` shows one
      orders    queue orders, for `gridtune simulate` and `order=`
      metrics   what can be an objective: unit, better direction, formula
      spaces    search spaces: those of installed systems, and those in search_spaces/, here or gridtune's own
      traces    bundled logs, public logs, generators and formats (as `gridtune traces list`)

    \b
    Examples:
      gridtune list metrics --system batch
      gridtune list spaces
      gridtune list orders --json
    """
    if name is not None and kind not in {"metrics", "spaces"}:
        raise click.UsageError(f"--system goes with metrics and spaces, not with {kind}.")
    context = click.get_current_context()
    if kind == "systems":
        context.invoke(systems, as_json=as_json)
    elif kind == "traces":
        from gridtune.cli.traces import list_traces

        context.invoke(list_traces, as_json=as_json)
    else:
        rows, table = _KINDS[kind](name)
        if rows or as_json:
            _print(rows, [table], as_json)
        else:
            # Metrics and orders there are always.
            click.echo("no search spaces: there are none in search_spaces/, and no system has brought any")


def _systems(name: str | None) -> list[System]:
    from gridtune.core.system import SYSTEMS, get_system

    return [get_system(name)] if name is not None else [system for _, system in sorted(SYSTEMS.items())]


def _metrics(name: str | None) -> tuple[list[dict[str, Any]], Table]:
    rows = [
        {"system": system.name, "name": name, **facts}
        for system in _systems(name)
        for name, facts in _metric_facts(system).items()
    ]
    title = "Metrics: `objective` of a search space"
    cells = (
        (row["system"], row["name"], row["unit"], _BETTER[row["direction"]], row["formula"]) for row in rows
    )
    return rows, new_table(title, "system", "name", "unit", "better", "formula", rows=cells)


def _orders(_: str | None) -> tuple[list[dict[str, Any]], Table]:
    from gridtune.batch.policies import get_queue_order, queue_order_names

    orders = [get_queue_order(name) for name in queue_order_names()]
    rows = [
        {
            "name": order.name,
            "description": order.description,
            "parameters": dict(order.parameters),
            "static": order.static,
        }
        for order in orders
    ]
    texts = [", ".join(f"{name}={value:g}" for name, value in order.parameters.items()) for order in orders]
    cells = ((order.name, text, order.description) for order, text in zip(orders, texts, strict=True))
    title = "Queue orders: order=NAME or order=NAME(PARAMETER=VALUE)"
    return rows, new_table(title, "name", "parameters", "what", rows=cells)


def _spaces(name: str | None) -> tuple[list[dict[str, Any]], Table]:
    from gridtune.sweep.space.schema import bundled_spaces, find_space, spaces_here

    systems = _systems(name)
    named = {f"{system.name}/{path.stem}": path for system in systems for path in bundled_spaces(system)}
    here = {str(path): find_space(path) for path in spaces_here()}
    wanted = {None, *(system.name for system in systems)}
    rows = [
        row for name, path in {**named, **here}.items() if (row := _space(name, path))["system"] in wanted
    ]
    cells = ([row[key] or "" for key in ("name", "system", "strategy", "description")] for row in rows)
    title = "Search spaces: gridtune sweep NAME"
    return rows, new_table(title, "name", "system", "strategy", "question", rows=cells)


def _space(name: str, path: Path) -> dict[str, Any]:
    """Return what a file says of itself; one that cannot be read says why."""
    from gridtune.errors import SpaceError
    from gridtune.sweep.space.schema import read_space

    try:
        space = read_space(path)
    except SpaceError as fault:
        return {"name": name, "system": None, "strategy": None, "description": f"cannot be read: {fault}"}
    return {
        "name": name,
        "system": space.system,
        "strategy": space.strategy.kind,
        "description": space.description,
    }


#: Return the rows of a kind for JSON, and as a table.
_KINDS: dict[str, Callable[[str | None], tuple[list[dict[str, Any]], Table]]] = {
    "metrics": _metrics,
    "orders": _orders,
    "spaces": _spaces,
}


@click.command()
@click.argument("name", required=False, shell_complete=complete_systems)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def systems(name: str | None, as_json: bool) -> None:
    """Show the metrics, search spaces and published figures of a system; without a name, list all systems.

    Systems come with gridtune or with any other package that announces one. `gridtune run SYSTEM --help`
    lists a system's parameters.

    \b
    Examples:
      gridtune systems
      gridtune systems shutdown
      gridtune systems shutdown --json
    """
    descriptions = {system.name: _describe(system) for system in _systems(name)}
    if name is None:
        _print(descriptions, [_table_of_all(descriptions)], as_json)
    else:
        _print(descriptions[name], _tables_of_one(descriptions[name]), as_json)


def _print(content: Any, tables: Iterable[Table], as_json: bool) -> None:
    if as_json:
        print_json(content)
    else:
        print_tables(tables)


def _describe(system: System) -> dict[str, Any]:
    """Return what the contract says of a system, in JSON's types."""
    from gridtune.sweep.space.schema import bundled_spaces

    return {
        "name": system.name,
        "version": system.version,
        "package": type(system).__module__.partition(".")[0],
        "description": (inspect.getdoc(system) or "").partition("\n\n")[0].replace("\n", " "),
        "metrics": _metric_facts(system),
        "renamed_metrics": {old: new.name for old, new in system.renamed_metrics.items()},
        "environments": [f"gridtune/{name}" for name in system.environments],
        "search_spaces": [f"{system.name}/{path.stem}" for path in bundled_spaces(system)],
        "published": {name: asdict(figure) for name, figure in system.published.items()},
    }


def _table_of_all(descriptions: dict[str, Any]) -> Table:
    counts = {"metrics": "metrics", "search_spaces": "search spaces", "published": "published figures"}
    rows = [
        (
            *(name, system["version"], system["package"]),
            *(str(len(system[kind])) for kind in counts),
            system["description"],
        )
        for name, system in descriptions.items()
    ]
    columns = ("name", "version", "package", *counts.values(), "what")
    return new_table("Systems: gridtune systems NAME", *columns, right=counts.values(), rows=rows)


def _tables_of_one(system: dict[str, Any]) -> Iterable[Table]:
    from gridtune.report.labels import number_text

    title = f"{system['name']}, version {system['version']}, of {system['package']}: metrics"
    metrics = (
        (name, metric["unit"], _BETTER[metric["direction"]], metric["formula"], metric["source"])
        for name, metric in system["metrics"].items()
    )
    yield new_table(title, "name", "unit", "better", "formula", "source", rows=metrics)
    if system["search_spaces"]:
        rows = [[name] for name in system["search_spaces"]]
        yield new_table("Search spaces: gridtune sweep NAME", "name", rows=rows)
    if system["published"]:
        figures = (
            (name, figure["quantity"], number_text(figure["value"]), figure["unit"], figure["source"])
            for name, figure in system["published"].items()
        )
        columns = ("name", "quantity", "value", "unit", "source")
        yield new_table("Published figures", *columns, right=("value",), rows=figures)


#: How a table says which direction of a metric is better.
_BETTER = {"min": "less", "max": "more", "none": ""}


def _metric_facts(system: System) -> dict[str, dict[str, str]]:
    """Return what a system says of each of its metrics, by name."""
    fields = ("unit", "direction", "formula", "source")
    return {
        name: {field: getattr(metric, field) for field in fields} for name, metric in system.metrics.items()
    }
