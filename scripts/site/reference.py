"""The pages of reference, made from what they describe."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Sequence

import click
from messages import messages_page
from metrics_page import metrics_tables
from observations import observation_of
from space_keys import space_keys

import gridtune
from gridtune.batch.policies import backfilling_names, get_backfilling, get_queue_order, queue_order_names
from gridtune.cli.main import cli
from gridtune.cli.parameters import system_help
from gridtune.core.system import SYSTEMS
from gridtune.tune.training import training_of
from gridtune.workload.formats import FORMATS, format_names

__all__ = ["pages"]

#: The page of each system.
PAGES = {
    "batch": "simulation.md",
    "dispatch": "dispatch.md",
    "gangs": "gangs.md",
    "placement": "placement.md",
    "provisioning": "provisioning.md",
    "responsive": "responsive.md",
    "shutdown": "shutdown.md",
    "slurm": "slurm.md",
}


def pages() -> dict[str, str]:
    """Return the Markdown of each generated page, by its path in the site."""
    made = {
        "api": _api(),
        "commands": _commands(),
        "parameters": _parameters(),
        "policies": _policies(),
        "environments": _environments(),
        "formats": _formats(),
        "search_space": space_keys(),
        "messages": messages_page(),
        "metrics": metrics_tables(),
    }
    return {f"reference/{name}.md": text for name, text in made.items()}


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def _api() -> str:

    public = [getattr(gridtune, name) for name in gridtune.__all__]
    functions = [value for value in public if inspect.isfunction(value)]
    classes = [value for value in public if inspect.isclass(value)]
    parts = ["# Python API", "`import gridtune as gt` gives these names.", "## Functions"]
    parts += [f"::: {value.__module__}.{value.__qualname__}" for value in functions]
    parts += ["## Classes", *(f"::: {value.__module__}.{value.__qualname__}" for value in classes)]
    parts += ["## gridtune.tune", "::: gridtune.tune\n    options:\n      show_root_heading: false"]
    return "\n\n".join(parts)


def _commands() -> str:

    parts = ["# Command line", "The help of every command. [Commands](../commands.md) says what each is for."]
    parts += _help_of(click.Context(cli, info_name="gridtune"), level=2)
    return "\n\n".join(parts)


def _help_of(context: click.Context, level: int) -> list[str]:
    group = context.command
    parts = [f"{'#' * level} {context.command_path}", f"```text\n{context.get_help()}\n```"]
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is not None:
                below = click.Context(command, info_name=name, parent=context)
                parts += _help_of(below, min(level + 1, 4))
    return parts


def _parameters() -> str:
    parts = ["# Parameters", "What each system takes, as `gridtune run SYSTEM --help --all` prints it."]
    for name, system in sorted(SYSTEMS.items()):
        usage = f"gridtune run {name} [KEY=VALUE]... [--seed N] [--json] [--out PATH]"
        parts += [f"## {name}", f"```text\n{system_help(system, usage, everything=True)}\n```"]
        for algorithm in system.trainings:
            training = training_of(name, algorithm)
            usage = f"gridtune train {name} [KEY=VALUE]... [--seconds S] [--seed N] [--out DIR] [--json]"
            text = system_help(training, usage, everything=True)
            parts += [f"## Training {training.name}", f"```text\n{text}\n```"]
    return "\n\n".join(parts)


def _policies() -> str:

    orders = map(get_queue_order, queue_order_names())
    rows = [
        (
            f"`{order.name}`",
            order.description,
            ", ".join(f"{name}={value:g}" for name, value in order.parameters.items()),
        )
        for order in orders
    ]
    rules = [(f"`{name}`", get_backfilling(name).description) for name in backfilling_names()]
    return "\n\n".join(
        [
            "# Policies",
            "## Queue orders of batch",
            "`order=`, `fill_order=`, `--order`; [simulation](../simulation.md#queue-orders) says more.",
            _table(("order", "the smallest comes first", "parameters"), rows),
            "## Backfilling of batch",
            _table(("name", "rule"), rules),
            *_choices(),
        ]
    )


def _choices() -> list[str]:
    """Return, for each system, the parameters that choose among policies and rules."""
    parts: list[str] = []
    for name, page in PAGES.items():
        system, rows = SYSTEMS[name], []
        for parameter, field in system.Parameters.model_fields.items():
            choices = _literals(field.annotation)
            if choices:
                values = ", ".join(f"`{choice}`" for choice in choices)
                default = "" if field.default is None else f"`{field.default}`"
                rows.append((f"`{parameter}`", values, default, field.description or ""))
        parts += [
            f"## Choices of {name}",
            f"The page of the system, [{name}](../{page}), says how each decides.",
        ]
        parts.append(_table(("parameter", "one of", "default", "what it is"), rows))
    return parts


def _literals(annotation: object) -> tuple[str, ...]:
    """Return the words that a type allows; none if it allows anything else."""
    if typing.get_origin(annotation) is typing.Literal:
        return tuple(map(str, typing.get_args(annotation)))
    parts = [_literals(part) for part in typing.get_args(annotation) if part is not type(None)]
    return tuple(word for part in parts for word in part) if parts and all(parts) else ()


def _environments() -> str:

    parts = [
        "# Environments",
        "`gymnasium.make(NAME, …)` makes one, `gymnasium.make_vec(NAME, num_envs=…, …)` many that one call "
        "steps together.",
    ]
    for _, system in sorted(SYSTEMS.items()):
        for name, place in system.environments.items():
            shown = f"::: {place.replace(':', '.')}"
            parts += [f"## gridtune/{name}", f"{shown}\n    options:\n      show_root_heading: false"]
            parts += [f"### What {name} shows", observation_of(name)]
    return "\n\n".join(parts)


def _formats() -> str:
    formats = map(FORMATS.find, format_names())
    rows = [
        (f"`{trace.name}`", f"`{trace.suffix}`", trace.summary, "yes" if trace.write else "no")
        for trace in sorted(formats, key=lambda trace: trace.name)
    ]
    about = "Files may be packed with gzip (`.gz`) or xz (`.xz`). [Workloads](../workloads.md) has details."
    return "\n\n".join(["# Trace formats", about, _table(("name", "suffix", "holds", "written"), rows)])
