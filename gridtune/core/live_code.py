"""A checksum of code that no file holds by itself: of a notebook, a script, a prompt, a test.

It covers the source text of a function or class, and all that this refers to: other functions of the user's
own, the values of globals and of enclosing functions. So a notebook's cell that is run again unchanged has
the same checksum, and one whose `WEIGHT` has become 4 another. Code of plug-ins and packages counts by its
modules; what is Python's, gridtune's or another distribution's counts by its name.
"""

from __future__ import annotations
import __future__

import copyreg
import functools
import hashlib
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from gridtune.core.origins import Code, module_code, origin_of

__all__ = ["live_code"]

#: Flags of a compiled function that come from `from __future__ import …`.
_FUTURE_FLAGS = __future__.annotations.compiler_flag | __future__.generator_stop.compiler_flag
#: What wraps functions, and the attributes that hold what it wraps.
_WRAPPERS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (MethodType, ("__func__", "__self__")),
    (staticmethod, ("__func__",)),
    (classmethod, ("__func__",)),
    (property, ("fget", "fset", "fdel")),
    (functools.cached_property, ("func",)),
    (functools.partial, ("func", "args", "keywords")),
)
#: Members of a class that do not decide what it does, or that change from process to process.
_PASSED_OVER = {
    *("__module__", "__dict__", "__weakref__", "__doc__", "__qualname__", "__abstractmethods__"),
    *("_abc_impl", "__orig_bases__", "__parameters__", "__dataclass_fields__", "__match_args__"),
    *("__signature__", "__firstlineno__", "__static_attributes__", "__annotate__", "__annotations_cache__"),
}


def live_code(code: Any) -> Code:
    """Return the checksum of a function or class with all that it refers to, and the words in its texts."""
    reader = _Reader()
    text = json.dumps(reader.value(code), sort_keys=True)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return Code(checksum, frozenset(reader.words), frozenset(reader.modules))


