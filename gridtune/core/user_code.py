"""The code of users that decides a cell's result: part of the cell's id, whoever wrote the system.

It is found in the registries. What counts for a cell is the system itself, every metric that the system
measures, and what the parameters name: a queue order, a cleaning rule, a generator, a network. Code that
counts may name more. Each stands in the cell's identity with a checksum of its source and of all that this
imports of the user's own. gridtune's own code is not listed: a system's `version` stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridtune.core.live_code import live_code
from gridtune.core.origins import Code, Origin, module_code, origin_of
from gridtune.core.system import SYSTEMS, System, SystemParameters
from gridtune.registry import Definition, Registry, all_registries, registered_state

__all__ = [
    "UserCode",
    "always_used",
    "code_of",
    "file_of",
    "refresh_checksums",
    "used_code",
    "with_named",
    "words_of",
]

#: What a name may be made of.
_WORD = re.compile(r"[\w.\-]+")


@dataclass(frozen=True)
class UserCode:
    """Something that a user has written and registered.

    Attributes
    ----------
    registry
        Where it is registered.
    name
        Its name there.
    definition
        The function or class that defines it.
    """

    registry: Registry[Any]
    name: str
    definition: Definition

    @property
    def label(self) -> str:
        """What identities and messages call it, such as "metric cost"."""
        return f"{self.registry.kind} {self.name}"

    @property
    def code(self) -> Code:
        """Its source, with all that this imports of the user's own."""
        return _code_of(self.definition.code)

    @property
    def origin(self) -> Origin:
        """Where it is from."""
        return origin_of(self.definition.module)


#: Checksums by the function or class, which is kept too: its id must stay its own.
_CODE: dict[int, tuple[Any, Code]] = {}
#: What a system always uses, by system, and the state of the registries that this is of.
_ALWAYS: dict[str, tuple[System, tuple[int, int], tuple[UserCode, ...]]] = {}


def refresh_checksums() -> None:
    """Let checksums be made again: in a notebook, what a function refers to may have another value now."""
    _CODE.clear()


def _code_of(defined: Any) -> Code:
    """Return the code of a function or class; of a class with that of the user's classes it derives from."""
    if id(defined) not in _CODE:
        _CODE[id(defined)] = (defined, _read(defined))
    return _CODE[id(defined)][1]


def _read(defined: Any) -> Code:
    if origin_of(_module(defined)) == "session":
        return live_code(defined)
    bases = defined.__mro__[1:] if isinstance(defined, type) else ()
    own = [_module(base) for base in bases if origin_of(_module(base)) in {"plugin", "package", "session"}]
    codes = {module: module_code(module) for module in (_module(defined), *own)}
    if len(codes) == 1:
        return codes[_module(defined)]
    checksum = live_code(tuple(sorted(code.checksum for code in codes.values()))).checksum
    return Code(checksum, frozenset().union(*(code.words for code in codes.values())))


def _module(defined: Any) -> str:
    return str(getattr(defined, "__module__", None) or "")


def used_code(system: System, parameters: SystemParameters) -> list[UserCode]:
    """Return the users' code that decides the result of a cell with these parameters."""
    words = words_of(parameters.model_dump(mode="json")) if _names() else ()
    return with_named(always_used(system), words)


def code_of(system: System, parameters: SystemParameters) -> dict[str, str]:
    """Return the checksum of each piece of users' code that decides the result of a cell, by its label.

    What the system itself adds is among them: files that it reads (`System.file_checksums`).
    """
    found = {used.label: used.code.checksum for used in used_code(system, parameters)}
    return {**found, **system.file_checksums(parameters)}


def always_used(system: System) -> tuple[UserCode, ...]:
    """Return what every cell of a system runs: the system and its metrics, where users have written them."""
    known = _ALWAYS.get(system.name)
    if known is not None and known[0] is system and known[1] == registered_state():
        return known[2]
    # Looking at every metric imports those that packages announce.
    items = {id(item) for item in system.metrics.values()}
    found = [UserCode(SYSTEMS, system.name, Definition(type(system)))]
    for registry in all_registries():
        measured = [name for name, item in registry.imported.items() if id(item) in items]
        found += [UserCode(registry, name, registry.definition(name)) for name in measured]
    used = tuple(code for code in found if not code.definition.ours)
    _ALWAYS[system.name] = (system, registered_state(), used)
    return used


def file_of(label: str) -> Path | None:
    """Return the file that defines what has this label; None in a notebook, or if there is nothing."""
    for registry in all_registries():
        name = label.removeprefix(f"{registry.kind} ")
        if name != label and name in registry.imported:
            return registry.definition(name).file
    return None


def with_named(code: Iterable[UserCode], words: Iterable[str]) -> list[UserCode]:
    """Return code with all of the users' that words name, and that this names in turn."""
    found = {used.label: used for used in code}
    names = _names()
    pending = [*words, *(word for used in found.values() for word in used.code.words)] if names else []
    while pending:
        word = pending.pop()
        for registry in names.get(word, ()):
            used = UserCode(registry, word, registry.definition(word))
            if used.label not in found and not used.definition.ours:
                found[used.label] = used
                pending += used.code.words
    return sorted(found.values(), key=lambda used: used.label)


#: Where there is users' code of a name, and the state of the registries that this is of.
_NAMES: tuple[tuple[int, int], dict[str, list[Registry[Any]]]] = ((-1, -1), {})


def _names() -> Mapping[str, Sequence[Registry[Any]]]:
    """Return the registries that have or may import code of users, by its name."""
    global _NAMES  # noqa: PLW0603
    if _NAMES[0] != registered_state():
        found: dict[str, list[Registry[Any]]] = {}
        for registry in all_registries():
            names = [name for name in registry.imported if not registry.definition(name).ours]
            # What a package announces is imported when it is named, so that it does not depend on what ran
            # before whether it counts.
            names += [name for name in registry.entry_points if registry.announces(name)]
            for name in dict.fromkeys(names):
                found.setdefault(name, []).append(registry)
        _NAMES = (registered_state(), found)
    return _NAMES[1]


def words_of(value: Any) -> Iterator[str]:
    """Yield the words in a value as JSON has it: each text, and what looks like a name within it."""
    if isinstance(value, str):
        yield value
        yield from _WORD.findall(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from words_of(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from words_of(item)
