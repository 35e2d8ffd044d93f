"""Checksums of files and packages, and the versions of the software that a sweep ran with."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import gridtune
from gridtune.errors import SimulationError

__all__ = ["code_checksums", "file_checksums", "package_checksum", "package_files", "software_versions"]

#: Packages that results, or their report, can depend on.
_PACKAGES = (
    "numpy",
    "numba",
    "scipy",
    "ray",
    "optuna",
    "pymoo",
    "moocore",
    "scikit-learn",
    "torch",
    "pyarrow",
    "pandas",
    "matplotlib",
    "mlflow",
)


def file_checksums(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of each file's content by the file's name in a cell's identity.

    Raises
    ------
    SimulationError
        If a file cannot be read.
    """
    checksums = {}
    for name, file in files.items():
        try:
            checksums[name] = hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError as error:
            raise SimulationError(f"cannot be read: {error.strerror}", path=file) from error
    return checksums


def software_versions() -> dict[str, str]:
    """Return name to version: gridtune, Python, the platform, and the installed packages that matter."""
    found = {
        "gridtune": gridtune.__version__,
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
    }
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def code_checksums(system: object, plugins: Iterable[Path] = ()) -> dict[str, str]:
    """Return the SHA-256 of the code of gridtune, of the system's package and of plug-in files, by name."""
    found = {name: package_checksum(name) for name in ("gridtune", type(system).__module__.partition(".")[0])}
    for path in plugins:
        if path.is_file():
            found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return {name: checksum for name, checksum in found.items() if checksum}


def package_files(package: str) -> list[Path]:
    """Return the Python files of an importable package, or the one of a module; [] where there is none."""
    try:
        spec = importlib.util.find_spec(package)
    except ValueError:
        # A module that was made up, such as a script's `__main__`.
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return []
    file = Path(spec.origin)
    return sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else [file]


def package_checksum(package: str) -> str:
    """Return the checksum of the Python files of a package, their paths in it included; "" without any."""
    files = package_files(package)
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.as_posix().rpartition(f"/{package}/")[2].encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest() if files else ""
