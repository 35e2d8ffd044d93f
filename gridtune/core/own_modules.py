"""Which modules are a user's own: neither Python's, nor a distribution's, nor gridtune's."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from gridtune.core.sources import Source, spec_source
from gridtune.registry import is_ours

__all__ = ["beside", "is_installed", "locate", "own_source"]


def locate(module: str) -> ModuleSpec | None:
    """Return the spec of a module without importing it or the packages that it is in; None without one."""
    top, *inner = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    for number, _ in enumerate(inner, start=2):
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = ".".join(module.split(".")[:number])
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return spec


@cache
def _is_site(folder: Path) -> bool:
    """Return whether distributions are installed into a folder."""
    if folder.name in {"site-packages", "dist-packages"}:
        return True
    return next(folder.glob("*.dist-info"), None) is not None


@cache
def _python_folders() -> tuple[Path, ...]:
    return tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))


def is_installed(file: str | Path) -> bool:
    """Return whether a file is of Python or of a distribution that is installed."""
    folders = Path(file).resolve().parents
    return any(_is_site(folder) for folder in folders) or any(
        folder in folders for folder in _python_folders()
    )


def own_source(module: str) -> Source | None:
    """Return the source of a module on the path if it is the user's own, else None."""
    top = module.partition(".")[0]
    if is_ours(module) or top in sys.stdlib_module_names:
        return None
    spec = locate(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py") or is_installed(spec.origin):
        return None
    return spec_source(spec)


def beside(folder: Path, module: str) -> Source | None:
    """Return the source of a module in a folder, as a script there would import it; None without one."""
    top = module.partition(".")[0]
    if is_ours(module) or top in sys.stdlib_module_names:
        return None
    path = folder.joinpath(*module.split("."))
    for file, package in (
        (path / "__init__.py", module),
        (path.with_name(f"{path.name}.py"), module.rpartition(".")[0]),
    ):
        if file.is_file():
            text = importlib.util.decode_source(file.read_bytes())
            return Source(text, str(file), package)
    return None
