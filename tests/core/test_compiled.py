"""Machine code is cached until the sources that it was made of change."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gridtune.core.machine_code import _source_stamp
from gridtune.core.sources import import_closure, module_source
from gridtune.systems.dispatch.simulator import replay


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `stamped`: `outer` imports `inner.helper`, nothing imports `other`."""
    folder = tmp_path / "stamped"
    (folder / "inner").mkdir(parents=True)
    for name in ("__init__.py", "inner/__init__.py"):
        (folder / name).write_text("")
    (folder / "outer.py").write_text("from stamped.inner import (\n    helper,\n)\n")
    (folder / "inner" / "helper.py").write_text("x = 1\n")
    (folder / "other.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "stamped"]:
        del sys.modules[name]


def stamp(module: str) -> str:
    module_source.cache_clear()
    _source_stamp.cache_clear()
    return _source_stamp(module)


def test_a_stamp_tells_an_edit_of_a_module_and_of_what_it_imports(package: Path) -> None:
    stamps = {stamp("stamped.outer")}
    for name in ("outer.py", "inner/helper.py", "inner/__init__.py"):
        with (package / name).open("a") as source:
            source.write("# edited\n")
        stamps.add(stamp("stamped.outer"))
    assert len(stamps) == 4


@pytest.mark.parametrize(
    "line", ["from .inner import helper", "from .inner.helper import x", "from . import inner"]
)
def test_relative_imports_count_too(package: Path, line: str) -> None:
    (package / "outer.py").write_text(f"{line}\n")
    before = stamp("stamped.outer")
    name = "__init__.py" if line == "from . import inner" else "helper.py"
    (package / "inner" / name).write_text("x = 2\n")
    assert stamp("stamped.outer") != before


def test_an_edit_elsewhere_compiles_nothing_again(package: Path) -> None:
    before = stamp("stamped.outer")
    (package / "other.py").write_text("x = 2\n")
    assert stamp("stamped.outer") == before


KERNEL = """
from typing import NamedTuple

from gridtune.core.compiled import kernel


class {name}(NamedTuple):
    x: int


@kernel()
def double(pair):
    return 2 * pair.x


print(double({name}(21)), sum(double.stats.cache_hits.values()))
"""


def test_an_index_of_classes_that_are_gone_is_left_aside(package: Path) -> None:
    """Machine code is kept by the types of the arguments, and these may have been renamed since."""
    code = "import stamped.pairs"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(package.parent), "PYTHONPATH": str(package.parent)}
    results = []
    for name in ("Pair", "Pair", "Couple", "Couple"):
        (package / "pairs.py").write_text(KERNEL.format(name=name))
        command = [sys.executable, "-B", "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        results.append(done.stdout.split())
    assert results == [["42", "0"], ["42", "1"], ["42", "0"], ["42", "1"]]


BARE = """
import numpy as np
from typing import Any, NamedTuple

from gridtune.core.compiled import bare, kernel, record_at, section

STATE = np.dtype([("count", np.int64), ("share", np.float64)])


class Columns(NamedTuple):
    state: Any
    numbers: Any


class Run(NamedTuple):
    columns: Columns
    rows: Any
    none: None = None


def new_run():
    columns = Columns(np.zeros((), STATE), np.arange(3, dtype=np.int32))
    return Run(columns, np.zeros(2, STATE))


@kernel()
def fill(run, number, row):
    run = bare(run)
    run.columns.state.count += 2
    run.columns.numbers[number] = run.columns.state.count
    record_at(run.rows, row).share = 0.5


@kernel()
def element(array, start, length, place):
    return section(array, start, length)[place]
"""


@pytest.mark.parametrize("checks", ["0", "1"])
def test_bare_columns_are_their_arrays_and_know_their_bounds_where_these_are_checked(
    package: Path, checks: str
) -> None:
    (package / "columns.py").write_text(BARE)
    code = """
from stamped.columns import *

run = new_run()
fill(run, 2, 1)
print(run.columns.state["count"], run.columns.numbers.tolist(), run.rows["share"].tolist())
print([element(np.arange(5), 1, 3, place) for place in range(3)])
faults = [(fill, (run, 3, 0)), (fill, (run, -1, 0)), (fill, (run, 0, 2))]
sections = ((1, 3, 3), (1, 3, -1), (3, 3, 0), (-1, 2, 0), (3, -1, 0))
faults += [(element, (np.arange(5), *given)) for given in sections]
for function, given in faults if CHECKS else ():
    try:
        function(*given)
    except IndexError:
        print("beyond")
""".replace("CHECKS", checks)
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(package.parent / checks),
        "NUMBA_BOUNDSCHECK": checks,
        "PYTHONPATH": str(package.parent),
    }
    command = [sys.executable, "-B", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "2 [0, 1, 2] [0.0, 0.5]",
        "[1, 2, 3]",
        *["beyond"] * (8 if checks == "1" else 0),
    ]


