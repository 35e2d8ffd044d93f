"""The sources of modules and their imports, on which a kernel's machine code and a cell's id depend."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import gridtune
from gridtune.errors import SimulationError

#: What the names of the packages begin with that plug-ins are in a process.
PLUGIN_PREFIX = "gridtune_plugin_"
#: An import statement: its indentation, or the colon before it; after `from` the module and the names; after
#: `import` the modules.
_IMPORT = re.compile(
    r"(?:(^[ \t]+|:[ \t]*)|^|;[ \t]*)"
    r"(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\n#;]*)|import\s+([\w., \t]+))",
    re.MULTILINE,
)
_BY_NAME = re.compile(r"""import_module\(\s*["']([\w.]+)["']""")
_COMMENT = re.compile(r"#[^\n]*")


@dataclass(frozen=True)
class Source:
    """The source of a module.

    Attributes
    ----------
    text
        The source.
    file
        Where it was read from.
    package
        What its relative imports are relative to; "" for a file that is in no package.
    """

    text: str
    file: str
    package: str

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def imports(self, *, late: bool) -> list[str]:
        """Return the modules that it may import, those of relative imports by their absolute names.

        Parameters
        ----------
        late
            With indented imports too: those within functions, of `try` blocks, or for type checkers.
        """
        text = self.text.replace("\\\n", " ")
        found: list[str] = _BY_NAME.findall(text) if late else []
        for indent, package, names, modules in _IMPORT.findall(text):
            if indent and not late:
                continue
            if not package:
                found += [part.split()[0] for part in modules.split(",") if part.split()]
                continue
            absolute = self._absolute(package)
            # What is imported from a package may be a module of its own.
            inner = re.findall(r"[A-Za-z_]\w*", _COMMENT.sub("", names))
            found += [absolute, *(f"{absolute}.{name}" if absolute else name for name in inner)]
        return [name for name in found if name]

    def _absolute(self, name: str) -> str:
        relative = name.lstrip(".")
        level = len(name) - len(relative)
        if level == 0:
            return name
        parts = self.package.split(".") if self.package else []
        base = parts[: len(parts) - (level - 1)]
        return ".".join([*base, relative] if relative else base)


def import_closure(
    modules: Iterable[str], source_of: Callable[[str], Source | None], *, late: bool, parents: bool = False
) -> dict[str, Source]:
    """Return the sources of modules and of all that they import, directly or through others, by name.

    Parameters
    ----------
    modules
        Where to begin.
    source_of
        Returns a module's source, or None for a module that is not followed.
    late
        As in `Source.imports`.
    parents
        Whether the packages that a module is in count too: importing it runs them first.
    """
    found: dict[str, Source] = {}
    seen: set[str] = set()
    pending = list(modules)
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if parents and "." in name:
            pending.append(name.rpartition(".")[0])
        source = source_of(name)
        if source is not None:
            found[name] = source
            pending += source.imports(late=late)
    return found


def digest_of(sources: Mapping[str, Source]) -> str:
    """Return one checksum of sources by name."""
    text = "\n".join(f"{name} {source.checksum}" for name, source in sorted(sources.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def find_source(module: str) -> Source | None:
    """Return the source of a module as it is now; None if there is no such module, or it is not Python.

    Neither the module nor the packages that it is in are imported.
    """
    loaded = getattr(sys.modules.get(module), "__spec__", None)
    top, *inner = [module] if loaded else module.split(".")
    try:
        spec = loaded or importlib.util.find_spec(top)
        for part in inner:
            if spec is None or spec.submodule_search_locations is None:
                return None
            spec = PathFinder.find_spec(f"{spec.name}.{part}", list(spec.submodule_search_locations))
        get_source = None if spec is None else getattr(spec.loader, "get_source", None)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py") or get_source is None:
            return None
        text = get_source(spec.name)
    except (ImportError, ValueError, AttributeError, SyntaxError):
        return None
    return None if text is None else Source(text, spec.origin, spec.parent or "")


#: As `find_source`, read once in a process.
module_source = cache(find_source)


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


def software_versions(packages: Iterable[str] = _PACKAGES) -> dict[str, str]:
    """Return name to version: gridtune, Python, the platform, and those of some packages that are there."""
    found = {
        "gridtune": gridtune.__version__,
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
    }
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def code_checksums(system: object, plugins: Iterable[Path] = ()) -> dict[str, str]:
    """Return the SHA-256 of the code of gridtune, of the system's package and of plug-in files, by name."""
    found = {name: package_checksum(name) for name in ("gridtune", type(system).__module__.partition(".")[0])}
    found |= file_checksums({path.name: path for path in plugins if path.is_file()})
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
