"""Which software a sweep ran with: versions of packages, checksums of the code."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import gridtune
from gridtune.core.system import System

__all__ = ["code_checksums", "software_versions"]

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


def code_checksums(system: System, plugins: Iterable[Path] = ()) -> dict[str, str]:
    """Return what the code is to its SHA-256: gridtune, the system's package if another, plug-in files.

    The checksum of a package is that of its Python files, their paths within it included.
    """
    found = {"gridtune": _package_checksum("gridtune")}
    package = type(system).__module__.partition(".")[0]
    if package not in found and (checksum := _package_checksum(package)):
        found[package] = checksum
    for path in plugins:
        if path.is_file():
            found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _package_checksum(package: str) -> str:
    """Return the checksum of an importable package or module; "" where it has no file."""
    try:
        spec = importlib.util.find_spec(package)
    except ValueError:
        # A module that was made up, such as a script's `__main__`.
        spec = None
    if spec is None or spec.origin is None:
        return ""
    file = Path(spec.origin)
    if file.name != "__init__.py":
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    digest = hashlib.sha256()
    for path in sorted(file.parent.rglob("*.py")):
        digest.update(path.relative_to(file.parent).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
