"""The settings of Slurm: which are modelled, which have no effect on starts, and changes of them.

`settings.toml` is the one list; it has the sources.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gridtune.errors import WorkloadError
from gridtune.registry import nearest_name
from gridtune.workload.slurm import ConfLine, host_list

MODELLED, NOT_MODELLED, NO_EFFECT = "modelled", "not modelled", "no effect"
#: Lines of slurm.conf that describe something by its name, by their first key.
LINES = ("nodename", "partitionname", "nodeset", "downnodes")
#: Other lines, and the list of the scheduler's parameters.
GENERAL, PARAMETERS = "slurm.conf", "SchedulerParameters"
#: Values that switch a setting off.
_OFF = {"", "none", "no", "0", "(null)", "off", "-1", "infinite", "unlimited", "all", "n/a"}


class Setting(NamedTuple):
    """A key or a value as Slurm spells it, one of `MODELLED`, `NOT_MODELLED`, `NO_EFFECT`, and the reason."""

    name: str
    part: str
    reason: str


@cache
def _settings_of(kind: str) -> Mapping[str, Setting]:
    """Return the settings of a kind of line, a file or a list of values, by their names in small letters."""
    table = tomllib.loads(Path(__file__).with_name("settings.toml").read_text(encoding="utf-8"))
    found: dict[str, Setting] = {}
    for part, content in table[kind].items():
        groups = content if isinstance(content, dict) else {"": content}
        for reason, names in groups.items():
            found |= {name.lower(): Setting(name, part, reason) for name in names.split()}
    return found


def matters(kind: str, name: str) -> bool:
    """Tell whether a setting may decide which job starts when."""
    setting = _settings_of(kind).get(name.lower())
    return setting is None or setting.part != NO_EFFECT


def remark_on(kind: str, name: str, value: str = "set") -> str | None:
    """Return a remark on a setting that is not modelled, "" where the name says it all; None for others."""
    setting = _settings_of(kind).get(name.lower())
    if setting is None:
        near = _nearest(name, _settings_of(kind))
        return f" (unknown{f'; {near} was meant?' if near else ''})"
    return "" if setting.part == NOT_MODELLED and value.lower() not in _OFF else None


def _nearest(name: str, settings: Mapping[str, Setting]) -> str | None:
    near = nearest_name(name.lower(), settings)
    return settings[near].name if near else None


def changed_lines(lines: Iterable[ConfLine], changes: Iterable[str]) -> list[ConfLine]:
    """Return the lines with settings changed: in place of the last such setting, else after all lines.

    Nodes and partitions are changed in their own lines; nodes that no line has are added.

    Raises
    ------
    WorkloadError
        For an unknown partition or setting, or one that is not modelled or has no effect.
    """
    lines = list(lines)
    for change in changes:
        place = f"change {change}"
        words = {word.partition("=")[0].lower(): word for word in change.split()}
        if "=" not in change:
            if change.strip().lower() in _settings_of(PARAMETERS):
                _refuse_idle(PARAMETERS, change.strip())
            raise _fault(f"{change!r} is no setting", "such as bf_interval=120")
        if partition := words.pop("partitionname", "=").partition("=")[2]:
            _change_partition(lines, partition, words, place)
            continue
        if nodes := words.pop("nodename", "=").partition("=")[2]:
            _change_nodes(lines, nodes, words, place)
            continue
        for name, word in words.items():
            key = name
            if _settings_of(PARAMETERS).get(name) is not None:
                _refuse_idle(PARAMETERS, name)
                key = PARAMETERS.lower()
            else:
                _refuse_idle(GENERAL, name)
            general = [row for row, line in enumerate(lines) if not line.settings.keys() & {*LINES}]
            row = max((row for row in general if key in lines[row].settings), default=len(lines))
            line = lines[row] if row < len(lines) else ConfLine(place, 1, "")
            setting = word
            if key != name:
                unset = PARAMETERS, ""
                head, items = next((item for item in line.items if item[0].lower() == key), unset)
                setting = f"{head}={_with_setting(items, word, ',')}"
            lines[row:] = [
                line._replace(text=_with_setting(line.text, setting), change=place),
                *lines[row + 1 :],
            ]
    return lines


def _change_partition(lines: list[ConfLine], partition: str, words: Mapping[str, str], place: str) -> None:
    names = [line.settings.get("partitionname", "DEFAULT") for line in lines]
    rows = {name: row for row, name in enumerate(names) if name.upper() != "DEFAULT"}
    if partition not in rows:
        raise _fault(f"no partition {partition!r}", f"there are {', '.join(rows)}")
    line = lines[rows[partition]]
    for name, word in words.items():
        _refuse_idle("partitionname", name)
        line = line._replace(text=_with_setting(line.text, word), change=place)
    lines[rows[partition]] = line


def _change_nodes(lines: list[ConfLine], hosts: str, words: Mapping[str, str], place: str) -> None:
    """Change nodes; a line is divided where some of its nodes change. Those that no line has are added."""
    for name in words:
        _refuse_idle("nodename", name)
    wanted = dict.fromkeys(host_list(hosts, place, 1))
    last = 0
    for row in reversed(range(len(lines))):
        line = lines[row]
        named = line.settings.get("nodename", "DEFAULT")
        last = max(last, row if "nodename" in line.settings else 0)
        own = [] if named.upper() == "DEFAULT" else host_list(named, line.path, line.number)
        changed, others = ([one for one in own if (one in wanted) == among] for among in (True, False))
        if not changed:
            continue
        parts = [line._replace(text=_with_setting(line.text, "NodeName=" + ",".join(others)))]
        text = _with_setting(line.text, "NodeName=" + ",".join(changed))
        for word in words.values():
            text = _with_setting(text, word)
        lines[row : row + 1] = [*(parts if others else []), line._replace(text=text, change=place)]
        last += bool(others)
        for one in changed:
            del wanted[one]
    if not wanted:
        return
    if not words.keys() & {"cpus", "procs", "boards", "sockets", "corespersocket"}:
        hint = "such as CPUs=32 RealMemory=192000: copy the settings of nodes of this kind"
        raise _fault(f"no line has the node {next(iter(wanted))!r}, so its processors are unknown", hint)
    text = " ".join(["NodeName=" + ",".join(wanted), *words.values()])
    lines.insert(last + 1, ConfLine(place, 1, text, place))


def _refuse_idle(kind: str, name: str) -> None:
    """Refuse to change what is unknown, or would change nothing."""
    everywhere = {**_settings_of(kind), **(_settings_of(PARAMETERS) if kind == GENERAL else {})}
    setting = everywhere.get(name.lower())
    if name.lower() in LINES:
        raise _fault(f"lines of {name} cannot be changed", "change a copy of slurm.conf, and give it by --to")
    of = next((of for of in LINES[:2] if kind == GENERAL and name.lower() in _settings_of(of)), "")
    if setting is None and of:
        owner, own = _settings_of(of)[of].name, _settings_of(of)[name.lower()].name
        raise _fault(f"{own!r} is no setting of the cluster", f"name what has it: {owner}=… {own}=…")
    if setting is None:
        near = _nearest(name, everywhere)
        raise _fault(f"{name!r} is no setting", f"did you mean {near!r}?" if near else "see docs/slurm.md")
    if setting.part != MODELLED:
        reason = f" on starts: {setting.reason}" if setting.reason else ", so nothing would change"
        has = "has no effect" if setting.part == NO_EFFECT else "is not modelled"
        raise _fault(f"{setting.name} {has}{reason}", "docs/slurm.md lists the settings that are modelled")


def _fault(message: str, hint: str) -> WorkloadError:
    return WorkloadError(message, field="change", hint=hint)


def _with_setting(text: str, word: str, between: str | None = None) -> str:
    """Return a text of settings, with spaces or another sign between them, with one of them set."""
    name = word.partition("=")[0].lower()
    items = [item for item in text.split(between) if item]
    places = [k for k, item in enumerate(items) if item.partition("=")[0].lower() == name]
    if places:
        items[places[-1]] = word
    return (between or " ").join(items if places else [*items, word])