class _Reader:
    """Turns values into lists and texts that are the same in every process."""

    def __init__(self) -> None:
        #: Place of each object that has been met, which also ends circles; the objects are kept alive.
        self._met: dict[int, tuple[int, Any]] = {}
        self.words: set[str] = set()
        self.modules: set[str] = set()

    def value(self, value: Any) -> Any:
        """Return a value of any kind."""
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            if isinstance(value, str):
                self.words.add(value)
            return [type(value).__name__, repr(value)]
        if id(value) in self._met:
            return ["met", self._met[id(value)][0]]
        self._met[id(value)] = (len(self._met), value)
        return self._new(value)

    def _new(self, value: Any) -> Any:
        for kinds, parts in _WRAPPERS:
            if isinstance(value, kinds):
                return [kinds.__name__, [self.value(getattr(value, part, None)) for part in parts]]
        # A function that numba has compiled.
        if isinstance(getattr(value, "py_func", None), FunctionType):
            return ["compiled", self.value(value.py_func)]
        if isinstance(value, ModuleType):
            return ["module", value.__name__]
        if isinstance(value, type | FunctionType | BuiltinFunctionType) or hasattr(value, "__qualname__"):
            return self._definition(value)
        return self._constant(value)

    def _constant(self, value: Any) -> Any:
        if type(value) in {list, tuple}:
            return [type(value).__name__, [self.value(item) for item in value]]
        if isinstance(value, Mapping) and type(value).__module__ in {"builtins", "collections"}:
            return ["dict", [[self.value(key), self.value(item)] for key, item in value.items()]]
        if isinstance(value, set | frozenset):
            return ["set", sorted(json.dumps(self.value(item)) for item in value)]
        if isinstance(value, np.ndarray) and value.dtype != object:
            content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            return ["array", str(value.dtype), list(value.shape), content]
        if isinstance(value, np.generic | np.dtype | PurePath):
            return [type(value).__name__, repr(value)]
        return self._object(value)

    def _definition(self, value: Any) -> Any:
        module = str(getattr(value, "__module__", None) or "")
        name = str(getattr(value, "__qualname__", type(value).__qualname__))
        origin = origin_of(module)
        if origin in {"plugin", "package"}:
            code = module_code(module)
            self.words |= code.words
            return [code.checksum, name]
        if origin == "session":
            self.modules.add(module)
        if origin == "session" and isinstance(value, FunctionType):
            return ["function", self._function(value)]
        if origin == "session" and isinstance(value, type):
            return ["class", self._class(value)]
        return ["name", module, name]

    def _function(self, function: FunctionType) -> Any:
        text = _source_text(function.__code__)
        code = _bytecode(function.__code__) if text is None else ["source", text]
        inner = list(_codes(function.__code__))
        self.words.update(
            constant for one in inner for constant in one.co_consts if isinstance(constant, str)
        )
        names = {name for one in inner for name in one.co_names}
        space = function.__globals__
        refers: list[Any] = []
        for name in sorted(names & space.keys()):
            refers.append([name, self.value(space[name])])
            refers += self._attributes(space[name], names)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        return [
            code,
            refers,
            [[name, self._cell(cell)] for name, cell in cells],
            self.value(function.__defaults__),
            self.value(function.__kwdefaults__),
        ]

    def _attributes(self, value: Any, names: set[str]) -> list[Any]:
        """Return what a function may use of a module of the user's own."""
        if not isinstance(value, ModuleType) or origin_of(value.__name__) in {"ours", "foreign"}:
            return []
        self.modules.add(value.__name__)
        used = sorted(names & vars(value).keys())
        return [[f"{value.__name__}.{name}", self.value(vars(value)[name])] for name in used]

    def _cell(self, cell: Any) -> Any:
        try:
            return self.value(cell.cell_contents)
        except ValueError:
            return "empty"

    def _class(self, defined: type) -> Any:
        bases = [self.value(base) for base in defined.__bases__]
        members = []
        for name, member in sorted(vars(defined).items()):
            if name == "__annotations__":
                members.append([name, [[key, repr(hint)] for key, hint in member.items()]])
            elif name == "__pydantic_fields__":
                members.append([name, [[key, self._field(field)] for key, field in member.items()]])
            elif name not in _PASSED_OVER and not name.startswith("__pydantic"):
                members.append([name, self.value(member)])
        return [defined.__qualname__, bases, members]

    def _field(self, field: Any) -> Any:
        values = [self.value(getattr(field, name)) for name in ("default", "default_factory", "alias")]
        return [repr(field.annotation), *values, repr(field.metadata)]

    def _object(self, value: Any) -> Any:
        """Return any other object by its class and by what it would be copied from."""
        kind = self.value(type(value))
        try:
            reduce: Any = copyreg.dispatch_table.get(type(value))
            reduced = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:
            # What cannot be copied, such as a lock, is known by its class alone.
            return ["object", kind]
        if isinstance(reduced, str):
            return ["object", kind, reduced]
        parts = [list(part) if isinstance(part, Iterator) else part for part in reduced]
        return ["object", kind, [self.value(part) for part in parts]]


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code and that of all functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _source_text(code: CodeType) -> str | None:
    """Return the source of a function if it can be found and is what has been compiled, else None.

    The file may have been edited since; then the text is not that of the code that runs.
    """
    try:
        lines, _ = inspect.findsource(code)
        text = textwrap.dedent(inspect.getsource(code))
    except (OSError, TypeError, IndexError, SyntaxError):
        return None
    return text if _is_text_of(code, "".join(lines)) else None


def _is_text_of(code: CodeType, text: str) -> bool:
    return code in _compiled(text, code.co_filename, code.co_flags & _FUTURE_FLAGS)


@functools.lru_cache(maxsize=64)
def _compiled(text: str, file: str, flags: int) -> frozenset[CodeType]:
    try:
        return frozenset(_codes(compile(text, file, "exec", flags=flags, dont_inherit=True)))
    except (SyntaxError, ValueError):
        return frozenset()


def _bytecode(code: CodeType) -> Any:
    constants = [_constant(one) for one in code.co_consts]
    names = [*code.co_names, *code.co_varnames, *code.co_freevars]
    return ["code", code.co_code.hex(), constants, names]


def _constant(constant: Any) -> Any:
    if isinstance(constant, CodeType):
        return _bytecode(constant)
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)
