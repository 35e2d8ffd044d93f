"""Many simulators side by side: a NamedTuple of arrays whose first dimension is the simulator."""

from __future__ import annotations

import operator
from typing import Any, TypeVar

import numpy as np
from numba import types
from numba.extending import intrinsic

T = TypeVar("T", bound=tuple[Any, ...])


def stacked(state: T, count: int) -> T:
    """Return a NamedTuple with `count` copies of each of its arrays, shape (count, …)."""
    return type(state)(*(np.repeat(column[None], count, 0) for column in state))


@intrinsic
def one_of(typing_context: Any, stack: Any, index: Any) -> Any:
    """Return one of the stacked simulators: the NamedTuple of views of its arrays."""
    if not isinstance(stack, types.BaseNamedTuple):
        return None
    getters = [
        typing_context.resolve_function_type(operator.getitem, (column, index), {}) for column in stack.types
    ]
    views = [getter.return_type for getter in getters]
    alike = all(view == views[0] for view in views)
    kind = types.NamedUniTuple(views[0], len(views), stack.instance_class) if alike else None
    kind = kind or types.NamedTuple(views, stack.instance_class)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        parts = []
        for place, getter in enumerate(getters):
            take = context.get_function(operator.getitem, getter)
            parts.append(take(builder, (builder.extract_value(arguments[0], place), arguments[1])))
        return context.make_tuple(builder, kind, parts)

    return kind(stack, index), generate
