"""Compilation, caching and arguments of kernels.

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
  column knows its length. An array of shape () of a structured type is, bare, its *record*: kernels read and
  write the fields of their state by name. A function that returns a record returns a copy of it, unless it is
  inlined (`inline="always"`).
- It names each compiled function by its number in the process that compiles it, so machine code of two
  processes can hold two functions of one name. Loaded together, both are the one loaded first: `np.argsort`
  of 16 numbers used the comparison of `array.sort` and returned them unsorted. Numbers are random here.
"""

from __future__ import annotations

import operator
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import numpy.typing as npt
from numba import carray, config, from_dtype, njit, types
from numba.core import cgutils
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CacheImpl, UserWideCacheLocator
from numba.extending import intrinsic, make_attribute_wrapper, models, overload, register_model

from gridtune.core.sources import PLUGIN_PREFIX, Source, digest_of, import_closure, module_source
from gridtune.types import IntArray

__all__ = [
    "address",
    "array_at",
    "bare",
    "columns_at",
    "handles_of",
    "handles_within",
    "kernel",
    "record_at",
    "record_of",
    "section",
    "source_stamp",
]


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


class _CheckedColumn(types.Type):
    """A bare column that knows its length, where numba checks bounds."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"CheckedColumn({dtype})")


@register_model(_CheckedColumn)
class _Model(models.StructModel):
    def __init__(self, manager: Any, column: _CheckedColumn) -> None:
        super().__init__(manager, column, [("data", types.CPointer(column.dtype)), ("size", types.intp)])


make_attribute_wrapper(_CheckedColumn, "data", "data")
make_attribute_wrapper(_CheckedColumn, "size", "size")


@overload(operator.getitem)
def _get(column, index):
    def get(column, index):
        if not 0 <= index < column.size:
            raise IndexError("index is out of bounds")
        return column.data[index]

    return get if isinstance(column, _CheckedColumn) else None


@overload(operator.setitem)
def _set(column, index, value):
    def set_(column, index, value):
        if not 0 <= index < column.size:
            raise IndexError("index is out of bounds")
        column.data[index] = value

    return set_ if isinstance(column, _CheckedColumn) else None


def _bare_type(value: Any) -> Any:
    """Return the type of a bare value of a type."""
    if isinstance(value, types.Array) and value.layout == "C":
        if value.ndim == 0 and isinstance(value.dtype, types.Record):
            return value.dtype
        return _CheckedColumn(value.dtype) if config.BOUNDSCHECK else types.CPointer(value.dtype)
    if isinstance(value, types.BaseNamedTuple):
        return _tuple_type([_bare_type(field) for field in value.types], value.instance_class)
    return value


def _tuple_type(fields: list[Any], kind: type) -> Any:
    if fields and all(field == fields[0] for field in fields):
        return types.NamedUniTuple(fields[0], len(fields), kind)
    return types.NamedTuple(fields, kind)


@intrinsic
def bare(typing_context: Any, value: Any) -> Any:
    """Return a contiguous array as a bare column, or a NamedTuple with all its arrays so, at any depth.

    An array of shape () of a structured type becomes its record: `state.free` reads and writes a field.
    """

    def make(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.BaseNamedTuple):
            fields = enumerate(kind.types)
            parts = [make(context, builder, field, builder.extract_value(value, i)) for i, field in fields]
            return context.make_tuple(builder, _bare_type(kind), parts)
        if _bare_type(kind) == kind:
            context.nrt.incref(builder, kind, value)
            return value
        array = cgutils.create_struct_proxy(kind)(context, builder, value=value)
        if not isinstance(_bare_type(kind), _CheckedColumn):
            return array.data
        column = cgutils.create_struct_proxy(_bare_type(kind))(context, builder)
        column.data, column.size = array.data, array.nitems
        return column._getvalue()

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return make(context, builder, value, arguments[0])

    return _bare_type(value)(value), generate


@intrinsic
def address(typing_context: Any, array: Any) -> Any:
    """Return the pointer to the data of a contiguous array, or of a bare column."""
    if isinstance(array, types.CPointer):
        return array(array), lambda context, builder, signature, arguments: arguments[0]
    if not isinstance(array, _CheckedColumn) and getattr(array, "layout", None) != "C":
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        make = cgutils.create_struct_proxy(signature.args[0])
        return make(context, builder, value=arguments[0]).data

    return types.CPointer(array.dtype)(array), generate


@intrinsic
def _shifted(typing_context: Any, pointer: Any, offset: Any) -> Any:
    """Return the pointer moved on by a number of elements."""
    if not isinstance(pointer, types.CPointer):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        element = context.get_data_type(signature.args[0].dtype)
        return builder.gep(arguments[0], [arguments[1]], source_etype=element)

    return pointer(pointer, types.intp), generate


@kernel(inline="always")
def _bare_section(array, start, length):
    return _shifted(address(array), start)


@kernel()
def _checked_section(array, start, length):
    if start < 0 or length < 0 or start + length > array.size:
        raise IndexError("a section is out of bounds")
    return bare(array[start : start + length])


@intrinsic
def record_of(typing_context: Any, pointer: Any) -> Any:
    """Return the record that a pointer points to, such as a bare column of one: a reference, no copy."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return pointer.dtype(pointer), generate


