"""Compilation, caching and arguments of kernels.

Five things numba does not do by itself:

- Its cache on disk watches the file that defines a function, not the files of the helpers it calls, so an
  edited helper would leave its callers stale; and it finds a function by the path of that file. `kernel`
  names machine code after the source of its module and of every module that this one imports, directly or
  through others: an edit there, and nowhere else, compiles the function again, and the same sources find the
  code from every folder. The name holds the versions of Python and of the compiler too.
- It compiles for the processor at hand. Kernels are compiled for a level that all x86 processors have, at the
  same speed, so that an installation can hold their machine code (`gridtune doctor --kernels`).
- It optimizes each function with all that it calls, makes machine code of it, and a wrapper for the
  interpreter: of a helper ten calls down eleven times. A kernel that another one calls is left as it is, and
  becomes machine code with its caller only; this halves the time to compile.
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
  of 16 numbers used the comparison of `array.sort` and returned them unsorted. Numbers are random here:
  `_adapt_numba` has all that changes numba for the whole process.
"""

from __future__ import annotations

import hashlib
import operator
import os
import pickle
import secrets
import sys
import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, get_args, get_type_hints

import llvmlite
import numba
import numpy as np
import numpy.typing as npt
from llvmlite.binding import get_host_cpu_features, get_process_triple
from numba import carray, config, from_dtype, types
from numba.core import cgutils, event
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import (
    CacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    NullCache,
    UserWideCacheLocator,
)
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.typed_passes import NativeLowering
from numba.extending import intrinsic, make_attribute_wrapper, models, overload, register_model

import gridtune
from gridtune.core.sources import PLUGIN_PREFIX, Source, digest_of, import_closure, module_source
from gridtune.storage import user_cache
from gridtune.types import IntArray


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


class _Codegen(JITCPUCodegen):
    """Makes machine code for a level that x86 processors have had since 2009."""

    _LEVEL = "x86-64-v2"
    _FEATURES = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16", "sahf")

    def _get_host_cpu_name(self) -> str:
        return self._LEVEL

    def _get_host_cpu_features(self) -> str:
        return ""

    @staticmethod
    @cache
    def _here() -> _Codegen | None:
        """Return the one of this process; None where the processor is another or `NUMBA_CPU_NAME` is set."""
        present = get_host_cpu_features()
        if config.CPU_NAME or not get_process_triple().startswith("x86_64"):
            return None
        return _Codegen("gridtune") if all(map(present.get, _Codegen._FEATURES)) else None

    @staticmethod
    @contextmanager
    def at_work(context: Any) -> Iterator[None]:
        """Make the machine code within for the baseline, and no other code of this process."""
        with global_compiler_lock:
            before = context._internal_codegen
            context._internal_codegen = _Codegen._here() or before
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

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
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


class _PartLibrary(JITCodeLibrary):
    """The code of a kernel for the kernels that call it; it links nothing and makes no machine code.

    `needed` are the libraries that a caller has to link, this one and those of what it calls. `apart` says
    that the code is called where it is needed, and not copied there.
    """

    def __init__(self, codegen: Any, name: str, apart: bool) -> None:
        super().__init__(codegen, name)
        self.apart = apart
        self.needed = {self: None}  # a set that keeps the order

    def add_linking_library(self, library: Any) -> None:
        self.needed |= getattr(library, "needed", {library: None})

    def add_llvm_module(self, module: Any) -> None:
        for function in module.functions if self.apart else ():
            if not function.is_declaration:
                function.add_function_attribute("noinline")
        self._final_module.link_in(module)

    def finalize(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):
    _name, _apart = "part_lowering", False

    def run_pass(self, state: Any) -> bool:
        """Make the code of a kernel for the kernels that call it."""
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname, self._apart)
        state.flags.no_compile = state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        super().run_pass(state)
        key = object()  # what callers find the code by, in place of a function of the interpreter
        state.targetctx.insert_user_function(key, state["cr"].fndesc, list(state.library.needed))
        state["cr"] = state["cr"]._replace(cfunc=key)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _ApartLowering(_PartLowering):
    _name, _apart = "apart_lowering", True


class _PartCompiler(CompilerBase):
    lowering = _PartLowering

    def define_pipelines(self) -> list[Any]:
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.passes = [
            (self.lowering if step is NativeLowering else step, text) for step, text in manager.passes
        ]
        return [manager]


class _ApartCompiler(_PartCompiler):
    lowering = _ApartLowering


class _PartDispatcher(CPUDispatcher):
    def add_overload(self, result: Any) -> None:
        """Keep the code for kernels only: the interpreter cannot call it."""
        self.overloads[tuple(result.signature.args)] = result


