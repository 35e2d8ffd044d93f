"""`gridtune systems`: the systems that are installed, their metrics, search spaces and published figures."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.completing import complete_systems
from gridtune.cli.metric_facts import BETTER, metric_facts

if TYPE_CHECKING:
    from rich.table import Table

    from gridtune.core.system import System

__all__ = ["list_systems", "systems"]


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
