"""The code of users that decides a cell's result: part of the cell's id, whoever wrote the system.

Registered code counts for a cell if it is the system itself, one of its metrics, or named by the parameters:
a queue order, a cleaning rule, a generator, a network. Code that counts may name more. Each piece stands in
the cell's identity with a checksum:

- of a plug-in, of all files that it consists of and those that it reads while it is loaded;
- of an installed package, of all its Python files;
- of a notebook, a script, a prompt or a module of the user's own, of what would be sent to a worker:
  bytecode, constants, and the values of globals and of enclosing functions. So an unchanged cell of a
  notebook that is run again has the same checksum, and one whose `WEIGHT` has become 4 another.

gridtune's own code is not listed: a system's `version` stands for it.
"""

from __future__ import annotations

import hashlib
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from gridtune.core.sources import package_checksum, package_files
from gridtune.core.system import SYSTEMS, System, SystemParameters
from gridtune.core.user_code.plugins import (
    content_of,
    declared_files,
    files_read_in_calls,
    is_installed,
    plugin_of,
)
from gridtune.registry import Definition, Registry, all_registries, is_ours, registered_state

#: What a name may be made of, and a word in quotes.
_WORD, _LITERAL = re.compile(r"[\w.\-]+"), re.compile(r"""["']([\w.\-]+)["']""")


@dataclass(frozen=True)
class _CodeContent:
    """The content of a function or class.

    Attributes
    ----------
    checksum
        Checksum of its code and of all of the user's own that this needs.
    words
        Words in it, which may ask for something by its name.
    modules
        Modules of the session that it needs.
    """

    checksum: str
    words: frozenset[str]
    modules: frozenset[str] = frozenset()


@dataclass(frozen=True)
class UserCode:
    """A function or class that a user has registered.

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
        """Its name in identities and messages, such as "metric cost"."""
        return f"{self.registry.kind} {self.name}"

    @property
    def content(self) -> _CodeContent:
        """Its code, with all of the user's own that this needs."""
        defined = self.definition.code
        if id(defined) not in _CONTENTS:
            _CONTENTS[id(defined)] = (defined, _read(defined))
        return _CONTENTS[id(defined)][1]

    @property
    def in_session(self) -> bool:
        """True if it is from a notebook, a script or a module of the user's own."""
        return _in_session(self.definition.module)


def _in_session(module: str) -> bool:
    if is_ours(module) or plugin_of(module) is not None:
        return False
    top = module.partition(".")[0]
    announced = (point for registry in all_registries() for point in registry.entry_points.values())
    return not any(point.module.partition(".")[0] == top for point in announced) and not _is_foreign(module)


@cache
def _is_foreign(module: str) -> bool:
    """Return whether a module is of Python or of an installed distribution."""
    if module == "__main__":
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    top = module.partition(".")[0]
    return not module or top in sys.stdlib_module_names or (file is not None and is_installed(file))


#: Contents by the function or class, which is kept too: its id must stay its own.
_CONTENTS: dict[int, tuple[Any, _CodeContent]] = {}


def refresh_checksums() -> None:
    """Forget all checksums: in a notebook, a global of a function may have another value now."""
    _CONTENTS.clear()


def _read(defined: Any) -> _CodeContent:
    """Return the content of a function or class; of a class with that of the user's classes it derives from.

    The files that it declares count too.
    """
    content = _read_code(defined)
    files = declared_files(defined)
    if not files:
        return content
    lines = [content.checksum, *(f"{name} {checksum}" for name, checksum in sorted(files.items()))]
    return replace(content, checksum=hashlib.sha256("\n".join(lines).encode()).hexdigest())


def _read_code(defined: Any) -> _CodeContent:
    if _in_session(_module(defined)):
        pickler = _ContentPickler(io.BytesIO())
        pickler.dump(defined)
        checksum = hashlib.sha256(pickler.file.getvalue()).hexdigest()
        return _CodeContent(checksum, frozenset(pickler.words), frozenset(pickler.modules))
    bases = {_module(base) for base in getattr(defined, "__mro__", ())}
    modules = {_module(defined), *(name for name in bases if not is_ours(name) and not _is_foreign(name))}
    contents = sorted((_module_content(name) for name in modules), key=lambda content: content.checksum)
    checksum = contents[0].checksum
    if len(contents) > 1:
        checksum = hashlib.sha256("\n".join(content.checksum for content in contents).encode()).hexdigest()
    return _CodeContent(checksum, frozenset().union(*(content.words for content in contents)))


def _module(defined: Any) -> str:
    return str(getattr(defined, "__module__", None) or "")


def _module_content(module: str) -> _CodeContent:
    """Return the content of the whole plug-in or package that a module belongs to."""
    plugin = plugin_of(module)
    if plugin is None:
        return _package_content(module.partition(".")[0])
    words = (_LITERAL.findall(source.text) for source in plugin.modules.values())
    return _CodeContent(plugin.checksum, frozenset().union(*words))


@cache
def _package_content(package: str) -> _CodeContent:
    texts = (file.read_text("utf-8", errors="replace") for file in package_files(package))
    words = frozenset[str]().union(*map(_LITERAL.findall, texts))
    return _CodeContent(package_checksum(package), words)


