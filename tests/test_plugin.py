"""A package of somebody else's, in an environment of its own, adds to gridtune what it announces."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.integration

#: A second package: a system that is named like a module of gridtune.
TABLES = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "gridtune-tables"
version = "0.1"

[project.entry-points."gridtune.systems"]
tables = "gridtune_tables:Tables"

[tool.setuptools]
py-modules = ["gridtune_tables"]
""",
    "gridtune_tables.py": """
from queue_demo.system import QueueDemo


class Tables(QueueDemo):
    "A system named like a module of gridtune."

    name = "tables"
""",
}
SPACE = """
name: small
system: {system}
fixed: {{customers: 300, warmup: 20}}
dimensions: {{queue: [shared, random], servers: [1, 4]}}
replicates: {{seeds: 3}}
objective: wait_mean
baseline: {{queue: random}}
"""
#: `gridtune sweep` of each space, on one cluster.
SWEEPS = """
import sys
from gridtune.cli.main import main
from gridtune.sweep.execution.cluster import ray_session

with ray_session(None, workers=2, cpus=1.0):
    for name in sys.argv[1:]:
        try:
            main(["sweep", f"{name}.yaml", "--workers", "2", "--no-tracking", "--json", "--out", name])
        except SystemExit as ended:
            if ended.code:
                raise
"""

Run = Callable[..., str]


def make_environment(folder: Path, repository: Path) -> Path:
    """Make an environment that borrows the packages of this one and gridtune from the checkout."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    asked = "import site; print(site.getsitepackages()[0])"
    home = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    borrowed = [f"import site; site.addsitedir({path!r})" for path in site.getsitepackages()]
    Path(home, "borrowed.pth").write_text("\n".join([str(repository), *borrowed, ""]))
    return python


def install(python: Path, package: Path) -> None:
    """Install a package without a network."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "--python", python, "install", *options, package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def plugin(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's sources: a copy, for building leaves files behind."""
    copy = tmp_path_factory.mktemp("sources") / "plugin"
    left_out = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".*")
    return shutil.copytree(repository / "examples" / "plugin", copy, ignore=left_out)


@pytest.fixture(scope="module")
def run(repository: Path, plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run the fresh environment's Python, in a folder of its own, and return what it prints."""
    place = tmp_path_factory.mktemp("environment")
    python = make_environment(place / "venv", repository)
    install(python, plugin)
    tables = place / "tables"
    tables.mkdir()
    for name, text in TABLES.items():
        (tables / name).write_text(text)
    install(python, tables)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "RAY_ADDRESS": ""}
    environment.pop("PYTHONPATH", None)

    def run_python(*arguments: object, folder: Path = place) -> str:
        command = [str(python), *map(str, arguments)]
        options: dict[str, Any] = {"cwd": folder, "env": environment, "timeout": 500}
        done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    yield run_python
    # Kernels of a package in a temporary folder are of no use to the next run.
    for cache in Path(os.environ.get("NUMBA_CACHE_DIR", place)).glob("queue_demo_*"):
        shutil.rmtree(cache)


@pytest.mark.slow
def test_it_passes_the_conformance_suites(run: Run, plugin: Path) -> None:
    printed = run("-m", "pytest", "-p", "no:cacheprovider", plugin / "tests", folder=plugin)
    assert "passed" in printed


def test_its_system_is_found_and_runs(run: Run) -> None:
    cell = json.loads(run("-m", "gridtune", "run", "queue_demo", "servers=4", "customers=200", "--json"))
    assert cell["parameters"]["servers"] == 4
    assert cell["metrics"]["wait_mean"] > 0


def test_its_order_metric_and_format_are_found(run: Run, repository: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl.gz"
    run("-m", "gridtune", "traces", "convert", repository / "traces" / "quickstart.swf.gz", log)
    options = ("--first", 300, "--order", "aged-area(hours=12)", "--json")
    schedule = json.loads(run("-m", "gridtune", "simulate", log, *options))
    assert schedule["settings"]["order"] == "aged-area(hours=12)"
    assert 0 <= schedule["metrics"]["long_wait_fraction"] <= 1
    assert "aged-area" not in run("-m", "gridtune", "simulate", log, "--first", 300, "--json")


@pytest.mark.slow
def test_its_cells_run_in_ray_workers_and_its_report_is_written(run: Run, tmp_path: Path) -> None:
    """Also of a system that has the name of one of gridtune's modules."""
    systems = ("queue_demo", "tables")
    for system in systems:
        (tmp_path / f"{system}.yaml").write_text(SPACE.format(system=system))
    printed = run("-c", SWEEPS, *systems, folder=tmp_path)
    studies = [json.loads(line) for line in printed.splitlines()]
    assert [(study["done"], study["report_error"]) for study in studies] == [(12, None)] * 2
    for study in studies:
        files = {Path(name).relative_to(study["directory"]).as_posix() for name in study["files"]}
        assert {"waits_and_theory.csv", "plots/waits_and_theory.png", "ranking-wait_mean.csv"} <= files
        table = (tmp_path / study["directory"] / "waits_and_theory.csv").read_text()
        assert len(table.splitlines()) == 5