@kernel(inline="always")
def _bare_record(column, place):
    return record_of(_shifted(address(column), place))


@kernel(inline="always")
def _checked_record(column, place):
    if not 0 <= place < column.size:
        raise IndexError("index is out of bounds")
    return record_of(_shifted(column.data, place))


#: Return the record at a place of a bare column of records.
record_at = _checked_record if config.BOUNDSCHECK else _bare_record
#: Return the bare column of `length` elements from `start` on: many columns can share one array, which is
#: one argument of a kernel instead of many.
section = _checked_section if config.BOUNDSCHECK else _bare_section


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


def handles_within(words: IntArray, lengths: Sequence[int] | IntArray) -> IntArray:
    """Return addresses and lengths of consecutive parts of each row: shape (rows, 2n), for `columns_at`.

    The caller keeps the memory alive.
    """
    rows, width = words.shape
    starts = np.cumsum(lengths) - lengths + width * np.arange(rows)[:, None]
    begins = words.ctypes.data + words.itemsize * starts
    return np.stack([begins, np.broadcast_to(lengths, begins.shape)], axis=2).reshape(rows, -1)


@intrinsic
def columns_at(typing_context: Any, kind: Any, values: Any, handles: Any, first: Any) -> Any:
    """Return a NamedTuple: of the values, then of bare columns, whose handles stand from `first` on.

    The annotations of the class say what its columns hold: int64 of an `IntArray`.
    """
    hints = list(get_type_hints(kind.instance_class).values())[len(values) :]
    held = [from_dtype(np.dtype(get_args(get_args(hint)[1])[0])) for hint in hints]
    columns = [_bare_type(types.Array(element, 1, "C")) for element in held]

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = cgutils.create_struct_proxy(signature.args[2])(context, builder, value=arguments[2])
        word = builder.gep(array.data, [builder.shl(arguments[3], arguments[3].type(1))])
        parts = cgutils.unpack_tuple(builder, arguments[1])
        for number, column in enumerate(columns):
            address, size = (
                builder.load(builder.gep(word, [context.get_constant(types.intp, 2 * number + side)]))
                for side in (0, 1)
            )
            if isinstance(column, _CheckedColumn):
                checked = cgutils.create_struct_proxy(column)(context, builder)
                kept = types.CPointer(column.dtype)
                checked.data, checked.size = builder.inttoptr(address, context.get_value_type(kept)), size
                parts.append(checked._getvalue())
            else:
                parts.append(builder.inttoptr(address, context.get_value_type(column)))
        return context.make_tuple(builder, signature.return_type, parts)

    result = _tuple_type([*values.types, *columns], kind.instance_class)
    return result(kind, values, handles, types.intp), generate
