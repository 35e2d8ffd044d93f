"""`gridtune help` and `gridtune list`: words, names and commands."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click

from gridtune.cli.parameters import command
from gridtune.cli.tables import new_table, print_json, print_tables

if TYPE_CHECKING:
    from rich.table import Table

    from gridtune.core.system import System

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


def _glossary() -> list[_Entry]:
    """Return the entries, in the order of the page."""
    text = resources.files("gridtune.cli").joinpath("glossary.md").read_text(encoding="utf-8")
    entries = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        section, *bodies = re.split(r"^### ", part, flags=re.MULTILINE)
        for body in bodies:
            title, _, meaning = body.partition("\n")
            entries.append(_Entry(section.strip(), title.strip(), meaning.strip()))
    return entries


@command(name="help")
def help_command(topic: Sequence[str] = ()) -> None:
    """Show the help of a command, or explain a word or a metric; without TOPIC, list commands and words.

    `gridtune help completion SHELL` prints the script that completes commands, options, systems and names of
    parameters in bash, zsh or fish.

    \b
    Examples:
      gridtune help sweep
      gridtune help traces import
      gridtune help "sign-flip test"
      gridtune help area_weighted_response
      gridtune help completion bash > ~/.local/share/bash-completion/completions/gridtune
      gridtune help completion zsh > ~/.zfunc/_gridtune        (with ~/.zfunc in fpath, before compinit)
      gridtune help completion fish > ~/.config/fish/completions/gridtune.fish
    """
    from click.shell_completion import get_completion_class

    from gridtune.cli.main import RENAMED

    ctx = click.get_current_context()
    words = [*RENAMED.get(topic[0], topic[:1]), *topic[1:]] if topic else []
    if not words:
        text = _contents(ctx)
    elif words[:2] == ["help", "completion"] or words[0] == "completion":
        kind = get_completion_class("".join(topic[1:]))
        if kind is None or len(topic) > 2:
            raise click.UsageError("give a shell: gridtune help completion bash, zsh or fish")
        text = kind(ctx.find_root().command, {}, "gridtune", "_GRIDTUNE_COMPLETE").source()
    else:
        text = _command_help(ctx, words) or _meaning(" ".join(topic))
    click.echo(text)


def _contents(ctx: click.Context) -> str:
    root = ctx.find_root().command
    assert isinstance(root, click.Group)
    lines = ["gridtune help TOPIC shows the help of a command or the meaning of a word.", "", "Commands:"]
    lines += [_wrapped(", ".join(root.list_commands(ctx)))]
    sections: dict[str, list[str]] = {}
    for entry in _glossary():
        sections.setdefault(entry.section, []).append(entry.title)
    for section, titles in sections.items():
        lines += ["", f"{section}:", _wrapped(", ".join(titles))]
    return "\n".join(lines)


def _command_help(ctx: click.Context, words: Sequence[str]) -> str | None:
    """Return the help of the command that the words name, or None if they name none."""
    context = ctx.find_root()
    for word in words:
        group = context.command
        found = group.get_command(context, word) if isinstance(group, click.Group) else None
        if found is None:
            return None
        context = click.Context(found, info_name=word, parent=context)
    return context.get_help()


def _meaning(word: str) -> str:
    """Return the entries of the glossary for a word, else the metrics of this name."""
    from gridtune.core.system import SYSTEMS
    from gridtune.registry import name_hint

    entries = _glossary()
    explained = [(entry.title, entry.text) for entry in entries if word.lower() in entry.words]
    for title, system in () if explained else SYSTEMS.items():
        if metric := system.metrics.get(word):
            head = f"{word}, a metric of {title}, in {metric.unit}"
            explained.append((head, f"{metric.formula}. Source: {metric.source}."))
    if not explained:
        words = {name: entry for entry in entries for name in entry.words}
        raise click.UsageError(f"nothing is named {word!r}: {name_hint(word.lower(), words)}")
    return "\n\n".join(f"{title}\n{_wrapped(text)}" for title, text in explained)


def _wrapped(text: str) -> str:
    return click.wrap_text(text, _WIDTH, "  ", "  ")


@command(name="list")
def list_command(
    kind: Literal["systems", "orders", "predictors", "metrics", "spaces"],
    system: str | None = None,
    *,
    as_json: bool = False,
) -> None:
    """List systems, queue orders, predictors, metrics, or search spaces; `gridtune traces list` lists traces.

    \b
    KIND is one of
      systems     systems that can be swept; with SYSTEM its metrics and search spaces
      orders      queue orders, for `gridtune simulate` and `order=`
      predictors  predictors of run times, for `predictor=`
      metrics     metrics that can be objectives: unit, better direction, formula; of SYSTEM or of all
      spaces      search spaces of installed systems (or of SYSTEM), and those in search_spaces/

    \b
    Examples:
      gridtune list systems
      gridtune list systems shutdown
      gridtune list metrics batch
      gridtune list orders --json
    """
    if system is not None and kind not in {"systems", "metrics", "spaces"}:
        raise click.UsageError(f"SYSTEM goes with systems, metrics and spaces, not with {kind}.")
    content, tables = _KINDS[kind](system)
    if as_json:
        print_json(content)
    elif content:
        print_tables(tables)
    else:
        click.echo("no search spaces: search_spaces/ has none, and neither has a system")


#: Content for JSON, and tables of it.
_List: TypeAlias = "tuple[Any, list[Table]]"


def _systems_named(name: str | None) -> list[System]:
    from gridtune.core.system import SYSTEMS, get_system

    return [get_system(name)] if name is not None else [system for _, system in sorted(SYSTEMS.items())]


def _systems(name: str | None) -> _List:
    descriptions = {system.name: _describe(system) for system in _systems_named(name)}
    if name is not None:
        return descriptions[name], [*_metrics(name)[1], *_spaces(name)[1]]
    counts = {"metrics": "metrics", "search_spaces": "search spaces", "published": "published figures"}
    rows = []
    for system in descriptions.values():
        numbers = (str(len(system[kind])) for kind in counts)
        rows.append((system["name"], system["version"], system["package"], *numbers, system["description"]))
    columns = ("name", "version", "package", *counts.values(), "description")
    table = new_table("Systems: gridtune list systems NAME", *columns, right=counts.values(), rows=rows)
    return descriptions, [table]


def _describe(system: System) -> dict[str, Any]:
    """Return a system's contract in JSON's types."""
    return {
        "name": system.name,
        "version": system.version,
        "package": type(system).__module__.partition(".")[0],
        "description": (inspect.getdoc(system) or "").partition("\n\n")[0].replace("\n", " "),
        "metrics": _metric_facts(system),
        "environments": [f"gridtune/{name}" for name in system.environments],
        "search_spaces": [f"{system.name}/{path.stem}" for path in system.bundled_spaces],
        "published": {name: asdict(figure) for name, figure in system.published.items()},
    }


def _metrics(name: str | None) -> _List:
    rows = [
        {"system": system.name, "name": name, **facts}
        for system in _systems_named(name)
        for name, facts in _metric_facts(system).items()
    ]
    better = {"min": "less", "max": "more", "none": ""}
    columns = ("system", "name", "unit", "better", "formula")
    cells = [[{**row, "better": better[row["direction"]]}[column] for column in columns] for row in rows]
    return rows, [new_table("Metrics: `objective` of a search space", *columns, rows=cells)]


def _metric_facts(system: System) -> dict[str, dict[str, str]]:
    """Return unit, direction, formula and source of a system's metrics, by name."""
    fields = ("unit", "direction", "formula", "source")
    return {
        name: {field: getattr(metric, field) for field in fields} for name, metric in system.metrics.items()
    }


