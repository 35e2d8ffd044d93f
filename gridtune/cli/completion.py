"""`gridtune completion`, and the values that a shell completes: systems, parameters, spaces, sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import click
from click.shell_completion import CompletionItem

from gridtune.cli.parameters import listed_values

__all__ = [
    "complete_parameters",
    "complete_settings",
    "complete_spaces",
    "complete_sweeps",
    "complete_systems",
    "completion",
]


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


def complete_systems(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of systems that begin so."""
    from gridtune.core.system import system_names

    return [name for name in system_names() if name.startswith(incomplete)]


def complete_spaces(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the search spaces of installed systems that begin so, and have the shell add files."""
    from gridtune.core.system import SYSTEMS
    from gridtune.sweep.space.schema import bundled_spaces

    system, slash, _ = incomplete.partition("/")
    known = [name for name in SYSTEMS.names() if name == system or (not slash and name.startswith(system))]
    spaces = [f"{name}/{path.stem}" for name in known for path in bundled_spaces(SYSTEMS.find(name))]
    items = [CompletionItem(space) for space in spaces if space.startswith(incomplete)]
    return [CompletionItem(incomplete, type="file"), *items]


def complete_sweeps(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the folders of sweeps in results/ that begin so, and have the shell add folders."""
    from gridtune.sweep.journal.journal import sweep_folders

    folders = map(str, sweep_folders())
    items = [CompletionItem(folder) for folder in folders if folder.startswith(incomplete)]
    return [CompletionItem(incomplete, type="dir"), *items]


def complete_parameters(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return `KEY=` for each parameter of the system that is named before, or its values after a `KEY=`."""
    from gridtune.core.system import SYSTEMS

    name = context.params.get("system")
    if not isinstance(name, str) or name not in SYSTEMS:
        return []
    fields = SYSTEMS.find(name).Parameters.model_fields
    given = [text for text in context.params.get("parameters") or () if text != "="]
    if given and "=" not in given[-1] and given[-1] in fields and "=" not in incomplete:
        # bash splits words at `=`: the key came as a word of its own, and the value is completed alone.
        return [value for value in _values(given[-1], fields) if value.startswith(incomplete)]
    key, sign, _ = incomplete.partition("=")
    if not sign:
        taken = {text.partition("=")[0] for text in given}
        return [f"{field}=" for field in fields if field.startswith(incomplete) and field not in taken]
    texts = (f"{key}={value}" for value in _values(key, fields))
    return [text for text in texts if text.startswith(incomplete)]


def _values(key: str, fields: Any) -> list[str]:
    if key not in fields:
        return []
    # What a parameter's type cannot list has a source of its own.
    if key in _NAMES:
        return list(_NAMES[key]())
    return [
        str(value).lower() if isinstance(value, bool) else str(value)
        for value in listed_values(fields[key].annotation)
    ]


def complete_settings(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return `NAME=` for each dimension and fixed parameter of the space that is named before."""
    from gridtune.errors import GridtuneError
    from gridtune.sweep.space.schema import read_space

    # An option that still lacks its value keeps click from naming the arguments before it.
    path = context.params.get("space") or next(iter(context.args), None)
    if path is None:
        return []
    try:
        space = read_space(path)
    except GridtuneError:
        return []
    names = [*space.dimensions, *space.fixed]
    return [f"{name}=" for name in names if name.startswith(incomplete)]


def _traces() -> list[str]:
    from gridtune.workload.catalogue import CATALOGUE, bundled_traces

    return [*bundled_traces(), *CATALOGUE]


def _orders() -> list[str]:
    from gridtune.batch.policies import queue_order_names

    return queue_order_names()


def _backfillings() -> list[str]:
    from gridtune.batch.policies import backfilling_names

    return backfilling_names()


#: Names that stand for things in a registry, by the parameter that takes them.
_NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "trace": _traces,
    "order": _orders,
    "fill_order": _orders,
    "backfill": _backfillings,
}
