"""Plug-ins: Python files of a user's own, run in the driver and in every worker.

A plug-in is a file with all of the user's own modules that it imports: those in its folder, and those on the
path that belong to no installed distribution. They travel together, and a worker on another machine needs
nothing else.

Each plug-in is a package of its own in the running process, named after its content. So two plug-ins may each
have a `helper.py`, an edited file can be loaded again in the same process, and what is loaded is what the
checksum is of. The code bears the names of the user's files, in tracebacks and to debuggers.

The files that code of users reads are recorded while it is loaded, or declared.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.abc
import importlib.util
import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from gridtune.core.sources import PLUGIN_PREFIX, Source, digest_of, find_source, import_closure
from gridtune.errors import GridtuneError, PolicyError
from gridtune.registry import all_registries, is_ours

#: Called with each file that is opened for reading, and the frame that opens it; None while nothing records.
_RECORD: ContextVar[Callable[[str, Any], None] | None] = ContextVar("_RECORD", default=None)
#: Called where nothing else records, in every thread; None until something is watched.
_WATCH: list[Callable[[str, Any], None]] = []
#: The attribute of a function that holds its declared files.
_DECLARED = "__gridtune_files__"
#: All files that functions of this process declare.
_ALL_DECLARED: set[Path] = set()


@cache
def _install_hook() -> None:
    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open":
            return
        file, _, flags = arguments
        reads = flags & (os.O_WRONLY | os.O_RDWR) == 0
        if reads and isinstance(file, str | bytes | os.PathLike):
            one = _RECORD.get()
            for record in _WATCH if one is None else (one,):
                record(os.fsdecode(file), sys._getframe(1))

    # Once: a hook cannot be removed.
    sys.addaudithook(hook)


@contextmanager
def _recording_opens(counts: Callable[[Path, Any], bool]) -> Iterator[set[Path]]:
    """Record the files that this context opens for reading or declares, and those that it does not find.

    Parameters
    ----------
    counts
        Tells of a file and the frame that opens it whether it is recorded. Of a compiled module the file is
        its source.
    """
    _install_hook()
    files: set[Path] = set()
    token = _RECORD.set(_recorder(files, counts))
    try:
        yield files
    finally:
        _RECORD.reset(token)


@cache
def files_read_in_calls() -> set[Path]:
    """Return the files that code of users reads in calls from now on; no id counts them."""
    _install_hook()
    files: set[Path] = set()
    _WATCH.append(_recorder(files, _read_by_users))
    return files


def _recorder(files: set[Path], counts: Callable[[Path, Any], bool]) -> Callable[[str, Any], None]:
    def record(name: str, frame: Any) -> None:
        if name.endswith(".pyc"):
            with suppress(ValueError):  # a name that Python itself does not use
                name = importlib.util.source_from_cache(name)
        if name.endswith(".__path_hook__"):
            # An editable installation's mark on `sys.path`, which is no file.
            return
        file = Path(name).resolve()
        if frame is None or counts(file, frame):
            files.add(file)

    return record


def content_of(file: Path) -> str:
    """Return the SHA-256 of a file's content; "" if it cannot be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


def declare_files(
    function: Any, files: Iterable[str | Path], decorator: str, error: type[GridtuneError]
) -> None:
    """Count the content of files as part of the code of a function or class.

    Parameters
    ----------
    function
        The function or class.
    files
        The files; relative paths are relative to its file, in a notebook to the current folder.
    decorator
        What declares them, for messages.
    error
        The exception to raise.

    Raises
    ------
    GridtuneError
        If they are not a list of paths, or a file is missing.
    """
    paths = () if isinstance(files, str | Path) else tuple(files)
    if isinstance(files, str | Path) or not all(isinstance(path, str | Path) for path in paths):
        raise error(f"{decorator}: files must be a list of paths, but got {files!r}", hint='files=["a.json"]')
    if not paths:
        return
    methods = (value for value in vars(function).values() if isinstance(value, FunctionType))
    code: Any = next(methods) if isinstance(function, type) else getattr(function, "py_func", function)
    source = Path(code.__code__.co_filename)
    folder = source.parent if source.is_absolute() else Path.cwd()
    declared = {os.fspath(path): folder / path for path in paths}
    for file in declared.values():
        if not file.is_file():
            raise error(f"{decorator}: files names {file}, and there is no such file")
        if (record := _RECORD.get()) is not None:
            record(str(file), None)
    setattr(function, _DECLARED, (decorator, error, declared))
    _ALL_DECLARED.update(file.resolve() for file in declared.values())


