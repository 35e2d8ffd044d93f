"""Commands from functions: their parameters become arguments and options, their docstrings the help."""

from __future__ import annotations

import collections.abc
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gridtune.cli.parameters import (
    complete_parameters,
    complete_reproductions,
    complete_settings,
    complete_spaces,
    complete_sweeps,
    complete_systems,
    read_place,
)

__all__ = ["command"]

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
    complete
        Returns values that a shell completes.
    """

    text: str | None = None
    kind: Any = None
    spelled: str | None = None
    metavar: str | None = None
    complete: Callable[..., Any] | None = None


_FILE = click.Path(dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, path_type=Path)
_STORE = "[default: MLFLOW_TRACKING_URI, else mlflow.db here]"
_DECLARED = {
    "as_json": _Declared("Print JSON and nothing else.", spelled="--json"),
    "quiet": _Declared("Print nothing but errors."),
    "force": _Declared("Replace the file if it exists."),
    "full": _Declared(spelled="--full/--quick"),
    "every": _Declared("Print every row, not only the first 30.", spelled="--all"),
    "show": _Declared(),
    "log": _Declared(kind=click.STRING),
    "logs": _Declared(kind=click.STRING, spelled="--log"),
    "slurm": _Declared(kind=_FOLDER, metavar="FOLDER"),
    "to": _Declared(kind=_FOLDER, metavar="FOLDER"),
    "fit": _Declared(kind=_FILE, metavar="FILE"),
    "squeue": _Declared(kind=_FILE, metavar="FILE"),
    "now": _Declared(kind=click.DateTime(["%Y-%m-%dT%H:%M:%S"])),
    "seed": _Declared("Seed of all random numbers.", kind=click.IntRange(min=0)),
    "guard": _Declared(
        "Longest wait in seconds; jobs that wait longer go first.", kind=click.IntRange(min=0)
    ),
    "share": _Declared(kind=click.FloatRange(0, 1, min_open=True, max_open=True)),
    "draws": _Declared(kind=click.IntRange(min=2)),
    "port": _Declared(kind=click.IntRange(1, 65535)),
    "processors": _Declared("Size of the machine, if the log does not contain it."),
    "workers": _Declared("Cells at once.  [default: all processors]"),
    "address": _Declared("A running Ray cluster to join.  [default: RAY_ADDRESS, else a local one]"),
    "executor": _Declared(
        "Place of the cells: inline (this process), ray (workers), or auto (this process for a few seconds "
        "of work).  [default: that of the space, else auto]"
    ),
    "plugin": _Declared("Python file with custom policies, queue orders or systems.", kind=_FILE),
    "tracking": _Declared("Do not track in MLflow.", spelled="--no-tracking"),
    "track": _Declared("Track in MLflow."),
    "tracking_uri": _Declared(f"The MLflow store.  {_STORE}"),
    "objective": _Declared("Metric to rank by, instead of that of the search space.", metavar="METRIC"),
    "baseline": _Declared(metavar="NAME=VALUE"),
    "space": _Declared(kind=click.Path(path_type=Path), metavar="SPACE.yaml", complete=complete_spaces),
    "system": _Declared(kind=click.STRING, complete=complete_systems),
    "paper": _Declared(kind=click.STRING, complete=complete_reproductions),
    "parameters": _Declared(metavar="[KEY=VALUE]...", complete=complete_parameters),
    "settings": _Declared(spelled="--set", metavar="NAME=VALUE", complete=complete_settings),
    "results": _Declared(kind=read_place, complete=complete_sweeps),
    "folder": _Declared(kind=read_place, complete=complete_sweeps),
    "folders": _Declared(kind=read_place, complete=complete_sweeps),
    "sweep": _Declared(complete=complete_sweeps),
    "directory": _Declared("Folder or URL of the results.", kind=read_place, spelled="--out"),
    "file": _Declared(kind=_FILE, metavar="FILE", spelled="--parameters"),
    **{name: _Declared(kind=_FILE) for name in ("plot", "gantt", "target", "csv")},
}


def command(
    of: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    without: Collection[str] = (),
    cls: type[click.Command] = click.Command,
    group: click.Group | None = None,
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
        The command's name, if not the function's.
    without
        Parameters of `of` that are no options.
    cls
        The class of the command.
    group
        The group that the command belongs to.
    """

    def made(function: Callable[..., Any]) -> click.Command:
        text, described = _documented(function)
        found = dict(inspect.signature(function).parameters)
        owners = dict.fromkeys(found, function)
        if of is not None:
            called = inspect.signature(of).parameters
            own = {key: called[key] for key in called if key not in found and key not in without}
            owners |= dict.fromkeys(own, of)
            described = _documented(of)[1] | described
            found = own | found
        parameters = [
            _parameter(one, _annotation(one, owners[one.name]), described.get(one.name))
            for one in found.values()
            if one.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        result = cls(name or function.__name__, params=parameters, callback=function, help=text)
        if group is not None:
            group.add_command(result)
        return result

    return made


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
        return collections.abc.Sequence[str] if str(text).startswith(("Sequence", "tuple")) else str
    return eval(text, vars(sys.modules[owner.__module__])) if isinstance(text, str) else text


def _type_of(annotation: Any) -> tuple[Any, bool]:
    """Return click's type for an annotation, and whether it is one of several."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {typing.Union, types.UnionType}:
        return _type_of([part for part in parts if part is not types.NoneType][-1])
    if origin is typing.Literal:
        return click.Choice(parts), False
    if origin in {tuple, collections.abc.Sequence}:
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
    shared |= {"required": required, "shell_complete": declared.complete}
    if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
        return click.Argument([name], nargs=-1 if several else 1, **shared)
    option = declared.spelled or f"--{name.replace('_', '-')}"
    shared["help"] = f"{text or declared.text or ''}{'  May be repeated.' if several else ''}"
    shared["metavar"] = declared.metavar or _metavar(shared["type"])
    if kind is click.BOOL:
        both = "/" in option
        flag: dict[str, Any] = {} if both else {"is_flag": True, "flag_value": not default}
        return click.Option([name, option], default=default, help=shared["help"], **flag)
    if not required:
        shared |= {"default": default, "show_default": default not in (None, ())}
    return click.Option([name, option], multiple=several, **shared)


def _metavar(kind: Any) -> str | None:
    """Return the value of an option in the usage; None for that of click."""
    if isinstance(kind, click.IntRange):
        return "N"
    return "X" if isinstance(kind, click.FloatRange) else None
