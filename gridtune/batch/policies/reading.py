"""Reading of a policy's source: it may do arithmetic with what a scheduler sees, and no more.

Nothing of the source is run. `gridtune policy score` reads a file before it replays its policy.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gridtune.core.sources import Source
from gridtune.core.user_code.plugins import read_plugin

#: Functions of numpy that are no ufuncs and read nothing but their arguments.
_NUMPY = frozenset(
    {"any", "all", "append", "arange", "argmax", "argmin", "argsort", "array", "asarray", "average"}
    | {"bincount", "clip", "column_stack", "concatenate", "cumsum", "diff", "digitize", "dot"}
    | {"flatnonzero", "flip", "full", "interp", "isin", "lexsort", "max", "mean", "median", "min"}
    | {"newaxis", "nonzero", "ones", "percentile", "quantile", "searchsorted", "sort", "stack", "std"}
    | {"sum", "unique", "where", "zeros"}
)
_MODELS = frozenset(
    {"ensemble", "linear_model", "naive_bayes", "neighbors", "neural_network", "pipeline", "svm", "tree"}
)
#: Modules that a policy may import, each with the names of it that may be used; None for all.
_MODULES: Mapping[str, frozenset[str] | None] = {
    "__future__": None,
    "math": None,
    "typing": frozenset({"Any", "Final"}),
    "gridtune": frozenset({"queue_order", "JobView", "Policy"}),
    "collections": frozenset({"deque", "defaultdict", "Counter"}),
    "heapq": None,
    "bisect": None,
    "itertools": None,
    **{f"sklearn.{name}": None for name in _MODELS},
    "numba": frozenset({"njit", "jit", "float64", "int64"}),
    "numpy": frozenset(
        name
        for name, value in vars(np).items()
        if isinstance(value, np.ufunc | float)
        or (isinstance(value, type) and issubclass(value, np.number))
        or name in _NUMPY
    ),
}
#: Built-in functions that reach beyond a policy's arguments.
_BUILTINS = frozenset(
    {"open", "eval", "exec", "compile", "input", "print", "breakpoint", "getattr", "setattr", "delattr"}
    | {"globals", "locals", "vars", "dir", "id", "hash", "memoryview", "object", "type", "super", "help"}
    | {"exit", "quit", "SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException"}
)
#: Attributes that lead to frames, memory or files, or read other attributes by a text.
_ATTRIBUTES = frozenset(
    {"gi_frame", "gi_code", "cr_frame", "ag_frame", "tb_frame", "tb_next", "f_back", "f_locals", "f_globals"}
    | {"f_builtins", "format", "format_map", "ctypes", "data", "base", "tofile", "dump", "setflags"}
)
#: Values that can be changed: in a class, they would last from replay to replay.
_MADE = (ast.List, ast.Dict, ast.Set, ast.Call, ast.ListComp, ast.DictComp, ast.SetComp)
#: A table of more numbers than this may hold answers to known logs.
_MOST_NUMBERS = 1000
#: Fields of logs and schedules that no scheduler knows.
_FUTURE = frozenset({"run_time", "runtime", "end_time", "start_time", "actual_run_time"})
#: Methods of containers that change them.
_CHANGING = frozenset(
    {"append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "add", "fill", "put"}
    | {"sort", "reverse", "at"}
)


def source_faults(path: Path) -> list[str]:
    """Return what a policy's source does beyond arithmetic with the fields of a job; nothing of it is run.

    Raises
    ------
    PolicyError
        If the file cannot be read.
    """
    plugin = read_plugin(path)
    modules = {name.partition(".")[0] for name in plugin.modules}
    return [fault for source in plugin.modules.values() for fault in _SourceReader(source, modules).faults()]


class _SourceReader(ast.NodeVisitor):
    """Reads one source for `source_faults`."""

    def __init__(self, source: Source, own: set[str]) -> None:
        self._source, self._own = source, own
        self._aliases: dict[str, str] = {}
        self._found: list[tuple[int, str]] = []
        self._local: list[set[str]] = []
        #: Names of `gridtune.Policy` and classes that derive from it, and of the instance in a method.
        self._policies: set[str] = set()
        self._self: set[str] = set()
        self._decides = False

    def faults(self) -> list[str]:
        """Return the faults with their lines."""
        try:
            tree = ast.parse(self._source.text)
        except SyntaxError as fault:
            return [f"{self._source.file}:{fault.lineno}: {fault.msg}"]
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._aliases[alias.asname or alias.name.partition(".")[0]] = alias.name
            elif isinstance(node, ast.ImportFrom) and node.module == "gridtune":
                self._policies |= {one.asname or one.name for one in node.names if one.name == "Policy"}
            elif isinstance(node, ast.ClassDef):
                self._decides = True
            elif isinstance(node, ast.AsyncFunctionDef):
                self._report(node, "is a coroutine, whose frame leads to the simulator's")
        self._policies |= {f"{alias}.Policy" for alias, name in self._aliases.items() if name == "gridtune"}
        numbers = [one for one in ast.walk(tree) if isinstance(getattr(one, "value", None), float | int)]
        if len(numbers) > _MOST_NUMBERS:
            self._report(tree, f"has more than {_MOST_NUMBERS:,} numbers, which may be answers to known logs")
        self.visit(tree)
        return [f"{self._source.file}:{line}: {text}" for line, text in sorted(set(self._found))]

    def _report(self, node: ast.AST, text: str) -> None:
        self._found.append((getattr(node, "lineno", 0), text))

    def _check_name(self, node: ast.AST, module: str, name: str) -> None:
        allowed = _MODULES.get(module, frozenset())
        if allowed is not None and name not in allowed:
            self._report(node, f"uses {module}.{name}")

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name not in _MODULES and alias.name.partition(".")[0] not in self._own:
                self._report(node, f"imports {alias.name}")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or module.partition(".")[0] in self._own:
            return
        if module not in _MODULES:
            self._report(node, f"imports {module}")
            return
        for alias in node.names:
            self._check_name(node, module, alias.name)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        module = self._aliases.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if module in _MODULES:
            self._check_name(node, str(module), node.attr)
        else:
            self.visit(node.value)
        own = isinstance(node.value, ast.Name) and node.value.id in self._self
        if node.attr.startswith("__" if own else "_") or node.attr in _ATTRIBUTES:
            self._report(node, f"uses the attribute {node.attr}")
        if node.attr in _FUTURE and not self._decides:  # tables of a policy refuse it
            self._report(node, f"reads {node.attr}, which no scheduler knows")
        if not isinstance(node.ctx, ast.Load) and not own:
            self._report(node, f"changes the attribute {node.attr}")

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            return
        if self._aliases.get(node.id) in _MODULES:
            self._report(node, f"passes the module {node.id} around")
        if node.id in _BUILTINS or (node.id.startswith("__") and node.id != "__name__"):
            self._report(node, f"uses {node.id}")

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if node.keywords or not node.bases or not self._policies.issuperset(map(ast.unparse, node.bases)):
            self._report(node, f"defines the class {node.name}, which does not derive from gridtune.Policy")
            return
        self._policies.add(node.name)
        for line in [*node.decorator_list, *node.body]:
            self._self = set()
            if isinstance(line, ast.FunctionDef):
                self._self = {one.arg for one in line.args.args[:1]}
                if line.name.startswith("__") and line.name != "__init__":
                    self._report(line, f"defines {line.name}")
            elif isinstance(line, ast.Assign | ast.AnnAssign) and any(
                isinstance(one, _MADE) for one in ast.walk(line)
            ):
                self._report(
                    line, f"keeps {ast.unparse(line)} in the class {node.name}, from replay to replay"
                )
            self.visit(line)
        self._self = set()

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        if node.kwd_attrs:
            self._report(node, f"matches the attributes {', '.join(node.kwd_attrs)}")
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self._report(node, f"changes the global {', '.join(node.names)}")

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self._report(node, f"keeps {', '.join(node.names)} between calls")

    def visit_Yield(self, node: ast.Yield) -> None:
        self._report(node, "is a generator, whose frame leads to the simulator's")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        # A name that is stored once, with something new: others may stand for what is not the function's own.
        stored = [
            one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        ]
        made = {
            one.targets[0].id
            for one in ast.walk(node)
            if isinstance(one, ast.Assign)
            and isinstance(one.targets[0], ast.Name)
            and isinstance(one.value, ast.List | ast.ListComp | ast.Call)
        }
        own = {name for name in made if stored.count(name) == 1}
        # Copies that a policy gets may be changed, and what it keeps helps no first replay.
        own |= {*stored, *(one.arg for one in node.args.args)} if self._decides else set()
        self._local.append(own)
        self.generic_visit(node)
        self._local.pop()

    def _is_own(self, node: ast.AST) -> bool:
        """Return True for a variable that holds what its function has made, and for parts of a policy."""
        while self._self and isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            node = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Name) and node.id in self._self:
            return True
        return isinstance(node, ast.Name) and bool(self._local) and node.id in self._local[-1]

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load) and not self._is_own(node.value):
            self._report(node, f"changes {ast.unparse(node)}, which is not its own")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        method = node.func if isinstance(node.func, ast.Attribute) else None
        if method is not None and method.attr in _CHANGING and not self._is_own(method.value):
            self._report(node, f"calls {ast.unparse(method)}, which changes what it is called on")
        for name in {keyword.arg for keyword in node.keywords} & {"out", "memory"}:
            self._report(node, f"writes by {name}=")
        self.generic_visit(node)