def declared_files(function: Any) -> dict[str, str]:
    """Return the SHA-256 of each declared file of a function, by its name there.

    Raises
    ------
    GridtuneError
        If one has gone.
    """
    decorator, error, declared = getattr(function, _DECLARED, ("", GridtuneError, {}))
    checksums = {name: content_of(file) for name, file in declared.items()}
    for name, checksum in checksums.items():
        if not checksum:
            raise error(f"{decorator}: the file {declared[name]} cannot be read")
    return checksums


@dataclass(frozen=True)
class Plugin:
    """A plug-in: all that a worker on another machine needs.

    Attributes
    ----------
    path
        The user's file.
    modules
        Its source and those of the user's own modules that it imports, by the names that it imports them by.
    files
        SHA-256 of each other file that it has read while it ran, by the path from its folder; "" of one that
        it looked for in vain. They do not travel.
    """

    path: Path
    modules: Mapping[str, Source]
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the file's module among `modules`."""
        return _module_name(self.path)

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of all sources and files."""
        if not self.files:
            return self.source_checksum
        lines = [self.source_checksum, *(f"{name} {content}" for name, content in sorted(self.files.items()))]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    @cached_property
    def source_checksum(self) -> str:
        """SHA-256 of all sources."""
        # The file's own name does not count.
        own = {"" if name == self.name else name: source for name, source in self.modules.items()}
        return digest_of(own)

    def is_same(self, other: Plugin) -> bool:
        """Return whether `other`, run now, would be the same as this one, which has run."""
        return self.source_checksum == other.source_checksum and self.files == other.contents(self.files)

    def contents(self, names: Iterable[str]) -> dict[str, str]:
        """Return what `files` would hold for these names now."""
        return {name: content_of(self.path.parent / name) for name in names}

    @cached_property
    def package(self) -> str:
        """The name of the package that it is in a process: of this content, from this file."""
        place = hashlib.sha256(f"{self.path} {self.checksum}".encode()).hexdigest()
        return f"{PLUGIN_PREFIX}{self.name}_{place[:16]}"

    def unload(self) -> None:
        """Forget what it registered and its modules."""
        for registry in all_registries():
            registry.forget(self.package)
        for name in [name for name in sys.modules if name.partition(".")[0] == self.package]:
            del sys.modules[name]

    def source_files(self) -> set[Path]:
        """Return the files of its modules."""
        return {Path(source.file).resolve() for source in self.modules.values()}

    def run_now(self) -> dict[str, str]:
        """Run a plug-in, and return the files that it has read: see `Plugin.files`."""
        # A package of this name may be of files that have changed since.
        self.unload()
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
        for source in self.modules.values():
            # Tracebacks and `inspect` show the text that was loaded, also where the file has been edited
            # since or is on another machine.
            lines = source.text.splitlines(keepends=True)
            linecache.cache[source.file] = (len(source.text), None, lines, source.file)
        folder, sources = self.path.parent, self.source_files()

        def counts(file: Path, frame: FrameType) -> bool:
            if file in sources or not _OTHERS.isdisjoint(file.parents) or is_installed(file):
                return False
            return _is_users(frame) or (folder in file.parents and not _is_hidden(file.relative_to(folder)))

        try:
            with _recording_opens(counts) as opened:
                importlib.import_module(f"{self.package}.{self.name}")
        except GridtuneError as error:
            if error.path is not None:
                raise
            file, line = self.place_of(error)
            raise type(error)(
                error.message, path=file, line=line, field=error.field, hint=error.hint
            ) from error
        except Exception as error:
            file, line = self.place_of(error)
            reason = error.msg if isinstance(error, SyntaxError) else str(error)
            raise PolicyError(
                f"the plug-in fails: {type(error).__name__}: {reason}", path=file, line=line
            ) from error
        return self.contents(os.path.relpath(file, folder) for file in opened)

    def place_of(self, error: BaseException) -> tuple[str, int | None]:
        """Return the user's file and line that an error comes from."""
        files = {source.file for source in self.modules.values()}
        if isinstance(error, SyntaxError) and error.filename in files:
            return error.filename, error.lineno
        place: tuple[str, int | None] = str(self.path), None
        for frame, line in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename in files:
                place = frame.f_code.co_filename, line
        return place