PASSED = """
from typing import Any, NamedTuple

import numpy as np

from gridtune.core.compiled import bare, kernel


class Pair(NamedTuple):
    numbers: Any
    weights: Any


class Both(NamedTuple):
    first: Pair
    factor: int
    second: Pair


@kernel(apart=True)
def add(pair, factor):
    for place in range(2):
        pair.numbers[place] += factor * pair.weights[place]


@kernel(apart=True)
def add_first(both):
    add(both.first, both.factor)


@kernel(apart=True)
def play_regrouped(both, times):
    for _ in range(times):
        add(both.second, 100)
        add_first(both)


@kernel()
def play(both, times):
    both = bare(both)
    for turn in range(times):
        pair = both.first if turn % 2 else both.second
        add_first(both)
        add(pair, 10)
    play_regrouped(Both(both.second, 1000, both.first), times)
"""


def test_kernels_pass_on_tuples_of_columns_whole_in_part_and_regrouped(package: Path) -> None:
    (package / "passed.py").write_text(PASSED)
    code = """
from stamped.passed import *

both = Both(Pair(np.zeros(2), np.array([1.0, 2.0])), 1, Pair(np.zeros(2), np.array([3.0, 4.0])))
play(both, 3)
print(both.first.numbers.tolist(), both.second.numbers.tolist())
print(max(len(part.fndesc.llvm_func_name) for part in add.part.overloads.values()) < 200)
"""
    own = {"PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": str(package.parent / "cache")}
    environment = {**os.environ, **own}
    command = [sys.executable, "-B", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    # The first: 3 rounds by its factor 1, one by 10, 3 by 100; the second: two by 10, 3 by 1,000.
    assert done.stdout.splitlines() == ["[313.0, 626.0] [9060.0, 12080.0]", "True"]


SORTS = """
import numpy as np

from gridtune.core.compiled import kernel


@kernel()
def sort(numbers):
    numbers.sort()


@kernel()
def order(numbers):
    return np.argsort(numbers)
"""


#: What numba does by itself: the names of functions are numbered in each process.
NUMBERED = """
from itertools import count
from numba.core.bytecode import FunctionIdentity
FunctionIdentity._unique_ids = count(1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("numbered", [False, True])
def test_machine_code_of_two_processes_does_not_share_names(package: Path, numbered: bool) -> None:
    """Both sorts have a helper `partition` of the same types, used from 16 numbers on.

    With numba's own names the helpers collide, and the numbers come back unsorted.
    """
    (package / "sorts.py").write_text(SORTS)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(package.parent), "PYTHONPATH": str(package.parent)}
    numbers = "np.array([*range(7), 8, 7, *range(9, 16)])"
    names = NUMBERED if numbered else ""
    for call in ("order(numbers)", "sort(numbers)", "sort(numbers.copy()); print(*order(numbers))"):
        code = f"import numpy as np; from stamped.sorts import *\n{names}\nnumbers = {numbers}; {call}"
        command = [sys.executable, "-B", "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    expected = [str(i) for i in (*range(7), 8, 7, *range(9, 16))]
    assert (done.stdout.split() == expected) is not numbered


def test_a_systems_kernels_mind_the_core_and_no_other_system() -> None:
    modules = import_closure([replay.__name__], module_source, late=False)
    assert {"gridtune.core.machine_code", "gridtune.systems.dispatch.simulator.site"} <= modules.keys()
    assert not [name for name in modules if ".systems." in name and ".systems.dispatch" not in name]


RECURSIVE = """
from gridtune.core.compiled import kernel


@kernel()
def factorial(number):
    return 1 if number < 2 else number * factorial(number - 1)


@kernel()
def twice(number):
    return 2 * factorial(number)
"""


def test_a_kernel_may_call_itself(package: Path) -> None:
    """From the interpreter and from another kernel, whichever is compiled first."""
    (package / "recursive.py").write_text(RECURSIVE)
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    for call in ("factorial(5), twice(5)", "twice(5), factorial(5)"):
        code = f"from stamped.recursive import *; print(sorted([{call}]))"
        command = [sys.executable, "-B", "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "[120, 240]\n"


COUNTED = """
import sys
import llvmlite
import numba
import numpy
{before}
from gridtune.core.compiled import kernel
from gridtune.core.machine_code import KernelCache
from pathlib import Path
KernelCache.INSTALLATION = Path({installation!r})
from stamped.pairs import double, Pair
"""


@pytest.fixture
def hits(package: Path) -> Callable[..., int]:
    """A function that doubles a number in a new process, and returns how often machine code was found."""
    (package / "pairs.py").write_text(KERNEL.format(name="Pair").rpartition("print")[0])

    def count(
        before: str = "",
        call: str = "Pair(21)",
        *,
        path: Path = package.parent,
        cache: str = "cache",
        installation: str = "installation",
        **environment: str,
    ) -> int:
        code = COUNTED.format(before=before, installation=str(package.parent / installation))
        code += f"assert double({call}) == 42; print(sum(double.stats.cache_hits.values()))"
        variables = {"NUMBA_CACHE_DIR": str(package.parent / cache), "PYTHONPATH": str(path), **environment}
        command = [sys.executable, "-B", "-c", code]
        done = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert count() == 0
    return count


def test_the_same_sources_in_another_folder_find_the_machine_code(
    hits: Callable[..., int], package: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(package, other / "stamped")
    assert hits(path=other, HOME=str(other)) == 1


#: What makes machine code that nothing else may use.
CHANGES = (
    {"before": "numba.__version__ = '0.0.1'"},
    {"before": "llvmlite.__version__ = '0.0.1'"},
    {"before": "numpy.__version__ = '0.0.1'"},
    {"before": "sys.implementation.cache_tag = 'cpython-399'"},
    {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
    {"NUMBA_OPT": "2"},
    {"NUMBA_BOUNDSCHECK": "1"},
    {"call": "Pair(21.0)"},
)


@pytest.mark.slow
def test_machine_code_of_anything_else_is_not_used(hits: Callable[..., int]) -> None:
    for changed in CHANGES:
        assert [hits(**changed), hits(**changed)] == [0, 1], changed
    assert hits() == 1


@pytest.mark.slow
def test_damaged_machine_code_is_made_again(hits: Callable[..., int], package: Path) -> None:
    for suffix in (".nbi", ".nbc"):
        (file,) = (package.parent / "cache").glob(f"double-*{suffix}")
        content = bytearray(file.read_bytes())
        content[-9] ^= 1
        file.write_bytes(content)
        assert hits() == 0
        for one in (package.parent / "cache").iterdir():
            one.unlink()
        assert hits() == 0


def test_an_installation_has_machine_code_for_every_user(hits: Callable[..., int], package: Path) -> None:
    """Made there if asked for, from what the user has; a user with nothing finds it and needs no folder."""
    asks = "from gridtune.core.machine_code import KernelCache; KernelCache.installs = True"
    (package.parent / "installation").mkdir()
    assert hits(asks) == 1
    assert hits(cache="empty") == 1
    assert not list((package.parent / "empty").iterdir())
    assert hits(cache="empty", installation="nothing") == 0
