"""Machine code of kernels, kept by content.

Three things numba does not do by itself:

- Its cache on disk watches the file that defines a function, not the files of the helpers it calls, so an
  edited helper would leave its callers stale; and it finds a function by the path of that file. `KernelCache`
  names machine code after the source of the function's module and of every module that this one imports,
  directly or through others: an edit there, and nowhere else, compiles the function again, and the same
  sources find the code from every folder. The name holds the versions of Python and of the compiler too.
- It compiles for the processor at hand. Kernels are compiled for a level that all x86 processors have, at the
  same speed, so that an installation can hold their machine code (`gridtune doctor --kernels`).
- It names each compiled function by its number in the process that compiles it, so machine code of two
  processes can hold two functions of one name. Loaded together, both are the one loaded first: `np.argsort`
  of 16 numbers used the comparison of `array.sort` and returned them unsorted. Numbers are random here:
  `_adapt_numba` has all that changes numba for the whole process.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import secrets
import sys
import tempfile
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import llvmlite
import numba
import numba.cpython.hashing  # registers addresses that machine code may refer to
import numpy as np
from llvmlite.binding import get_host_cpu_features, get_process_triple
from numba import config
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CacheImpl, FunctionCache, IndexDataCacheFile, UserWideCacheLocator
from numba.core.codegen import JITCPUCodegen
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import rtsys

import gridtune
from gridtune.core.sources import PLUGIN_PREFIX, Source, digest_of, import_closure, module_source
from gridtune.storage import user_cache


@cache
def _source_stamp(module: str) -> str:
    """Return a digest of the sources of a module and of all it imports from its own package and gridtune.

    Imports that are indented do not count: they run later or for type checkers, and no kernel needs them.
    """
    # What belongs to a stamp: the module's own package and gridtune.
    packages = {module.partition(".")[0], __name__.partition(".")[0]}

    def source_of(name: str) -> Source | None:
        return module_source(name) if name.partition(".")[0] in packages else None

    return digest_of(import_closure([module], source_of, late=False))


class _PluginLocator(UserWideCacheLocator):
    """Places machine code of plug-ins by their content, which their packages are named after.

    A function may use helpers of other files, which numba does not watch; and the file may be on another
    machine.
    """

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """Return a locator for a function of a plug-in, else None."""
        package = py_func.__module__.partition(".")[0]
        if not package.startswith(PLUGIN_PREFIX):
            return None
        locator = cls(py_func, py_file)
        base = config.CACHE_DIR or str(Path(locator._cache_path).parent)
        locator._cache_path = str(Path(base, f"{package}_{Path(py_file).stem}"))
        try:
            locator.ensure_cache_path()
        except OSError:
            return None
        return locator

    def get_source_stamp(self) -> str:
        """Return the same for ever: other content is in another place."""
        return ""


def _adapt_numba() -> None:
    """Change numba in this process: random names of functions, and a place for machine code of plug-ins.

    Neither fits into our kernels alone. Their machine code holds copies of numba's own helpers, and another
    caller in the process may have named these before. A plug-in's `@njit(cache=True)` is cached by numba.
    """
    # Each from the operating system, so that a forked process does not repeat its parent's.
    FunctionIdentity._unique_ids = iter(lambda: secrets.randbits(63), None)
    CacheImpl._locator_classes.insert(0, _PluginLocator)


_adapt_numba()


class BaselineCode(JITCPUCodegen):
    """Makes machine code for a level that x86 processors have had since 2009."""

    _LEVEL = "x86-64-v2"
    _FEATURES = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16", "sahf")

    def _get_host_cpu_name(self) -> str:
        return self._LEVEL

    def _get_host_cpu_features(self) -> str:
        return ""

    @staticmethod
    @cache
    def _here() -> BaselineCode | None:
        """Return the one of this process; None where the processor is another or `NUMBA_CPU_NAME` is set."""
        present = get_host_cpu_features()
        if config.CPU_NAME or not get_process_triple().startswith("x86_64"):
            return None
        return BaselineCode("gridtune") if all(map(present.get, BaselineCode._FEATURES)) else None

    @staticmethod
    @contextmanager
    def at_work(context: Any) -> Iterator[None]:
        """Make the machine code within for the baseline, and no other code of this process."""
        with global_compiler_lock:
            before = context._internal_codegen
            context._internal_codegen = BaselineCode._here() or before
            try:
                yield
            finally:
                context._internal_codegen = before


class _KernelFile(IndexDataCacheFile):
    """The machine code of a function in a folder. A damaged file counts as missing.

    Two processes may write at once. One index is lost then; but no number of a file is used twice, so that
    neither index leads to the code of the other.
    """

    def _dump(self, obj: Any) -> bytes:
        data: bytes = super()._dump(obj)
        return hashlib.sha256(data).digest() + data

    def _load_data(self, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            raise OSError(f"{name} is damaged")
        return pickle.loads(content[32:])

    def _load_index(self) -> dict[Any, str]:
        try:
            overloads: dict[Any, str] = self._load_data(self._index_name)
        except OSError:
            return {}
        return overloads

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._save_data(self._index_name, overloads)

    def _data_name(self, number: int) -> str:
        name: str = super()._data_name(secrets.randbits(63))
        return name


class KernelCache(FunctionCache):
    """Keeps machine code of a function in files that are named after all that it is made from.

    It looks in the installation first, then in the user's folder.

    Parameters
    ----------
    function
        The function.
    content
        As in `callback`; None for a function whose module holds all of it.
    """

    #: Machine code that came with the installation, or was made for it.
    INSTALLATION: ClassVar[Path] = Path(gridtune.__file__).with_name("kernels")
    #: Whether this process keeps machine code there too, for everyone.
    installs: ClassVar[bool] = False

    def __init__(self, function: Callable[..., Any], content: Hashable = None) -> None:
        self._py_func, self._content = function, content
        made_from = (
            sys.implementation.cache_tag,
            sys.abiflags,
            [module.__version__ for module in (numba, llvmlite, np)],
            [int(option) for option in (config.OPT, config.LOOP_VECTORIZE, config.SLP_VECTORIZE)],
            bool(config.BOUNDSCHECK),
            _source_stamp(function.__module__),
            (function.__module__, function.__qualname__, function.__code__.co_firstlineno),
            content,
        )
        name = f"{function.__name__}-{hashlib.sha256(repr(made_from).encode()).hexdigest()}"
        folders = (self.INSTALLATION, self._folder(config.CACHE_DIR))
        self._files = [_KernelFile(str(folder), name, name) for folder in folders]
        self._cache_path = str(folders[not self.installs])
        self.enable()

    @staticmethod
    @cache
    def _folder(chosen: str) -> Path:
        """Return the folder that machine code is kept in: the chosen one, or one in the user's cache.

        If that cannot be written, it is one in /tmp that nobody else can write.
        """
        folder = Path(chosen) if chosen else user_cache() / "kernels"
        fallback = Path(tempfile.gettempdir(), f"gridtune-{os.getuid()}")
        for place in (folder, fallback):
            with suppress(OSError):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                tempfile.TemporaryFile(dir=place).close()
                if place == folder or place.stat().st_uid == os.getuid():
                    return place
        return folder

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for types of arguments, or None.

        The compiler, which numba's own method loads first, takes longer than all kernels of a replay.
        """
        rtsys.initialize(target_context)
        key = self._index_key(sig, target_context.codegen())
        for file in self._files:
            with suppress(ImportError):  # a function that came by value may lack its module here
                data = file.load(key)
                if data is not None:
                    if self.installs:
                        self._keep(key, data)
                    return CompileResult._rebuild(target_context, *data)
        return None

    def _save_overload(self, sig: Any, data: Any) -> None:
        if not data.library.has_dynamic_globals:
            self._keep(self._index_key(sig, data.codegen), data._reduce())

    def _keep(self, key: Any, data: Any) -> None:
        for file in self._files[not self.installs :]:
            with suppress(OSError):  # on a full disk, the next process compiles again
                file.save(key, data)
                os.utime(file._index_path)  # in use: `gridtune doctor --kernels` removes older files

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return super()._index_key(sig, codegen) if self._content is None else (sig, codegen.magic_tuple())