class _Kernel(CPUDispatcher):
    """A function as the interpreter calls it; other kernels call its `part`."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], apart: bool) -> None:
        options = {"nopython": True, "boundscheck": None, **options}
        if apart:  # else it would inherit this option from a kernel that calls it
            options["forceinline"] = False
        super().__init__(function, {}, {"no_cfunc_wrapper": True, **options})
        compiler = _ApartCompiler if apart else _PartCompiler
        self.part = _PartDispatcher(function, {}, options, pipeline_class=compiler)
        if module_source(function.__module__) is not None:
            self._cache = KernelCache(function)

    def compile(self, sig: Any) -> Any:
        """Load or make the machine code for types of arguments."""
        with _Codegen.at_work(self.targetctx):
            return super().compile(sig)

    @property
    def _numba_type_(self) -> Any:
        # A function that calls itself must find what is being compiled, or it would be compiled without end.
        return types.Dispatcher(self if self.is_compiling else self.part)


def kernel(*, apart: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function without the interpreter; cache its machine code until its sources change.

    The compiler copies code of a kernel to where others call it as it sees fit; never where it is `apart`.
    Large code that is called in many places compiles in a fraction of the time so. Each call then passes on
    every column of a NamedTuple, unless it takes a `reference`.
    """
    if config.BOUNDSCHECK:  # there speed does not matter, and copies of code take long to compile
        options.pop("forceinline", None)

    return lambda function: _Kernel(function, options, apart)


class _Callback(CFunc):
    """A function as kernels call it by address."""

    def __init__(self, function: Callable[..., Any], signature: Any, content: Hashable | None) -> None:
        super().__init__(function, (signature.args, signature.return_type), {}, {})
        if content is not None:
            self._cache = KernelCache(function, content)

    def compile(self) -> None:
        """Load or make its machine code."""
        with _Codegen.at_work(cpu_target.target_context):
            super().compile()


def callback(signature: Any, function: Callable[..., Any], content: Hashable | None = "") -> Any:
    """Compile a function that kernels call by its address.

    Its machine code is kept until the sources of its module change or its content is another: `content` is
    all that it takes from elsewhere, such as the bytecode of a user's function; None if that cannot be told,
    and nothing is kept.
    """
    compiled = _Callback(function, signature, content)
    compiled.compile()
    return compiled


class _Compilations(event.Listener):
    """Calls a function at the first compilation of a kernel that is kept on disk."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell: Callable[[], None] | None = tell

    def on_start(self, event: Any) -> None:
        """Take the beginning of a compilation."""
        # What is not kept, such as the order of a plug-in, is compiled in every process.
        if self._tell is not None and not isinstance(event.data["dispatcher"]._cache, NullCache):
            tell, self._tell = self._tell, None
            tell()

    def on_end(self, event: Any) -> None:
        """Take the end of one."""


def telling_of_compilation(tell: Callable[[], None]) -> AbstractContextManager[None]:
    """Return a context that calls a function once, before the first kernel is compiled that has no file."""
    listening: AbstractContextManager[None] = event.install_listener("numba:compile", _Compilations(tell))
    return listening


class _CheckedColumn(types.Type):
    """A bare column that knows its length, where numba checks bounds."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"CheckedColumn({dtype})")


@register_model(_CheckedColumn)
class _Model(models.StructModel):
    def __init__(self, manager: Any, column: _CheckedColumn) -> None:
        super().__init__(manager, column, [("data", types.CPointer(column.dtype)), ("size", types.intp)])


class _Reference(types.Type):
    """A pointer to a bare value."""

    def __init__(self, value: Any) -> None:
        self.value = value
        super().__init__(name=f"Reference({value})")


@register_model(_Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, manager: Any, reference: _Reference) -> None:
        super().__init__(manager, reference, manager.lookup(reference.value).get_value_type().as_pointer())


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
def reference(typing_context: Any, value: Any) -> Any:
    """Return a pointer to a copy of a bare value; it holds until the function that calls this returns."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return cgutils.alloca_once_value(builder, arguments[0])

    return _Reference(value)(value), generate


@intrinsic
def dereference(typing_context: Any, pointer: Any) -> Any:
    """Return the value that a `reference` points to; its unused parts are not read."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(arguments[0])

    return pointer.value(pointer), generate


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
def _record_of(typing_context: Any, pointer: Any) -> Any:
    """Return the record that a pointer points to, such as a bare column of one: a reference, no copy."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return pointer.dtype(pointer), generate


@kernel(inline="always")
def _bare_record(column, place):
    return _record_of(_shifted(address(column), place))


@kernel(inline="always")
def _checked_record(column, place):
    if not 0 <= place < column.size:
        raise IndexError("index is out of bounds")
    return _record_of(_shifted(column.data, place))


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
    """Return a NamedTuple: of the values, then of bare columns with the handles from `first` on.

    The annotations of the class say what its columns hold: int64 of an `IntArray`.
    """
    hints = list(get_type_hints(kind.instance_class).values())[len(values) :]
    elements = [get_args(hint)[-1] for hint in hints]
    # From NumPy 2.5 on, `NDArray` has one argument.
    dtypes = [np.dtype((get_args(element) or (element,))[0]) for element in elements]
    columns = [_bare_type(types.Array(from_dtype(dtype), 1, "C")) for dtype in dtypes]

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
