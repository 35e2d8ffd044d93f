"""Arguments of commands: a system's parameters, NAME=VALUE, places, and the values that a shell completes."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from gridtune.core.system import System

__all__ = [
    "DefaultSystemCommand",
    "SystemCommand",
    "check_new",
    "complete_parameters",
    "complete_reproductions",
    "complete_settings",
    "complete_spaces",
    "complete_sweeps",
    "complete_systems",
    "read_parameters",
    "read_settings",
    "system_help",
]

#: A path of a file.
FILE = click.Path(dir_okay=False, path_type=Path)
#: The option with a user's own files.
PLUGINS = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    type=FILE,
    help="Python file with policies, queue orders or systems of your own.",
)
#: The option of machines that read what a command prints.
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
QUIET = click.option("--quiet", is_flag=True, help="Print nothing but errors.")
FORCE = click.option("--force", is_flag=True, help="Replace the file if it exists.")
WORKERS = click.option(
    "--workers", type=click.IntRange(min=1), help="Cells at once. [default: all processors]"
)
TRACKING_URI = click.option(
    "--tracking-uri", help="The MLflow store. [default: MLFLOW_TRACKING_URI, else mlflow.db here]"
)
NO_TRACKING = click.option("--no-tracking", is_flag=True, help="Leave MLflow out.")
#: Asks, beside `--help`, for every parameter and the formula of every metric.
_ALL = "--all"
_WIDTH = 100
_BETTER = {"min": "; less is better", "max": "; more is better", "none": ""}
_KINDS: dict[Any, str] = {int: "whole number", float: "number", str: "text", bool: "true or false"}
_MANY: dict[Any, str] = {int: "whole numbers", float: "numbers", str: "words"}


def share_option(purpose: str, default: float) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option of how much of a log the past is; the purpose is a verb."""
    share = click.FloatRange(0, 1, min_open=True, max_open=True)
    text = f"Share of the jobs, the first ones, to {purpose} on."
    return click.option("--share", type=share, default=default, show_default=True, help=text)