def _module_name(path: Path) -> str:
    return re.sub(r"\W", "_", path.stem)


@cache
def _has_distributions(folder: Path) -> bool:
    """Return whether a folder is Python's own library, or distributions are installed into it."""
    library = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    is_site = folder.name in {"site-packages", "dist-packages"} or folder in library
    return is_site or next(folder.glob("*.dist-info"), None) is not None


def is_installed(file: str | Path) -> bool:
    """Return whether a file is of Python or of a distribution that is installed."""
    return any(map(_has_distributions, Path(file).resolve().parents))


def _own_source(folder: Path, module: str) -> Source | None:
    """Return the source of a module of the user's own as a script in a folder imports it, else None."""
    top = module.partition(".")[0]
    if is_ours(module) or top in sys.stdlib_module_names:
        return None
    path = folder.joinpath(*module.split("."))
    for file, package in (
        (path / "__init__.py", module),
        (path.with_name(f"{path.name}.py"), module.rpartition(".")[0]),
    ):
        if file.is_file():
            return Source(importlib.util.decode_source(file.read_bytes()), str(file), package)
    source = find_source(module)
    return None if source is None or is_installed(source.file) else source


def read_plugin(path: str | Path) -> Plugin:
    """Return the plug-in in a file, with the modules of the user's own that it imports.

    Raises
    ------
    PolicyError
        If a file cannot be read.
    """
    file = Path(path).resolve()
    main = _module_name(file)

    def source_of(name: str) -> Source | None:
        if name == main:
            return Source(importlib.util.decode_source(file.read_bytes()), str(file), "")
        return _own_source(file.parent, name)

    try:
        return Plugin(file, import_closure([main], source_of, late=True, parents=True))
    except (OSError, SyntaxError, UnicodeDecodeError) as fault:
        reason = "no such plug-in file" if isinstance(fault, FileNotFoundError) else str(fault)
        raise PolicyError(f"the plug-in cannot be read: {reason}", path=file) from None


#: The plug-ins of this process, by the user's file.
_LOADED: dict[Path, Plugin] = {}


def plugin_of(module: str) -> Plugin | None:
    """Return the plug-in that a module of this process is part of, or None."""
    top = module.partition(".")[0]
    if not top.startswith(PLUGIN_PREFIX):
        return None
    return next((plugin for plugin in _LOADED.values() if plugin.package == top), None)


def loaded_plugin(path: Path) -> Plugin | None:
    """Return the plug-in in a file as it has been loaded into this process, or None."""
    return _LOADED.get(path.resolve())


def load_plugins(plugins: Iterable[Plugin | str | Path]) -> None:
    """Run each plug-in once in this process, so that it registers its code.

    A plug-in is run again, and replaces its earlier version, if it or a file that it has read was edited. One
    that reads files is run twice at first: it is named after their content.

    Parameters
    ----------
    plugins
        Plug-ins, or paths of their files.

    Raises
    ------
    GridtuneError
        If a file is missing or fails while it runs, with the user's file, the line and the error.
    """
    for plugin in [one if isinstance(one, Plugin) else read_plugin(one) for one in plugins]:
        old = _LOADED.get(plugin.path)
        # The same content is loaded from this file or from a copy of it.
        loaded = (other for other in _LOADED.values() if other.package in sys.modules)
        same = next((other for other in loaded if other.is_same(plugin)), None)
        if same is not None:
            _LOADED[plugin.path] = same
            if old is not None and old not in _LOADED.values():
                old.unload()
            continue
        kept = (
            [] if old is None else [(registry, registry.forget(old.package)) for registry in all_registries()]
        )
        _forget_imports()
        _LOADED[plugin.path] = plugin
        try:
            files = plugin.run_now()
            if files != plugin.files:
                # Its package is named after them: what it lets numba keep on disk holds values from them.
                plugin.unload()
                _LOADED[plugin.path] = replace(plugin, files=files)
                _LOADED[plugin.path].run_now()
        except BaseException:
            _LOADED.pop(plugin.path).unload()
            # What was there before the edit stays in use.
            if old is not None:
                _LOADED[plugin.path] = old
            for registry, items in kept:
                for name, item in items.items():
                    registry.put(name, item)
            raise
        if old is not None and old.package != _LOADED[plugin.path].package:
            old.unload()


