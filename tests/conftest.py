"""What every test may ask for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gridtune.core.user_code.plugins import files_read_in_calls
from gridtune.registry import all_registries
from gridtune.sweep.execution.cluster import ray_session
from gridtune.tracking.store import connect, is_store
from tests.extras import AGENTS, can_be_imported

# Examples are the same in each run, so that a change is judged by what it changes; the profile `fresh` draws
# others. A deadline by the clock fails on a busy machine, and where a first call imports or compiles.
settings.register_profile("fresh", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("fresh"), derandomize=True)
# For `scripts/test` without a name: most faults fail one of the first examples. `--all` and tests of a named
# folder draw all of them.
settings.register_profile("few", settings.get_profile("same"), max_examples=25)
settings.load_profile("same")


def examples(count: int) -> settings:
    """Return settings for the number of examples that tell a fault; a quarter where the profile is `few`."""
    few = settings.get_current_profile_name() == "few"
    return settings(max_examples=max(count // 4, min(count, 10)) if few else count)


ROOT = Path(__file__).resolve().parent.parent
#: Files that take twenty seconds or more with kernels in the cache, the longest first.
LONG = (
    "test_tutorials.py",
    "tune/test_training.py",
    "testing/test_conformance.py",
    "systems/slurm/test_system.py",
    "slurm/test_agreement.py",
    "study/test_advising.py",
    "test_golden_cells.py",
    "batch/simulator/test_predictors.py",
    "tracking/test_tracker.py",
    "study/test_leaks.py",
    "batch/simulator/test_twin.py",
    "core/test_compiled.py",
    "test_notebooks.py",
    "cli/test_choose.py",
    "batch/simulator/test_scores.py",
    "workload/test_real_logs.py",
    "test_scripts.py",
    "systems/shutdown/test_system.py",
    "test_plugin.py",
    "integration/test_kill.py",
    "tracking/test_pages.py",
    "integration/test_submit.py",
    "testing/test_extending.py",
    "cli/test_score.py",
    "batch/simulator/test_rollout.py",
    "batch/simulator/test_decided.py",
    "slurm/test_replay.py",
    "sweep/test_user_code.py",
    "sweep/test_ray.py",
    "slurm/test_runs.py",
    "tracking/test_server.py",
    "sweep/test_search_on_ray.py",
    "training/test_rllib_environments.py",
    "training/test_modules.py",
    "training/test_rllib.py",
    "tune/test_trainable.py",
)


def pytest_report_header() -> str | None:
    """Say what is left out."""
    return None if AGENTS else "agents: the extra is not installed, so the tests that need it are left out"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out test modules that need an extra that is not installed."""
    is_test = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    return True if is_test and not can_be_imported(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep bytecode of test modules even where Python is told to write none: making it takes ten seconds."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = before


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run long files first, so that no process is left with one when the others have done."""
    places = {ROOT / "tests" / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path, len(LONG)))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def trace_dir() -> Path:
    """The folder of real traces; tests that need it are skipped where it is missing."""
    folder = Path(os.environ.get("GRIDTUNE_TRACE_DIR", ROOT.parent / "shared" / "traces"))
    if not folder.is_dir():
        pytest.skip("no folder of real traces: set GRIDTUNE_TRACE_DIR")
    return folder


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """The folder of reference schedules; beside the traces."""
    folder = Path(os.environ.get("GRIDTUNE_GOLDEN_DIR", ROOT.parent / "shared" / "goldens"))
    if not folder.is_dir():
        pytest.skip("no folder of reference schedules: set GRIDTUNE_GOLDEN_DIR")
    return folder


@pytest.fixture
def registrations() -> Iterator[None]:
    """Remove after the test the systems, metrics, formats and so on that it has registered."""
    before = {registry.kind: dict(registry.imported) for registry in all_registries()}
    yield
    for registry in all_registries():
        there = before.get(registry.kind, {})
        names = [name for name, item in registry.imported.items() if there.get(name) is not item]
        definitions = [registry.definition(name) for name in names]
        for package in {found.module.partition(".")[0] for found in definitions if not found.ours}:
            # Modules of tests that were imported before have registered theirs for good.
            for name in registry.forget(package).keys() & there.keys():
                registry.put(name, there[name])


@pytest.fixture(autouse=True)
def files_of_users() -> Iterator[None]:
    """Forget the files that code of a test has read: a process notes them for all of its later results."""
    yield
    if files_read_in_calls.cache_info().currsize:
        files_read_in_calls().clear()


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """One local Ray of two processors for all tests of this process; sweeps join it and leave it running."""
    with ray_session(None, workers=2, cpus=1):
        yield


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A fresh tracking database: making one takes seconds, copying it does not."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    connect(f"sqlite:///{path}")
    assert is_store(path)
    return path.read_bytes()


@pytest.fixture
def store_uri(empty_store: bytes, tmp_path: Path) -> str:
    """The URI of an empty tracking store of the test's own."""
    (tmp_path / "mlflow.db").write_bytes(empty_store)
    return f"sqlite:///{tmp_path}/mlflow.db"
