"""Arguments of commands: made from functions, a system's parameters, NAME=VALUE, places, shell completion."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from gridtune.core.system import System

#: Asks, beside `--help`, for every parameter and the formula of every metric.
_ALL = "--all"
_WIDTH = 100
_BETTER = {"min": "; less is better", "max": "; more is better", "none": ""}
_KINDS: dict[Any, str] = {int: "whole number", float: "number", str: "text", bool: "true or false"}
_MANY: dict[Any, str] = {int: "whole numbers", float: "numbers", str: "words"}


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
                plugins = options.get("plugin")
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
        from gridtune.core.system import SYSTEMS

        with formatter.section("Systems"):
            formatter.write_text(", ".join(SYSTEMS.names()))


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
    """Refuse to replace a file without `--force`, and a folder that cannot be written."""
    from gridtune.sweep.journal.disk import check_writable

    if path is not None and path.exists() and not force:
        raise click.UsageError(f"{path} exists; --force replaces it.")
    if path is not None:
        check_writable(path.parent)


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


def _systems(context: click.Context, begun: str) -> list[str]:
    from gridtune.core.system import SYSTEMS

    return SYSTEMS.names()


def _spaces(context: click.Context, begun: str) -> list[str]:
    """Return the search spaces of installed systems whose names are begun so."""
    from gridtune.core.system import SYSTEMS

    system, slash, _ = begun.partition("/")
    known = [name for name in SYSTEMS.names() if name == system or (not slash and name.startswith(system))]
    return [f"{name}/{path.stem}" for name in known for path in SYSTEMS.find(name).bundled_spaces]


def _sweeps(context: click.Context, begun: str) -> list[str]:
    from gridtune.sweep.journal.journal import sweep_folders

    return [str(folder) for folder in sweep_folders()]


def _system_parameters(context: click.Context, begun: str) -> list[str]:
    """Return `KEY=` for each parameter of the system that is named before."""
    from gridtune.core.system import SYSTEMS

    name = context.params.get("system")
    if not isinstance(name, str) or name not in SYSTEMS:
        return []
    taken = {text.partition("=")[0] for text in context.params.get("parameters") or ()}
    return [f"{field}=" for field in SYSTEMS.find(name).Parameters.model_fields if field not in taken]


#: The head of a section of a docstring.
_SECTION = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)


@dataclass(frozen=True)
class _Declared:
    """An argument or option that several commands have.

    Attributes
    ----------
    text
        Its help, where no docstring describes it.
    kind
        Its type in click; None for that of the annotation.
    spelled
        The option as it is typed, if not as the parameter.
    metavar
        Its value in the usage.
    values
        Returns the values that a shell completes, by the word begun.
    places
        Places that the shell adds to them: "file" or "dir".
    """

    text: str | None = None
    kind: Any = None
    spelled: str | None = None
    metavar: str | None = None
    values: Callable[[click.Context, str], list[str]] | None = None
    places: str | None = None

    def complete(
        self, context: click.Context, parameter: click.Parameter, begun: str
    ) -> list[CompletionItem]:
        """Return the values that begin with a word, as click wants them."""
        values = [] if self.values is None else self.values(context, begun)
        items = [CompletionItem(value) for value in values if value.startswith(begun)]
        return items if self.places is None else [CompletionItem(begun, type=self.places), *items]


#: Kinds of declared arguments and options that annotations do not tell.
_DECLARED_KINDS: Mapping[str, Any] = {
    "file": click.Path(dir_okay=False, path_type=Path),
    "folder": click.Path(exists=True, path_type=Path),
    "path": click.Path(path_type=Path),
    "place": read_place,
    "text": click.STRING,
    "instant": click.DateTime(["%Y-%m-%dT%H:%M:%S"]),
    "natural": click.IntRange(min=0),
    "several": click.IntRange(min=2),
    "port": click.IntRange(1, 65535),
    "share": click.FloatRange(0, 1, min_open=True, max_open=True),
}
_VALUES = {"spaces": _spaces, "systems": _systems, "parameters": _system_parameters, "sweeps": _sweeps}
#: Attributes of a declaration that its file gives by name.
_NAMED: Mapping[str, Mapping[str, Any]] = {"kind": _DECLARED_KINDS, "values": _VALUES}
_DECLARED = {
    name: _Declared(**{key: _NAMED[key][value] if key in _NAMED else value for key, value in entry.items()})
    for name, entry in tomllib.loads(Path(__file__).with_name("options.toml").read_text("utf-8")).items()
}


def command(
    of: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    without: Collection[str] = (),
    cls: type[click.Command] = click.Command,
    group: click.Group | None = None,
    tracked: bool = False,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return what makes a command of a function.

    Positional parameters become arguments, keywords options; a sequence may be given several times. The help
    is the docstring above "Parameters", the help of an option what it says there.

    Parameters
    ----------
    of
        The function that the command calls: its parameters are options, too, which the command gets as
        `**options`.
    name
        The command's name, if not the function's without a first underscore.
    without
        Parameters of `of` that are no options.
    cls
        The class of the command.
    group
        The group that the command belongs to.
    tracked
        Add `--track` and `--tracking-uri`: the function returns what is tracked, an `Answered`.
    """

    def made(function: Callable[..., Any]) -> click.Command:
        text, described = _documented(function)
        found = dict(inspect.signature(function).parameters)
        owners = dict.fromkeys(found, function)
        if tracked:
            added = inspect.signature(_run_tracked).parameters
            of_tracking = {key: added[key] for key in ("track", "tracking_uri")}
            owners |= dict.fromkeys(of_tracking, _run_tracked)
            found |= of_tracking
        if of is not None:
            taken = inspect.signature(of).parameters
            own = {key: taken[key] for key in taken if key not in found and key not in without}
            owners |= dict.fromkeys(own, of)
            described = _documented(of)[1] | described
            found = own | found
        parameters = [
            _parameter(one, _annotation(one, owners[one.name]), described.get(one.name))
            for one in found.values()
            if one.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        # The first sentence as a whole; click would cut it where a line ends.
        first = " ".join(text.partition("\n\n")[0].split())
        called = name or function.__name__.removeprefix("_")
        callback = partial(_run_tracked, function) if tracked else function
        result = cls(called, params=parameters, callback=callback, help=text, short_help=first)
        if group is not None:
            group.add_command(result)
        return result

    return made


class Answered(NamedTuple):
    """The answer of a command.

    Attributes
    ----------
    content
        The answer in JSON's types.
    log
        The name of the log.
    files
        Pages and settings that were written.
    code
        The exit code.
    """

    content: Mapping[str, Any]
    log: str
    files: Sequence[Path] = ()
    code: int = 0


def _run_tracked(
    function: Callable[..., Answered], *, track: bool = False, tracking_uri: str | None = None, **options: Any
) -> None:
    """Run a command, and track its answer if that is asked for."""
    store = None
    if track or tracking_uri:
        from gridtune.tracking.store import tracking_uri as checked

        # A store that cannot be one is refused before the work.
        store = checked(tracking_uri)
    answered = function(**options)
    if store is not None:
        from gridtune.cli.tables import print_tracked
        from gridtune.tracking.tracked import track_answer

        asked = {key: value for key, value in options.items() if value not in (None, (), False)}
        question = click.get_current_context().command_path.partition(" ")[2]
        content, log, files, _ = answered
        print_tracked(track_answer(question, log, asked, content, files=files, uri=store))
    if answered.code:
        sys.exit(answered.code)


def _documented(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return a docstring's text above its sections, and the descriptions of the parameters."""
    head, *parts = _SECTION.split(inspect.getdoc(function) or "")
    described: dict[str, str] = {}
    for section, body in zip(parts[::2], parts[1::2], strict=True):
        if section == "Parameters":
            for names, text in re.findall(r"^(\S.*)\n((?:[ \n].*\n?)*)", body, re.MULTILINE):
                described |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return head.strip(), described


def _annotation(parameter: inspect.Parameter, owner: Callable[..., Any]) -> Any:
    """Return the type of a parameter; that of a declared one need not be known here."""
    declared = _DECLARED.get(parameter.name)
    text = parameter.annotation
    if declared is not None and declared.kind is not None:
        return Sequence[str] if str(text).startswith(("Sequence", "tuple")) else str
    return eval(text, vars(sys.modules[owner.__module__])) if isinstance(text, str) else text


def _type_of(annotation: Any) -> tuple[Any, bool]:
    """Return click's type for an annotation, and whether it is one of several."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {typing.Union, types.UnionType}:
        return _type_of([part for part in parts if part is not types.NoneType][-1])
    if origin is typing.Literal:
        return click.Choice(parts), False
    if origin in {tuple, Sequence}:
        return _type_of(parts[0])[0], True
    ranges = {int: click.IntRange(min=1), float: click.FloatRange(min=0, min_open=True)}
    known: dict[Any, Any] = {**ranges, bool: click.BOOL, Path: click.Path(path_type=Path)}
    return known.get(annotation, click.STRING), False


def _parameter(parameter: inspect.Parameter, annotation: Any, text: str | None) -> click.Parameter:
    name, default = parameter.name, parameter.default
    declared = _DECLARED.get(name, _Declared())
    required = default is inspect.Parameter.empty
    kind, several = _type_of(annotation)
    shared: dict[str, Any] = {"type": declared.kind or kind, "metavar": declared.metavar}
    shared |= {"required": required, "shell_complete": None if declared.values is None else declared.complete}
    if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
        return click.Argument([name], nargs=-1 if several else 1, **shared)
    option = declared.spelled or f"--{name.replace('_', '-')}"
    shared["help"] = f"{text or declared.text or ''}{'  May be repeated.' if several else ''}"
    letters = {click.IntRange: "N", click.FloatRange: "X"}
    shared["metavar"] = declared.metavar or letters.get(type(shared["type"]))
    if kind is click.BOOL:
        both = "/" in option
        flag: dict[str, Any] = {} if both else {"is_flag": True, "flag_value": not default}
        return click.Option([name, option], default=default, help=shared["help"], **flag)
    if not required:
        shared |= {"default": default, "show_default": default not in (None, ())}
    return click.Option([name, option], multiple=several, **shared)
