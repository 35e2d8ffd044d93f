"""What a wheel of gridtune holds beside its modules."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.mark.integration
def test_a_wheel_holds_what_modules_read(repository: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from setuptools import setup; setup()", "--quiet"]
    built = [*command, "build", "--build-base", tmp_path / "build", "bdist_wheel", "--dist-dir", tmp_path]
    # The list of files belongs to this wheel, not to the repository's own installation.
    built = [*command, "egg_info", "--egg-base", tmp_path, *built[len(command) :]]
    done = subprocess.run(built, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    package = repository / "gridtune"
    wanted = [
        path.relative_to(repository).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    ]
    assert len(wanted) > 300
    assert sorted(set(wanted) - packed) == []
