"""What importing costs, and that modules do not lean on one another's import order."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extras import without_extras

HEAVY = ("ray", "torch", "mlflow", "numba", "scipy", "pandas", "matplotlib", "pyarrow", "optuna", "pydantic")
LONGEST_MODULE = 400


def modules_loaded_by(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after running some code."""
    report = "\nimport sys, json\nprint(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
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


def all_modules(repository: Path) -> list[str]:
    files = sorted((repository / "gridtune").rglob("*.py"))
    names = (".".join(file.relative_to(repository).with_suffix("").parts) for file in files)
    return [name for name in (each.removesuffix(".__init__") for each in names) if without_extras(name)]


def test_each_module_can_be_the_first_to_be_imported(repository: Path) -> None:
    """A circular import shows only in some orders: so each module is the first once.

    The modules of gridtune are forgotten between imports and everything else stays loaded, which makes one
    interpreter as good as many.
    """
    code = """
import importlib, sys, traceback
failed = []
for name in sys.argv[1:]:
    for loaded in [m for m in sys.modules if m.split(".")[0] == "gridtune"]:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except Exception:
        failed.append(f"{name}:\\n{traceback.format_exc()}")
print("\\n".join(failed))
"""
    command = [sys.executable, "-c", code, *all_modules(repository)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not done.stdout.strip(), done.stdout


def test_modules_stay_readable(repository: Path) -> None:
    lengths = {
        str(file.relative_to(repository)): len(file.read_text(encoding="utf-8").splitlines())
        for folder in ("gridtune", "scripts", "benchmarks")
        for file in (repository / folder).rglob("*.py")
    }
    too_long = {name: length for name, length in lengths.items() if length > LONGEST_MODULE}
    assert not too_long, f"longer than {LONGEST_MODULE} lines: {too_long}"
