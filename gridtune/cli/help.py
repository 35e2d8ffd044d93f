"""`gridtune help`, `list`, `systems` and `completion`: words, names and commands."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from gridtune.cli.parameters import JSON, complete_systems
from gridtune.cli.tables import new_table, print_json, print_tables

if TYPE_CHECKING:
    from rich.table import Table

    from gridtune.core.system import System

__all__ = ["completion", "glossary", "help_command", "list_command", "systems"]

_WIDTH = 88


@dataclass(frozen=True)
class _Entry:
    """One entry of the glossary.

    Attributes
    ----------
    section
        The heading it stands under.
    title
        The word, or several words separated by commas.
    text
        Its meaning.
    """

    section: str
    title: str
    text: str

    @property
    def words(self) -> tuple[str, ...]:
        """The words under which it is looked up, in lower case."""
        also = re.search(r"Also: (.*?)\.$", self.text)
        listed = [*self.title.split(", "), *(also[1].split(", ") if also else [])]
        return tuple(word.lower() for word in listed)


def glossary() -> list[_Entry]:
    """Return the entries, in the order of the page."""
    text = resources.files("gridtune.cli").joinpath("glossary.md").read_text(encoding="utf-8")
    entries = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        section, *bodies = re.split(r"^### ", part, flags=re.MULTILINE)
        for body in bodies:
            title, _, meaning = body.partition("\n")
            entries.append(_Entry(section.strip(), title.strip(), meaning.strip()))
    return entries


@click.command("help")
@click.argument("topic", nargs=-1)
@click.pass_context
def help_command(ctx: click.Context, topic: tuple[str, ...]) -> None:
    """Show the help of a command, or what a word or a metric means; without TOPIC, list commands and words.

    \b
    Examples:
      gridtune help sweep
      gridtune help traces import
      gridtune help easy
      gridtune help "sign-flip test"
      gridtune help area_weighted_response
    """
    if not topic:
        click.echo(_contents(ctx))
        return
    command = _command_help(ctx, topic)
    if command is not None:
        click.echo(command)
        return
    click.echo(_meaning(" ".join(topic)))


def _contents(ctx: click.Context) -> str:
    assert ctx.parent is not None
    commands = ", ".join(ctx.parent.command.list_commands(ctx.parent))  # type: ignore[attr-defined]
    lines = ["gridtune help TOPIC shows the help of a command or the meaning of a word.", "", "Commands:"]
    lines += [_wrapped(commands)]
    sections: dict[str, list[str]] = {}
    for entry in glossary():
        sections.setdefault(entry.section, []).append(entry.title)
    for section, titles in sections.items():
        lines += ["", f"{section}:", _wrapped(", ".join(titles))]
    return "\n".join(lines)


def _command_help(ctx: click.Context, topic: tuple[str, ...]) -> str | None:
    """Return the help of the command that the words name, or None if they name none."""
    assert ctx.parent is not None
    context: click.Context = ctx.parent
    for word in topic:
        group = context.command
        command = group.get_command(context, word) if isinstance(group, click.Group) else None
        if command is None:
            return None
        context = click.Context(command, info_name=word, parent=context)
    return context.get_help()


def _meaning(word: str) -> str:
    from gridtune.registry import name_hint

    entries = glossary()
    matches = [entry for entry in entries if word.lower() in entry.words]
    explained = [(entry.title, entry.text) for entry in matches] or _metrics(word)
    if not explained:
        words = {name: entry for entry in entries for name in entry.words}
        raise click.UsageError(f"nothing is named {word!r}: {name_hint(word.lower(), words)}")
    return "\n\n".join(f"{title}\n{_wrapped(text)}" for title, text in explained)


def _metrics(name: str) -> list[tuple[str, str]]:
    """Return what a metric means in each system that has one of this name."""
    from gridtune.core.system import SYSTEMS

    measured = ((title, system.metrics.get(name)) for title, system in SYSTEMS.items())
    return [
        (f"{name}, a metric of {title}, in {metric.unit}", f"{metric.formula}. Source: {metric.source}.")
        for title, metric in measured
        if metric is not None
    ]


def _wrapped(text: str) -> str:
    return click.wrap_text(text, _WIDTH, "  ", "  ")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print the script that completes gridtune's commands in SHELL.

    Completed are commands, options, systems, parameters (`gridtune run batch or<TAB>`) and their values,
    search spaces that come with a system, and the folders of sweeps in results/.

    \b
    Examples:
      gridtune completion bash > ~/.local/share/bash-completion/completions/gridtune
      gridtune completion zsh > ~/.zfunc/_gridtune        (with ~/.zfunc in fpath, before compinit)
      gridtune completion fish > ~/.config/fish/completions/gridtune.fish
      source <(gridtune completion bash)                  (for this shell only)
    """
    from click.shell_completion import get_completion_class

    from gridtune.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "gridtune", "_GRIDTUNE_COMPLETE").source())


Kind = Literal["systems", "orders", "predictors", "metrics", "spaces", "traces"]


@click.command("list")
@click.argument("kind", type=click.Choice(["systems", "orders", "predictors", "metrics", "spaces", "traces"]))
@click.option(
    "--system",
    "name",
    metavar="NAME",
    shell_complete=complete_systems,
    help="Only the metrics or search spaces of this system.",
)
@JSON
def list_command(kind: Kind, name: str | None, as_json: bool) -> None:
    """List what a study can be made of, with descriptions, units and directions.

    \b
    KIND is one of
      systems   what can be swept; `gridtune systems NAME` shows one
      orders    queue orders, for `gridtune simulate` and `order=`
      predictors  predictors of run times, for `predictor=`
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


def _metric_table(name: str | None) -> tuple[list[dict[str, Any]], Table]:
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
    from gridtune.batch.policies.rollout import Rollout

    orders = [get_queue_order(name) for name in queue_order_names()]
    rows: list[dict[str, Any]] = [
        {
            "name": order.name,
            "description": order.description,
            "parameters": dict(order.parameters),
            "static": order.static,
        }
        for order in orders
    ]
    rollout = Rollout()
    rows.append(
        {
            "name": rollout.name,
            "description": rollout.description,
            "parameters": rollout.parameters,
            "static": False,
        }
    )
    cells = (
        (
            row["name"],
            ", ".join(
                f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
                for name, value in row["parameters"].items()
            ),
            row["description"],
        )
        for row in rows
    )
    title = "Queue orders: order=NAME or order=NAME(PARAMETER=VALUE)"
    return rows, new_table(title, "name", "parameters", "what", rows=cells)


def _predictors(_: str | None) -> tuple[list[dict[str, Any]], Table]:
    from gridtune.batch.predictors import PREDICTORS

    rows = [
        {"name": name, "description": (inspect.getdoc(kind) or "").partition("\n")[0]}
        for name, kind in PREDICTORS.items()
    ]
    cells = ((row["name"], row["description"]) for row in rows)
    return rows, new_table("Predictors: predictor=NAME", "name", "what", rows=cells)


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
    "metrics": _metric_table,
    "orders": _orders,
    "predictors": _predictors,
    "spaces": _spaces,
}


@click.command()
@click.argument("name", required=False, shell_complete=complete_systems)
@JSON
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
