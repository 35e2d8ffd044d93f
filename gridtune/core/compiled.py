"""How kernels are compiled, cached and fed.

Three things numba does not do by itself:

- Its cache on disk watches the file that defines a function, not the files of the helpers it calls, so an
  edited helper would leave its callers stale. `kernel` ties a function's cache to the source of its module
  and of every module that this one imports, directly or through others: an edit there, and nowhere else,
  compiles the function again.
- It counts references to each array it takes out of a tuple, with atomic operations that cost more than the
  work of a small helper (measured: three quarters of an EASY replay). A *bare* column is the address of an
  array's data with its element type: passing and reading a NamedTuple of them costs nothing. The price: it
  keeps nothing alive and checks no bounds. So the caller of a kernel allocates the arrays and keeps them
  until it returns; and where numba checks bounds (`NUMBA_BOUNDSCHECK=1`, one leg of the tests), a bare
  column knows its length (`checked`).
- It names each compiled function by its number in the process that compiles it, so machine code of two
  processes can hold two functions of one name. Loaded together, both are the one loaded first: `np.argsort`
  of 16 numbers used the comparison of `array.sort` and returned them unsorted. Numbers are random here.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray, config, njit, types
from numba.core import cgutils
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CacheImpl, UserWideCacheLocator
from numba.extending import intrinsic

from gridtune.core.checked import CheckedColumn, checked, checked_section
from gridtune.core.plugins import PLUGIN_PREFIX
from gridtune.core.sources import Source, digest_of, import_closure, module_source
from gridtune.types import IntArray

__all__ = ["address", "array_at", "bare", "handles_of", "kernel", "section", "source_stamp"]


#: Part of every stamp: raise it when `kernel` compiles differently.
_FORMAT = 2


# Each from the operating system, so that a forked process does not repeat its parent's.
FunctionIdentity._unique_ids = iter(lambda: secrets.randbits(63), None)


@cache
def source_stamp(module: str) -> str:
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


# It also serves functions that a plug-in lets numba cache by itself.
CacheImpl._locator_classes.insert(0, _PluginLocator)


def _caches(dispatcher: Any) -> bool:
    """Let a function cache its machine code; where no usual folder can be written, in one in /tmp.

    Return whether it does: a machine without either compiles in every process.
    """
    try:
        dispatcher.enable_caching()
    except RuntimeError:
        folder = Path(tempfile.gettempdir()) / f"gridtune-{os.getuid()}" / "kernels"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            config.CACHE_DIR = str(folder)
            dispatcher.enable_caching()
        except (OSError, RuntimeError):
            return False
    return True


def kernel(signature: Any = None, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function without the interpreter; cache its machine code until its sources change."""
    if config.BOUNDSCHECK:  # there speed does not matter, and copies of code take long to compile
        options.pop("forceinline", None)

    def compile_with_cache(function: Callable[..., Any]) -> Any:
        dispatcher = njit(**options)(function)
        if _caches(dispatcher) and module_source(function.__module__) is not None:
            stamp = (_FORMAT, source_stamp(function.__module__))
            index = dispatcher._cache._cache_file
            index._source_stamp = stamp
            # Compared before the rest of an index is read: an old one may name classes that are gone.
            index._version = f"{index._version} {stamp}"
        if signature is not None:
            dispatcher.compile(signature)
            dispatcher.disable_compile()
        return dispatcher

    return compile_with_cache


@intrinsic
def address(typing_context: Any, array: Any) -> Any:
    """Return the pointer to the data of a contiguous array, or of a bare column."""
    if isinstance(array, types.CPointer):
        return array(array), lambda context, builder, signature, arguments: arguments[0]
    if not isinstance(array, CheckedColumn) and getattr(array, "layout", None) != "C":
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        make = cgutils.create_struct_proxy(signature.args[0])
        return make(context, builder, value=arguments[0]).data

    return types.CPointer(array.dtype)(array), generate


@kernel(inline="always")
def _bare(array):
    return address(array)


#: Return a C-contiguous array's data as a bare column: `column[i]`, no reference count, no bounds.
bare = checked if config.BOUNDSCHECK else _bare


@intrinsic
def _shifted(typing_context: Any, pointer: Any, offset: Any) -> Any:
    """Return the pointer moved on by a number of elements."""
    if not isinstance(pointer, types.CPointer):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        element = context.get_value_type(signature.args[0].dtype)
        return builder.gep(arguments[0], [arguments[1]], source_etype=element)

    return pointer(pointer, types.intp), generate


@kernel(inline="always")
def _section(array, start, length):
    return _shifted(address(array), start)


#: Return the bare column of `length` elements from `start` on: many columns can share one array, which is
#: one argument of a kernel instead of many.
section = checked_section if config.BOUNDSCHECK else _section


def handles_of(arrays: Iterable[npt.NDArray[Any]]) -> IntArray:
    """Return addresses and lengths of arrays: shape (2n,). The caller keeps the arrays alive.

    A kernel spends about a tenth of a microsecond on taking apart each array argument. One that is called
    often with the same arrays, for little work, takes their handles instead: see `array_at`.
    """
    handles: list[int] = []
    for array in arrays:
        if not array.flags.c_contiguous:
            raise ValueError("only contiguous arrays have handles")
        handles += [array.ctypes.data, array.size]
    return np.array(handles, np.int64)


@intrinsic
def _pointer(typing_context: Any, address: Any, dtype: Any) -> Any:
    """Return an address as a pointer to elements of a type."""
    if not isinstance(dtype, types.DTypeSpec):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(dtype.dtype)(types.intp, dtype), generate


@kernel(inline="always")
def array_at(handles: Any, position: Any, dtype: Any) -> Any:
    """Return the array at a position among handles, as one dimension of elements of a type."""
    return carray(_pointer(handles[2 * position], dtype), handles[2 * position + 1])