def folder_option(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option of a command's folder of results."""
    return click.option("--out", "folder", type=click.Path(path_type=Path, file_okay=False), help=text)


def track_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command of one cell the options that track it."""
    uri = "The MLflow store; implies --track. [default: MLFLOW_TRACKING_URI, else mlflow.db here]"
    command = click.option("--tracking-uri", help=uri)(command)
    return click.option("--track", is_flag=True, help="Keep parameters, metrics and files in MLflow.")(
        command
    )


class DefaultSystemCommand(click.Command):
    """A command with an option for each parameter of the default system but the log."""

    @cached_property
    def groups(self) -> dict[str, list[click.Option]]:
        """The options, under the titles of their groups."""
        from gridtune.core.system import default_system

        system = default_system()
        titles = _groups(system)
        common = next(iter(titles.values()))
        fields = system.Parameters.model_fields
        return {
            title: [_option(name, fields[name], common) for name in names if name != "trace"]
            for title, names in titles.items()
        }

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters of the command, the system's last."""
        own = super().get_params(ctx)
        return [*own, *(option for options in self.groups.values() for option in options)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, those of the system under the titles of their groups."""
        own = [option for option in super().get_params(ctx) if isinstance(option, click.Option)]
        for title, options in {"Options": own, **self.groups}.items():
            records = (option.get_help_record(ctx) for option in options)
            with formatter.section(title):
                formatter.write_dl([record for record in records if record is not None])


def _option(name: str, field: FieldInfo, common: Sequence[str]) -> click.Option:
    """Return a parameter as an option, without a default: the parameters have theirs.

    A parameter of the first group that is no choice has its first letter as a short form.
    """
    option, values = f"--{name.replace('_', '-')}", _listed_values(field.annotation)
    text = field.description or ""
    if field.default is not None:
        text += f"  [default: {_text(field.default)}]"
    if True in values:
        return click.Option([name, f"{option}/--no-{name.replace('_', '-')}"], default=None, help=text)
    if values:
        return click.Option([name, option], type=click.Choice(values), help=text)
    short = [f"-{name[0]}"] if name in common else []
    metavar = {"whole number": "N", "number": "X"}.get(_kind(field.annotation), "TEXT")
    return click.Option([name, *short, option], metavar=metavar, help=text)


class SystemCommand(click.Command):
    """A command whose help goes on with the parameters of the system it is asked about."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show a system's parameters for `run SYSTEM --help`, all of them with `--all`."""
        from gridtune.core.user_code.plugins import load_plugins

        everything = _ALL in args
        rest = [argument for argument in args if argument not in (*ctx.help_option_names, _ALL)]
        if len(rest) < len(args):
            options, _, _ = self.make_parser(ctx).parse_args(rest)
            name = options.get("system")
            if isinstance(name, str) and "=" not in name:
                # Without the option the parser gives no list, but a mark of its own.
                plugins = options.get("plugins")
                load_plugins(plugins if isinstance(plugins, list) else [])
                click.echo(self.help_of(name, options, everything=everything))
                ctx.exit()
        return super().parse_args(ctx, args)

    def help_of(self, name: str, options: Mapping[str, Any], *, everything: bool) -> str:
        """Return the help of a system."""
        from gridtune.core.system import get_system

        usage = f"gridtune run {name} [KEY=VALUE]... [--seed N] [--json] [--out PATH]"
        return system_help(get_system(name), usage, everything=everything)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Name the systems there are."""
        from gridtune.core.system import system_names

        with formatter.section("Systems"):
            formatter.write_text(", ".join(system_names()))


def system_help(system: System, usage: str, *, everything: bool) -> str:
    """Return a system's parameters with type, default, meaning and an example, and its metrics.

    Parameters
    ----------
    system
        The system, or a training of one.
    usage
        The usage line.
    everything
        Explain all parameters and metrics; otherwise the first group, and of the others their names.
    """
    groups = _groups(system)
    brief = not everything and len(groups) > 1
    lines = [f"Usage: {usage}", ""]
    lines += [f"  {line.strip()}" for line in (type(system).__doc__ or "").strip().splitlines()]
    for position, (title, names) in enumerate(groups.items()):
        lines += ["", f"{title}:"]
        lines += _wrapped(", ".join(names), 2) if brief and position else _explained(system, names)
    lines += ["", "Metrics:"]
    if brief:
        lines += _wrapped(", ".join(system.metrics), 2)
        command = usage.partition(" [")[0]
        return "\n".join([*lines, "", f"{command} --help {_ALL} explains every parameter and metric."])
    for name, metric in system.metrics.items():
        unit = "ratio" if metric.unit == "1" else metric.unit
        lines += [f"  {name}  ({unit}{_BETTER[metric.direction]})", *_wrapped(metric.formula, 6)]
    return "\n".join(lines)


def _groups(system: System) -> dict[str, tuple[str, ...]]:
    """Return titles and the names of parameters under them, every parameter once."""
    groups = dict(system.Parameters.groups)
    grouped = {name for names in groups.values() for name in names}
    others = tuple(name for name in system.Parameters.model_fields if name not in grouped)
    if others:
        groups["Other parameters" if groups else "Parameters"] = others
    return groups


def _explained(system: System, names: tuple[str, ...]) -> list[str]:
    lines = []
    for name in names:
        field = system.Parameters.model_fields[name]
        default = "required" if field.is_required() else f"default {_text(field.default)}"
        lines.append(f"  {name}  ({_kind(field.annotation)}; {default})")
        lines += _wrapped(field.description or "", 6)
        if field.examples:
            examples = " or ".join(f"{name}={_text(example)}" for example in field.examples)
            lines.append(f"      such as {examples}")
    return lines


def _wrapped(text: str, indent: int) -> list[str]:
    return click.wrap_text(text, _WIDTH, " " * indent, " " * indent).splitlines()


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "empty"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _kind(annotation: Any) -> str:
    """Return a parameter's type in a person's words; that it can be left out shows in its default."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _kind(parts[0])
    if origin is typing.Literal:
        return " or ".join(map(str, parts))
    if origin is tuple:
        item = typing.get_args(parts[0])[0] if typing.get_origin(parts[0]) is typing.Annotated else parts[0]
        return f"{_MANY.get(item, 'values')}, comma-separated"
    if origin in {typing.Union, types.UnionType}:
        options = [part for part in parts if part is not type(None)]
        return "number or name" if set(options) == {int, str} else " or ".join(map(_kind, options))
    # A system of a user's own may take what ours do not.
    return _KINDS.get(annotation, getattr(annotation, "__name__", "value"))


def check_new(path: Path | None, *, force: bool) -> None:
    """Refuse to replace a file without `--force`."""
    if path is not None and path.exists() and not force:
        raise click.UsageError(f"{path} exists; --force replaces it.")


def read_place(text: str) -> str | Path:
    """Return the URL of a folder in a storage, or a path; `file://` is a path."""
    from gridtune.storage import as_local, is_url

    return (as_local(text) or text) if is_url(text) else Path(text)


def read_parameters(arguments: Iterable[str], option: str) -> dict[str, Any]:
    """Return the parameters of NAME=VALUE arguments, the values read as YAML reads them.

    Parameters
    ----------
    arguments
        Each a NAME=VALUE.
    option
        The option that they were given to, for messages.

    Raises
    ------
    click.BadParameter
        If one is no NAME=VALUE, or a name is given twice.
    """
    settings = read_settings(arguments, option)
    for name, values in settings.items():
        if len(values) > 1:
            raise click.BadParameter(f"{name} is given twice", param_hint=option)
    return {name: value for name, (value,) in settings.items()}


def read_settings(arguments: Iterable[str], option: str) -> dict[str, list[Any]]:
    """Return the values of NAME=VALUE arguments by name, where a name may be given several times.

    Parameters and errors are those of `read_parameters`.
    """
    import yaml

    settings: dict[str, list[Any]] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{argument!r} is not NAME=VALUE", param_hint=option)
        try:
            settings.setdefault(name, []).append(yaml.safe_load(value))
        except (yaml.YAMLError, ValueError, RecursionError):
            message = f"{argument!r}: the value is not YAML; quote a word that has brackets, colons or hashes"
            raise click.BadParameter(message, param_hint=option) from None
    return settings


def _listed_values(annotation: Any) -> list[Any]:
    """Return the values of a type that lists them (a literal, a switch), also within a union; else none."""
    if annotation is bool:
        return [True, False]
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    return [value for part in typing.get_args(annotation) for value in _listed_values(part)]


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
    from gridtune.batch.policies import backfilling_names, queue_order_names
    from gridtune.workload.catalogue import CATALOGUE, bundled_traces

    if key not in fields:
        return []
    # Names that stand for things in a registry, which a parameter's type cannot list.
    if key == "trace":
        return [*bundled_traces(), *CATALOGUE]
    if key in {"order", "fill_order"}:
        return queue_order_names()
    if key == "backfill":
        return backfilling_names()
    return [_text(value) for value in _listed_values(fields[key].annotation)]


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


def complete_reproductions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of papers that begin so."""
    from gridtune.study.reproduction import reproduction_names

    return [name for name in reproduction_names() if name.startswith(incomplete)]