class _ContentPickler(cloudpickle.Pickler):
    """Writes a function or class of the session by value, as the same bytes in every process.

    cloudpickle's own bytes are not: they hold paths, line numbers, random numbers, and sets in any order.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=4)
        # Without the pickler's own memory, which tells equal texts apart.
        self.fast = True
        self.file = file
        #: Number of each object that has been met, which also ends circles; the objects are kept alive.
        self._met: dict[int, tuple[int, Any]] = {}
        self.words: set[str] = set()
        self.modules: set[str] = set()

    def persistent_id(self, value: Any) -> Any:
        """Return what is written in place of an object; None for what pickle writes."""
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            if isinstance(value, str):
                self.words.add(value)
            return None
        if id(value) in self._met:
            return self._met[id(value)][0]
        self._met[id(value)] = (len(self._met), value)
        if isinstance(value, set | frozenset):
            return sorted(map(repr, value))
        if isinstance(value, ModuleType):
            return self._module(value)
        # A function that numba has compiled has one in Python.
        function = getattr(value, "py_func", value)
        if isinstance(function, FunctionType | type):
            return self._definition(function)
        return None

    def reducer_override(self, value: Any) -> Any:
        """Write an object that cannot be copied, such as a lock, by its class alone."""
        copied_by = self.dispatch_table.get(type(value))
        try:
            _ = value.__reduce_ex__(4) if copied_by is None else copied_by(value)
        except Exception:
            return str, (type(value).__qualname__,)
        return super().reducer_override(value)

    def _definition(self, defined: Any) -> Any:
        module, name = _module(defined), defined.__qualname__
        if not _in_session(module):
            plugin = plugin_of(module)
            return [module if plugin is None else plugin.checksum, name]
        self.modules.add(module)
        return self._class(defined) if isinstance(defined, type) else self._function(defined)

    def _function(self, function: FunctionType) -> Any:
        codes = list(_codes(function.__code__))
        self.words.update(item for code in codes for item in code.co_consts if isinstance(item, str))
        names = sorted({name for code in codes for name in code.co_names} & function.__globals__.keys())
        return [
            [self._code(code) for code in codes],
            {name: function.__globals__[name] for name in names},
            list(map(_cell_value, function.__closure__ or ())),
            function.__defaults__,
            function.__kwdefaults__,
        ]

    def _code(self, code: CodeType) -> Any:
        """Return what a code object does, without its file and lines."""
        constants = [
            sorted(map(repr, item)) if isinstance(item, frozenset) else repr(item)
            for item in code.co_consts
            if not isinstance(item, CodeType)
        ]
        return [code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars]

    def _class(self, defined: type) -> Any:
        members = {
            name: member
            for name, member in vars(defined).items()
            if not name.startswith(("__", "_abc_")) or isinstance(member, _METHODS)
        }
        # pydantic takes the defaults of fields out of the class.
        fields = {
            name: [repr(field.annotation), field.default, field.default_factory, repr(field.metadata)]
            for name, field in getattr(defined, "__pydantic_fields__", {}).items()
        }
        return [defined.__qualname__, defined.__bases__, members, fields]

    def _module(self, module: ModuleType) -> Any:
        if not _in_session(module.__name__):
            return module.__name__
        self.modules.add(module.__name__)
        return {name: value for name, value in vars(module).items() if not name.startswith("__")}


_METHODS = (FunctionType, classmethod, staticmethod, property)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code and that of all functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _cell_value(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def code_of(system: System, parameters: SystemParameters) -> dict[str, str]:
    """Return the checksum of each piece of users' code that decides the result of a cell, by its label.

    Those that the system itself adds are among them: files that it reads (`System.file_checksums`).
    """
    words = words_of(parameters.model_dump(mode="json")) if _names() else ()
    used = with_named(always_used(system), words)
    return {**{code.label: code.content.checksum for code in used}, **system.file_checksums(parameters)}


def files_read() -> dict[str, str]:
    """Return the files that code of users has read in calls, in this process so far, and that no id counts.

    It may keep what it has read for later calls. Files are noted from the first call of this on.

    Returns
    -------
    Path to SHA-256; "" of a file that it looked for in vain.
    """
    return {str(file): content_of(file) for file in sorted([*files_read_in_calls()])} if _names() else {}


#: What a system always uses, by system, and the state of the registries that this is of.
_ALWAYS: dict[str, tuple[System, tuple[int, int], tuple[UserCode, ...]]] = {}


def always_used(system: System) -> tuple[UserCode, ...]:
    """Return the users' code that every cell of a system runs: the system and its metrics."""
    cached = _ALWAYS.get(system.name)
    if cached is not None and cached[0] is system and cached[1] == registered_state():
        return cached[2]
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
    """Return the file that defines the code of a label; None in a notebook, or if there is none."""
    for registry in all_registries():
        name = label.removeprefix(f"{registry.kind} ")
        if name != label and name in registry.imported:
            return registry.definition(name).file
    return None


def with_named(code: Iterable[UserCode], words: Iterable[str]) -> list[UserCode]:
    """Return code with all of the users' that words name, and that this names in turn."""
    found = {used.label: used for used in code}
    names = _names()
    pending = [*words, *(word for used in found.values() for word in used.content.words)] if names else []
    while pending:
        word = pending.pop()
        for registry in names.get(word, ()):
            used = UserCode(registry, word, registry.definition(word))
            if used.label not in found and not used.definition.ours:
                found[used.label] = used
                pending += used.content.words
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
        if found:
            files_read_in_calls()
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
