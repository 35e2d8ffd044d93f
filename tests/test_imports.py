"""What importing costs, and that modules do not lean on one another's import order."""

from __future__ import annotations

import ast
import graphlib
import json
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

HEAVY = ("ray", "torch", "mlflow", "numba", "scipy", "pandas", "matplotlib", "pyarrow", "optuna", "pydantic")
LONGEST_MODULE = 700


def modules_loaded_by(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after running some code."""
    report = "\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import gridtune",
        "from gridtune.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass",
        "from gridtune.cli.main import main\ntry: main(['sweep', '--help'])\nexcept SystemExit: pass",
    ],
    ids=["import gridtune", "gridtune --help", "gridtune sweep --help"],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code: str) -> None:
    assert not modules_loaded_by(code) & set(HEAVY)


def test_simulating_loads_neither_ray_nor_mlflow() -> None:
    loaded = modules_loaded_by(
        "import gridtune; gridtune.simulate; gridtune.read_workload; gridtune.evaluate"
    )
    assert not loaded & {"ray", "torch", "mlflow", "optuna", "matplotlib"}


def test_a_replay_by_kept_machine_code_loads_no_compiler() -> None:
    command = "from gridtune.cli.main import main"
    play = f"{command}\ntry: main(['simulate', 'quickstart'])\nexcept SystemExit: pass"
    modules_loaded_by(play)
    assert not modules_loaded_by(play) & {"numba.np.arraymath", "scipy.linalg", "pandas"}


def test_commands_for_slurm_load_no_figures_and_no_statistics() -> None:
    loaded = modules_loaded_by("import gridtune.cli.slurm")
    assert not loaded & {"ray", "torch", "mlflow", "optuna", "matplotlib", "scipy.stats", "pandas"}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports within functions count too: a circle that is put off until a call is still a circle."""
    graph = grimp.build_graph("gridtune")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as circle:
        pytest.fail(f"a circle: {' -> '.join(circle.args[1])}")


def test_only_systems_name_systems(repository: Path) -> None:
    """What comes in by entry points must not be expected by name anywhere else."""
    names = re.compile(r"gridtune[./]systems[./]\w+")
    places = [
        f"{file.relative_to(repository)}:{number}"
        for file in sorted((repository / "gridtune").rglob("*.py"))
        if "systems" not in file.relative_to(repository).parts
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if names.search(line)
    ]
    assert not places


@pytest.mark.parametrize(
    "folder",
    ["workload", "statistics", "core", "training", "sweep", "report", "tracking", "study", "testing", "cli"],
)
def test_nothing_below_the_systems_names_one(folder: str, repository: Path) -> None:
    """Not as a default value either: a stranger's system is as good as one that comes along."""
    names = {file.parent.name for file in (repository / "gridtune" / "systems").glob("*/system.py")}
    assert len(names) >= 5
    places = [
        f"{file.relative_to(repository)}:{node.lineno}"
        for file in sorted((repository / "gridtune" / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and str(node.value).partition("/")[0] in names
        # One of the populations of a generator is called so, and a program that gridtune advises on.
        and file.name != "lublin.py"
        and not (folder in ("cli", "study") and node.value == "slurm")
    ]
    assert not places


def test_modules_stay_readable(repository: Path) -> None:
    lengths = {
        str(file.relative_to(repository)): len(file.read_text(encoding="utf-8").splitlines())
        for folder in ("gridtune", "scripts", "benchmarks")
        for file in (repository / folder).rglob("*.py")
    }
    too_long = {name: length for name, length in lengths.items() if length > LONGEST_MODULE}
    assert not too_long, f"longer than {LONGEST_MODULE} lines: {too_long}"