def _orders(_: str | None) -> _List:
    from gridtune.batch.policies import get_queue_order, queue_order_names
    from gridtune.batch.policies.rollout import Rollout
    from gridtune.report.labels import value_text

    orders: list[Any] = [*map(get_queue_order, queue_order_names()), Rollout()]
    rows: list[dict[str, Any]] = [
        {
            "name": order.name,
            "description": order.description,
            "parameters": dict(order.parameters),
            "static": getattr(order, "static", False),
        }
        for order in orders
    ]
    cells = []
    for row in rows:
        texts = ", ".join(f"{name}={value_text(value)}" for name, value in row["parameters"].items())
        cells.append((row["name"], texts, row["description"]))
    title = "Queue orders: order=NAME or order=NAME(PARAMETER=VALUE)"
    return rows, [new_table(title, "name", "parameters", "description", rows=cells)]


def _predictors(_: str | None) -> _List:
    from gridtune.batch.predictors import PREDICTORS

    rows = [
        {"name": name, "description": (inspect.getdoc(kind) or "").partition("\n")[0]}
        for name, kind in PREDICTORS.items()
    ]
    cells = [(row["name"], row["description"]) for row in rows]
    return rows, [new_table("Predictors: predictor=NAME", "name", "description", rows=cells)]


def _spaces(name: str | None) -> _List:
    from gridtune.errors import SpaceError
    from gridtune.sweep.space.schema import SPACES, find_space, read_space
    from gridtune.workload.catalogue import shipped_folder

    systems = _systems_named(name)
    named = {f"{system.name}/{path.stem}": path for system in systems for path in system.bundled_spaces}
    folder = Path(SPACES) if Path(SPACES).is_dir() else shipped_folder(SPACES)
    spaces = [Path(SPACES) / path.name for path in sorted(folder.glob("*.yaml"))]
    here = {str(path): find_space(path) for path in spaces}
    wanted, rows = {system.name for system in systems}, []
    for label, path in {**named, **here}.items():
        try:
            space = read_space(path)
        except SpaceError as fault:
            row: dict[str, Any] = {
                "system": None,
                "strategy": None,
                "description": f"cannot be read: {fault}",
            }
        else:
            row = {"system": space.system, "strategy": space.strategy.kind, "description": space.description}
        if row["system"] in {None, *wanted}:
            rows.append({"name": label, **row})
    cells = [[row[key] or "" for key in ("name", "system", "strategy", "description")] for row in rows]
    title = "Search spaces: gridtune sweep NAME"
    return rows, [new_table(title, "name", "system", "strategy", "question", rows=cells)]


_KINDS: dict[str, Callable[[str | None], _List]] = {
    "systems": _systems,
    "metrics": _metrics,
    "orders": _orders,
    "predictors": _predictors,
    "spaces": _spaces,
}
