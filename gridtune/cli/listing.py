"""`gridtune list` and `gridtune systems`: the systems, metrics, orders, spaces and traces to choose from."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from gridtune.cli.completion import complete_systems

if TYPE_CHECKING:
    from rich.table import Table

    from gridtune.core.system import System

__all__ = ["BETTER", "list_command", "list_systems", "metric_facts", "systems"]

Kind = Literal["systems", "orders", "metrics", "spaces", "traces"]


@click.command("list", context_settings={"help_option_names": ["-h", "--help"]})
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
      orders    queue orders, for `gridtune simulate` and the system batch
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
    if kind == "systems":
        list_systems(as_json)
    elif kind == "traces":
        from gridtune.cli.traces import print_traces

        print_traces(as_json)
    else:
        collect, table_of = _KINDS[kind]
        rows = collect(_systems(name)) if kind != "orders" else collect([])
        if as_json:
            click.echo(json.dumps(rows, ensure_ascii=False))
            return
        if not rows:
            # Metrics and orders there are always.
            click.echo("no search spaces: there are none in search_spaces/, and no system has brought any")
            return
        from gridtune.cli.tables import print_tables

        print_tables([table_of(rows)])


def _systems(name: str | None) -> list[System]:
    from gridtune.core.system import SYSTEMS, get_system

    return [get_system(name)] if name is not None else [system for _, system in sorted(SYSTEMS.items())]


def _metrics(systems: Iterable[System]) -> list[dict[str, Any]]:
    return [
        {"system": system.name, "name": name, **facts}
        for system in systems
        for name, facts in metric_facts(system).items()
    ]


def _metrics_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    from gridtune.cli.tables import new_table

    table = new_table("Metrics: `objective` of a search space", "system", "name", "unit", "better", "formula")
    for row in rows:
        table.add_row(row["system"], row["name"], row["unit"], BETTER[row["direction"]], row["formula"])
    return table


def _orders(systems: Iterable[System]) -> list[dict[str, Any]]:
    from gridtune.batch.policies import get_queue_order, queue_order_names

    orders = map(get_queue_order, queue_order_names())
    return [
        {
            "name": order.name,
            "description": order.description,
            "parameters": dict(order.parameters),
            "static": order.static,
        }
        for order in orders
    ]


def _orders_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    from gridtune.cli.tables import new_table

    table = new_table("Queue orders: order=NAME or order=NAME(PARAMETER=VALUE)", "name", "parameters", "what")
    for row in rows:
        parameters = ", ".join(f"{name}={value:g}" for name, value in row["parameters"].items())
        table.add_row(row["name"], parameters, row["description"])
    return table


def _spaces(systems: Iterable[System]) -> list[dict[str, Any]]:
    from gridtune.sweep.space.schema import bundled_spaces, find_space, spaces_here

    systems = list(systems)
    named = {f"{system.name}/{path.stem}": path for system in systems for path in bundled_spaces(system)}
    here = {str(path): find_space(path) for path in spaces_here()}
    names = {system.name for system in systems}
    rows = (_space(name, path) for name, path in {**named, **here}.items())
    return [row for row in rows if row["system"] in names or row["system"] is None]


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


def _spaces_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    from gridtune.cli.tables import new_table

    table = new_table("Search spaces: gridtune sweep NAME", "name", "system", "strategy", "question")
    for row in rows:
        table.add_row(row["name"], row["system"] or "", row["strategy"] or "", row["description"])
    return table


#: What collects the rows of a kind, and what lays them out.
_KINDS: dict[str, tuple[Callable[..., list[dict[str, Any]]], Callable[..., Table]]] = {
    "metrics": (_metrics, _metrics_table),
    "orders": (_orders, _orders_table),
    "spaces": (_spaces, _spaces_table),
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
    from gridtune.core.system import get_system

    if name is None:
        list_systems(as_json)
        return
    description = _describe(get_system(name))
    _print(description, _tables_of_one(description), as_json)


def list_systems(as_json: bool) -> None:
    """Print a line for each installed system, or all that is known of them as JSON."""
    from gridtune.core.system import SYSTEMS

    descriptions = {name: _describe(system) for name, system in sorted(SYSTEMS.items())}
    _print(descriptions, [_table_of_all(descriptions)], as_json)


def _print(content: dict[str, Any], tables: Iterable[Table], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(content, ensure_ascii=False))
        return
    from gridtune.cli.tables import print_tables

    print_tables(tables)


def _describe(system: System) -> dict[str, Any]:
    """Return what the contract says of a system, in JSON's types."""
    from gridtune.sweep.space.schema import bundled_spaces

    return {
        "name": system.name,
        "version": system.version,
        "package": type(system).__module__.partition(".")[0],
        "description": (inspect.getdoc(system) or "").partition("\n\n")[0].replace("\n", " "),
        "metrics": metric_facts(system),
        "renamed_metrics": {old: new.name for old, new in system.renamed_metrics.items()},
        "environments": [f"gridtune/{name}" for name in system.environments],
        "search_spaces": [f"{system.name}/{path.stem}" for path in bundled_spaces(system)],
        "published": {
            name: {
                "source": figure.source,
                "quantity": figure.quantity,
                "value": figure.value,
                "unit": figure.unit,
            }
            for name, figure in system.published.items()
        },
    }


def _table_of_all(descriptions: dict[str, Any]) -> Table:
    from gridtune.cli.tables import new_table

    counts = ("metrics", "search_spaces", "published")
    table = new_table(
        "Systems: gridtune systems NAME",
        *("name", "version", "package", "metrics", "search spaces", "published figures", "what"),
        right=("metrics", "search spaces", "published figures"),
    )
    for name, system in descriptions.items():
        numbers = [str(len(system[kind])) for kind in counts]
        table.add_row(name, system["version"], system["package"], *numbers, system["description"])
    return table


def _tables_of_one(system: dict[str, Any]) -> Iterable[Table]:
    from gridtune.cli.tables import new_table
    from gridtune.report.labels import number_text

    title = f"{system['name']}, version {system['version']}, of {system['package']}"
    metrics = new_table(f"{title}: metrics", "name", "unit", "better", "formula", "source")
    for name, metric in system["metrics"].items():
        row = (metric["unit"], BETTER[metric["direction"]], metric["formula"], metric["source"])
        metrics.add_row(name, *row)
    yield metrics
    if system["search_spaces"]:
        spaces = new_table("Search spaces: gridtune sweep NAME", "name")
        for name in system["search_spaces"]:
            spaces.add_row(name)
        yield spaces
    if system["published"]:
        published = new_table(
            "Published figures", "name", "quantity", "value", "unit", "source", right=("value",)
        )
        for name, figure in system["published"].items():
            value = number_text(figure["value"])
            published.add_row(name, figure["quantity"], value, figure["unit"], figure["source"])
        yield published


#: How a table says which direction of a metric is better.
BETTER = {"min": "less", "max": "more", "none": ""}


def metric_facts(system: System) -> dict[str, dict[str, str]]:
    """Return what a system says of each of its metrics, by name."""
    fields = ("unit", "direction", "formula", "source")
    return {
        name: {field: getattr(metric, field) for field in fields} for name, metric in system.metrics.items()
    }
