"""Compilation and arguments of kernels.

`gridtune.core.machine_code` keeps what is compiled here. Three more things numba does not do by itself:

- It optimizes each function with all that it calls, makes machine code of it, and a wrapper for the
  interpreter: of a helper ten calls down eleven times. A kernel that another one calls is left as it is, and
  becomes machine code with its caller only; this halves the time to compile.
- A kernel gets a NamedTuple as one argument for each of its columns, and writes code for all of them again
  wherever it passes the tuple on, or ends its use. Here a NamedTuple of bare columns is one pointer, and code
  is written only for what holds arrays, with no place in memory for what is assigned once, at the beginning.
  This halves the time to compile again.
- It counts references to each array it takes out of a tuple, with atomic operations that cost more than the
  work of a small helper (measured: three quarters of an EASY replay). A *bare* column is the address of an
  array's data with its element type: passing and reading a NamedTuple of them costs nothing. The price: it
  keeps nothing alive and checks no bounds. So the caller of a kernel allocates the arrays and keeps them
  until it returns; and where numba checks bounds (`NUMBA_BOUNDSCHECK=1`, one leg of the tests), a bare
  column knows its length. An array of shape () of a structured type is, bare, its *record*: kernels read and
  write the fields of their state by name. A function that returns a record returns a copy of it, unless it is
  inlined (`inline="always"`).
"""

from __future__ import annotations

import hashlib
import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, get_args, get_type_hints

import numpy as np
import numpy.typing as npt
from llvmlite.ir import Argument
from llvmlite.ir.instructions import ExtractValue, InsertValue, LoadInstr
from numba import carray, config, from_dtype, types
from numba.core import cgutils, event, ir
from numba.core.caching import NullCache
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.typed_passes import NativeLowering
from numba.extending import intrinsic, make_attribute_wrapper, models, overload, register_model

from gridtune.core.machine_code import BaselineCode, KernelCache
from gridtune.core.sources import module_source
from gridtune.types import IntArray


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


@cache
def _counted(kind: types.Type) -> bool:
    return cpu_target.target_context.data_model_manager[kind].contains_nrt_meminfo()


class _Lower(Lower):
    """Writes code for the compiler: none for the references to what holds no arrays.

    numba takes each column out of a NamedTuple to count references to it, also where none of them has any.
    """

    def incref(self, kind: types.Type, value: Any) -> None:
        """Count one more reference."""
        if _counted(kind):
            super().incref(kind, value)

    def decref(self, kind: types.Type, value: Any) -> None:
        """Count one reference less."""
        if _counted(kind):
            super().decref(kind, value)

    def init(self) -> None:
        """Count how often each variable is assigned."""
        super().init()
        assigned = (one.target.name for block in self.blocks.values() for one in block.find_insts(ir.Assign))
        self._assigned, self._lasting = Counter(assigned), dict[str, Any]()

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Assign a variable: what the first block assigns for good needs no place in memory."""
        once = self._assigned[name] == 1 and self._cur_ir_block is self.blocks[self.firstblk]
        if not once or _counted(self.typeof(name)):
            super().storevar(value, name, argidx)
        else:
            self._lasting[name] = value

    def loadvar(self, name: str) -> Any:
        """Return the value of a variable."""
        return self._lasting[name] if name in self._lasting else super().loadvar(name)

    def delvar(self, name: str) -> None:
        """End a variable."""
        if name in self._lasting:
            return None
        kind = self.typeof(name)
        if _counted(kind):
            return super().delvar(name)
        if name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)
        return self._alloca_var(name, kind)


@register_pass(mutates_CFG=True, analysis_only=False)
class _KernelLowering(NativeLowering):
    _name = "kernel_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        """The writer of a kernel's code."""
        return _Lower


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(_KernelLowering):
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


class _KernelCompiler(CompilerBase):
    lowering: type[NativeLowering] = _KernelLowering

    def define_pipelines(self) -> list[Any]:
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.passes = [
            (self.lowering if step is NativeLowering else step, text) for step, text in manager.passes
        ]
        return [manager]


class _PartCompiler(_KernelCompiler):
    lowering = _PartLowering


class _ApartCompiler(_KernelCompiler):
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
        super().__init__(function, {}, {"no_cfunc_wrapper": True, **options}, pipeline_class=_KernelCompiler)
        compiler = _ApartCompiler if apart else _PartCompiler
        self.part = _PartDispatcher(function, {}, options, pipeline_class=compiler)
        if module_source(function.__module__) is not None:
            self._cache = KernelCache(function)

    def compile(self, sig: Any) -> Any:
        """Load or make the machine code for types of arguments."""
        with BaselineCode.at_work(self.targetctx):
            return super().compile(sig)

    @property
    def _numba_type_(self) -> Any:
        # A function that calls itself must find what is being compiled, or it would be compiled without end.
        return types.Dispatcher(self if self.is_compiling else self.part)


def kernel(*, apart: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function without the interpreter; cache its machine code until its sources change.

    The compiler copies code of a kernel to where others call it as it sees fit; never where it is `apart`.
    Large code that is called in many places compiles in a fraction of the time so.
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
        with BaselineCode.at_work(cpu_target.target_context):
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
        return _BareTuple([_bare_type(field) for field in value.types], value.instance_class)
    return value


class _BareTuple(types.NamedTuple):
    """A NamedTuple of bare columns: kernels pass each other a pointer to it.

    Names of functions hold those of their arguments' types, which with the types of all fields have thousands
    of characters.
    """

    def __init__(self, fields: list[Any], kind: type) -> None:
        super().__init__(fields, kind)
        self.name = f"{kind.__name__}.{hashlib.sha256(str(self).encode()).hexdigest()[:16]}"

    def __hash__(self) -> int:  # numba's hash goes through the types of all fields, a million times
        return hash(self.name)


@register_model(_BareTuple)
class _BareTupleModel(models.TupleModel):
    def get_argument_type(self) -> Any:
        return self.get_value_type().as_pointer()

    def as_argument(self, builder: Any, value: Any) -> Any:
        return _place_of(builder, value) or cgutils.alloca_once_value(builder, value)

    def from_argument(self, builder: Any, value: Any) -> Any:
        for attribute in ("noalias", "captures(none)"):  # kernels only read it
            value.add_attribute(attribute)
        return builder.load(value)


def _place_of(builder: Any, value: Any) -> Any:
    """Return the pointer to a value that is an argument or a part of one, None of any other."""
    value = _origin(value)
    if isinstance(value, LoadInstr) and isinstance(value.operands[0], Argument):
        return value.operands[0]
    whole = _place_of(builder, value.aggregate) if isinstance(value, ExtractValue) else None
    return whole and cgutils.gep_inbounds(builder, whole, 0, *value.indices)


def _origin(value: Any) -> Any:
    """Return what was put into a tuple where a value is taken out of it, any other value itself."""
    if not isinstance(value, ExtractValue):
        return value
    whole = _origin(value.aggregate)
    while isinstance(whole, InsertValue) and list(whole.indices) != list(value.indices):
        whole = whole.aggregate
    return _origin(whole.value) if isinstance(whole, InsertValue) else value


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

    result = _BareTuple([*values.types, *columns], kind.instance_class)
    return result(kind, values, handles, types.intp), generate
