"""The source distribution and the wheel made of it: what they hold, and that they work by themselves."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration


def call(*command: object, folder: Path, **environment: str) -> str:
    """Run a command without the variables that lead back to the working copy; return what it prints."""
    leading_back = ("PYTHONPATH", "GRIDTUNE_TRACE_DIR", "GRIDTUNE_HOME")
    inherited = {name: value for name, value in os.environ.items() if name not in leading_back}
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def setup(sources: Path, *commands: str) -> None:
    call(sys.executable, "-c", "from setuptools import setup; setup()", "--quiet", *commands, folder=sources)


@pytest.fixture(scope="module")
def sources(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    place = tmp_path_factory.mktemp("package")
    copy = place / "copy"
    copy.mkdir()
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=repository,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (repository / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(repository / name, copy / name)
    setup(copy, "sdist", "--dist-dir", str(place))
    (archive,) = place.glob("*.tar.gz")
    (place / "sdist").mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", place / "sdist"], check=True)
    (unpacked,) = (place / "sdist").iterdir()
    return unpacked


@pytest.fixture(scope="module")
def wheel(sources: Path) -> Path:
    """The wheel that is built from the source distribution, with nothing else at hand."""
    setup(sources, "bdist_wheel", "--dist-dir", str(sources.parent))
    (built,) = sources.parent.glob("*.whl")
    return built


def test_a_wheel_holds_what_modules_read(repository: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    package = repository / "gridtune"
    wanted = [
        path.relative_to(repository).as_posix()
        for path in package.rglob("*")
        # Machine code is made for an installation.
        if path.is_file() and not {"__pycache__", "kernels"} & {*path.parts} and path.suffix != ".pyc"
    ]
    assert len(wanted) > 300
    assert sorted(set(wanted) - packed) == []


def test_a_wheel_holds_the_logs_and_search_spaces(repository: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shared = {name.partition("share/gridtune/")[2] for name in archive.namelist()}
    for folder, pattern in (("traces", "*.swf.gz"), ("search_spaces", "*.yaml")):
        wanted = {f"{folder}/{path.name}" for path in (repository / folder).glob(pattern)}
        assert wanted
        assert wanted <= shared


def installed(wheel: Path, folder: Path) -> Path:
    """Return the Python of a new environment with the wheel, which borrows the packages of this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    home = call(python, "-c", "import site; print(site.getsitepackages()[0])", folder=folder).strip()
    lent = [path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}]
    Path(home, "borrowed.pth").write_text("\n".join([*lent, ""]))
    options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--ignore-installed"]
    call(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, folder=folder)
    place = call(python, "-c", "import gridtune; print(gridtune.__file__)", folder=folder)
    assert place.startswith(home)
    return python


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="kernels are made for x86-64")
def test_a_wheel_with_kernels_compiles_nothing(repository: Path, wheel: Path, tmp_path: Path) -> None:
    cells = tmp_path / "cells.yaml"
    cells.write_text("files: {}\ncells: {batch: [[1, {trace: quickstart, first: 100, order: fcfs}]]}\n")
    script = repository / "scripts" / "kernel_wheel"
    command = [sys.executable, script, wheel, "--out", tmp_path, "--cells", cells]
    assert "files of kernels" in call(*command, folder=tmp_path)
    (full,) = tmp_path.glob("*.whl")
    assert full.name.split("-")[2] == f"cp{sys.version_info.major}{sys.version_info.minor}"
    printed = []
    for number, one in enumerate((wheel, full)):
        folder = tmp_path / str(number)
        folder.mkdir()
        python = installed(one, folder)
        simulate = ("simulate", "quickstart", "--first", "100", "--order", "fcfs", "--json")
        cache = folder / "cache"
        text = call(python, "-m", "gridtune", *simulate, folder=folder, NUMBA_CACHE_DIR=str(cache))
        # Kernels that were compiled are kept there.
        assert [*cache.iterdir()] == [] if number else [*cache.iterdir()]
        printed.append({name: value for name, value in json.loads(text).items() if name != "seconds"})
    assert printed[0] == printed[1]


@pytest.mark.slow
def test_an_installation_works_by_itself(wheel: Path, tmp_path: Path) -> None:
    """It borrows the packages of this environment, and nothing of the working copy."""
    python = installed(wheel, tmp_path)
    gridtune = python.with_name("gridtune")
    printed = json.loads(
        call(gridtune, "simulate", "quickstart", "--first", "100", "--json", folder=tmp_path)
    )
    assert printed["jobs"] == 100
    assert "search_spaces/quickstart.yaml" in call(gridtune, "list", "spaces", folder=tmp_path)
    space = "search_spaces/quickstart.yaml"
    assert "120 cells" in call(gridtune, "sweep", space, "--dry-run", folder=tmp_path)
    assert call(gridtune, "systems", folder=tmp_path).count("shutdown") >= 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "venv"] == []
