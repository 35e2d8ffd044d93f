"""Bare columns that know their length, in place of addresses where numba checks bounds.

An access beyond the ends raises `IndexError`, also one by a negative index, which a bare column does not
count from its end. Arrays would do the former, but each is seven values and a count of references wherever a
kernel passes it on: with them the kernel of EASY took 56 CPU seconds to compile, not 19.
"""

from __future__ import annotations

import operator
from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.core.imputils import lower_builtin
from numba.core.typing import signature
from numba.core.typing.builtins import normalize_1d_index
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic

__all__ = ["CheckedColumn", "checked", "checked_section"]


class CheckedColumn(types.Type):
    """The address of the elements of a column, and how many there are."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"CheckedColumn({dtype})")


@register_default(CheckedColumn)
class _Model(models.StructModel):
    def __init__(self, manager: Any, column: CheckedColumn) -> None:
        super().__init__(manager, column, [("data", types.CPointer(column.dtype)), ("size", types.intp)])


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        """Return the type of reading an element."""
        column, index = args
        if isinstance(column, CheckedColumn) and isinstance(index, types.Integer):
            return signature(column.dtype, column, normalize_1d_index(index))
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        """Return the type of writing an element."""
        column, index, _ = args
        if isinstance(column, CheckedColumn) and isinstance(index, types.Integer):
            return signature(types.none, column, normalize_1d_index(index), column.dtype)
        return None


def _place(context: Any, builder: Any, column: Any, value: Any, index: Any) -> Any:
    """Return the address of an element; raise where there is none."""
    fields = cgutils.create_struct_proxy(column)(context, builder, value=value)
    cgutils.do_boundscheck(context, builder, index, fields.size)
    return builder.gep(fields.data, [index], source_etype=context.get_data_type(column.dtype))


@lower_builtin(operator.getitem, CheckedColumn, types.Integer)
def _read(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    place = _place(context, builder, sig.args[0], *arguments)
    return context.unpack_value(builder, sig.args[0].dtype, place)


@lower_builtin(operator.setitem, CheckedColumn, types.Integer, types.Any)
def _write(context: Any, builder: Any, sig: Any, arguments: Any) -> None:
    place = _place(context, builder, sig.args[0], *arguments[:2])
    context.pack_value(builder, sig.args[0].dtype, arguments[2], place)


def _column(context: Any, builder: Any, column: Any, data: Any, size: Any) -> Any:
    fields = cgutils.create_struct_proxy(column)(context, builder)
    fields.data, fields.size = data, size
    return fields._getvalue()


@intrinsic
def checked(typing_context: Any, array: Any) -> Any:
    """Return the column of a contiguous array."""
    if not isinstance(array, types.Array) or array.layout != "C":
        return None

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        whole = cgutils.create_struct_proxy(array)(context, builder, value=arguments[0])
        return _column(context, builder, sig.return_type, whole.data, whole.nitems)

    return CheckedColumn(array.dtype)(array), generate


@intrinsic
def checked_section(typing_context: Any, array: Any, start: Any, length: Any) -> Any:
    """Return the column of `length` elements of a contiguous array from `start` on, which it must have."""
    if not isinstance(array, types.Array) or array.layout != "C":
        return None

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        whole = cgutils.create_struct_proxy(array)(context, builder, value=arguments[0])
        _, start, length = arguments
        with cgutils.if_unlikely(builder, builder.icmp_signed("<", length, length.type(0))):
            context.call_conv.return_user_exc(builder, IndexError, ("a section of negative length",))
        # An empty section may begin at the end.
        room = builder.add(whole.nitems, whole.nitems.type(1))
        cgutils.do_boundscheck(context, builder, start, room)
        cgutils.do_boundscheck(context, builder, builder.add(start, length), room)
        data = builder.gep(whole.data, [start], source_etype=context.get_data_type(array.dtype))
        return _column(context, builder, sig.return_type, data, length)

    return CheckedColumn(array.dtype)(array, types.intp, types.intp), generate