def _forget_imports() -> None:
    """Let modules that plug-ins have imported by computed names be imported anew."""
    read = [plugin.path.parent / name for plugin in _LOADED.values() for name in plugin.files]
    files = {str(file.resolve()) for file in read if file.suffix == ".py"}
    for name, module in list(sys.modules.items()) if files else ():
        if name != "__main__" and getattr(module, "__file__", None) in files:
            del sys.modules[name]
    importlib.invalidate_caches()


#: Folders of gridtune and of the operating system, whose files are not the user's own.
_OTHERS = {
    Path(__file__).resolve().parents[1],
    *map(Path, ("/dev", "/etc", "/proc", "/run", "/sys", "/usr/share")),
}


def _is_hidden(file: Path) -> bool:
    """Return whether a path is of a cache, which programs keep for themselves."""
    return file.suffix in {".nbi", ".nbc"} or any(
        part[0] == "." or part == "__pycache__" for part in file.parts
    )


def _is_users(frame: FrameType | None) -> bool:
    """Return whether a frame is of the user's code, or of the standard library as that calls it."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        top = module.partition(".")[0]
        if top.startswith(PLUGIN_PREFIX):
            return True
        # The import statements of plug-ins pass through this module.
        if top not in sys.stdlib_module_names and module != __name__:
            return not is_ours(module) and not is_installed(frame.f_code.co_filename)
        frame = frame.f_back
    return False


def _read_by_users(file: Path, frame: FrameType | None) -> bool:
    """Return whether gridtune calls code of users that opens a file which no id counts.

    The code may open it itself, or through a package.

    Parameters
    ----------
    file
        The file, absolute.
    frame
        The frame that opens it.
    """
    by_users = False
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if is_ours(module):
            break
        if module.startswith(PLUGIN_PREFIX) or not (
            module.partition(".")[0] in sys.stdlib_module_names or is_installed(frame.f_code.co_filename)
        ):
            by_users = True
        frame = frame.f_back
    if not by_users or frame is None or file in _ALL_DECLARED:
        return False
    if not _OTHERS.isdisjoint(file.parents) or is_installed(file) or _is_hidden(file):
        return False
    counted = {
        one
        for plugin in _LOADED.values()
        for one in (*(plugin.path.parent / name for name in plugin.files), *plugin.source_files())
    }
    return file not in {one.resolve() for one in counted}


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of the plug-ins of this process."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        plugin = plugin_of(fullname)
        if plugin is None:
            return None
        name = fullname.removeprefix(plugin.package).removeprefix(".")
        source = plugin.modules.get(name)
        is_package = not name or any(other.startswith(f"{name}.") for other in plugin.modules)
        if source is None and not is_package:
            return None
        if source is not None:
            is_package = is_package or source.package == name
        spec = ModuleSpec(fullname, _Loader(plugin, source), is_package=is_package)
        if source is not None:
            spec.origin, spec.has_location = source.file, True
        if is_package:
            # What has no source in Python, such as compiled extensions, is found where the user has it.
            folder = plugin.path.parent if source is None else Path(source.file).parent
            spec.submodule_search_locations = [str(folder)] if source is not None or not name else []
        return spec


class _Loader(importlib.abc.InspectLoader):
    """Runs the source of a plug-in's module, which imports the plug-in's others by their plain names."""

    def __init__(self, plugin: Plugin, source: Source | None) -> None:
        self._plugin, self._source = plugin, source

    def get_source(self, fullname: str) -> str:
        return "" if self._source is None else self._source.text

    def get_code(self, fullname: str) -> CodeType:
        file = str(self._plugin.path.parent) if self._source is None else self._source.file
        return compile(self.get_source(fullname), file, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        code = self.get_code(module.__name__)
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import}
        exec(code, module.__dict__)

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        top, package = name.partition(".")[0], self._plugin.package
        own = level == 0 and any(other.partition(".")[0] == top for other in self._plugin.modules)
        if not own:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        imported = builtins.__import__(f"{package}.{name}", globals, locals, fromlist or (), 0)
        return imported if fromlist else sys.modules[f"{package}.{top}"]
