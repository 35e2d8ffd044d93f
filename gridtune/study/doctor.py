"""Checks of an installation and its surroundings, one for each thing that a sweep needs."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal
from urllib.error import URLError
from urllib.request import urlopen

from gridtune.errors import GridtuneError, without_secrets

__all__ = ["Finding", "examine"]

Level = Literal["ok", "warn", "fail"]

#: Bytes of memory and of disk below which a sweep is tight, and of disk below which none is started.
_MEMORY, _DISK, _LEAST_DISK = 3 * 2**30, 2 * 2**30, 50 * 2**20
#: Where Ray keeps its shared objects on Linux; a container often has little there.
_SHARED = Path("/dev/shm")
_SHARED_LEAST = 512 * 2**20
#: The port that `gridtune ui` takes by default.
_UI_PORT = 5000
_ANSWER_SECONDS = 5.0


@dataclass(frozen=True)
class Finding:
    """The finding of one check.

    Attributes
    ----------
    check
        The thing that was checked.
    level
        "ok"; "warn": it works, but something is missing or tight; "fail": something will not work.
    message
        The state it is in.
    hint
        Advice; "" if there is none.
    """

    check: str
    level: Level
    message: str
    hint: str = ""


def examine(
    *, full: bool = False, tracking_uri: str | None = None, results: Path | None = None
) -> Iterator[Finding]:
    """Yield the findings of every check, one after the other.

    Parameters
    ----------
    full
        Also start Ray and run something on it.
    tracking_uri
        The tracking store; by default the one that sweeps here use.
    results
        Where sweeps write; by default `results` in the working directory.
    """
    folder = results or Path("results")
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("Python", _python),
        ("packages", _packages),
        ("plug-ins", _plug_ins),
        ("machine", _machine),
        ("disk", lambda: _disk(folder)),
        ("kernels", _kernels),
        ("Ray", lambda: _ray(full)),
        ("tracking", lambda: _tracking(tracking_uri)),
        ("ports", _ports),
        ("logs", _logs),
    ]
    for name, check in checks:
        try:
            yield from check()
        except Exception as fault:
            hint = fault.hint or "" if isinstance(fault, GridtuneError) else ""
            message = (
                fault.message if isinstance(fault, GridtuneError) else f"{type(fault).__name__}: {fault}"
            )
            yield Finding(name, "fail", message, hint)


def _python() -> Iterator[Finding]:
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415

    version = platform.python_version()
    try:
        wanted = metadata.metadata("gridtune")["Requires-Python"] or ""
    except metadata.PackageNotFoundError:
        hint = "pip install it: its systems and formats are found by its entry points"
        yield Finding("Python", "fail", f"Python {version}; gridtune is not installed", hint)
        return
    if SpecifierSet(wanted).contains(version, prereleases=True):
        yield Finding("Python", "ok", f"Python {version}, gridtune {metadata.version('gridtune')}")
    else:
        yield Finding("Python", "fail", f"Python {version}", f"gridtune needs {wanted}")


def _packages() -> Iterator[Finding]:
    """Compare what is installed with what gridtune says it needs, its extras apart."""
    from packaging.requirements import Requirement  # noqa: PLC0415

    requirements = [Requirement(text) for text in metadata.requires("gridtune") or ()]
    plain = [one for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})]
    faults = [fault for one in plain if (fault := _missing(one)) is not None]
    for name, found, wanted in faults:
        yield Finding(
            "packages", "fail", f"{name} {found}, but {wanted} is supported", f"pip install '{name}{wanted}'"
        )
    if not faults:
        versions = ", ".join(
            f"{name} {metadata.version(name)}" for name in ("ray", "mlflow", "numba", "numpy")
        )
        yield Finding("packages", "ok", f"{len(plain)} packages in the supported ranges: {versions}")
    extra = [
        one for one in requirements if one.marker is not None and one.marker.evaluate({"extra": "agents"})
    ]
    missing = [fault[0] for one in extra if one not in plain and (fault := _missing(one)) is not None]
    if missing:
        text = f"the extra `agents` is not complete ({', '.join(missing)}): only training agents needs it"
        yield Finding("packages", "ok", text, "pip install 'gridtune[agents]'")


def _missing(requirement: object) -> tuple[str, str, str] | None:
    """Return a requirement's name, the version found and those supported; None if it is fulfilled."""
    name, wanted = requirement.name, requirement.specifier  # type: ignore[attr-defined]
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return name, "is not installed", str(wanted) or "any version"
    return None if wanted.contains(version, prereleases=True) else (name, version, str(wanted))


def _plug_ins() -> Iterator[Finding]:
    """Import everything that installed packages announce."""
    groups = sorted(group for group in metadata.entry_points().groups if group.startswith("gridtune."))
    points = [point for group in groups for point in metadata.entry_points(group=group)]
    if not points:
        hint = "install gridtune again: pip install -e . in its folder"
        yield Finding("plug-ins", "fail", "no system, order or format is announced", hint)
        return
    good = optional = 0
    for point in points:
        try:
            point.load()
            good += 1
        except ModuleNotFoundError as fault:
            if point.dist is not None and point.dist.name == "gridtune":
                # Of an extra, on which there is a finding of its own.
                optional += 1
                continue
            text = f"{point.group} {point.name} needs {fault.name}, which is not installed"
            yield Finding(
                "plug-ins", "warn", text, "pip install 'gridtune[agents]' if it is torch or gymnasium"
            )
        except Exception as fault:
            package = point.dist.name if point.dist else "its package"
            text = f"{point.group} {point.name} cannot be imported: {type(fault).__name__}: {fault}"
            yield Finding("plug-ins", "fail", text, f"mend or uninstall {package}; it is {point.value}")
    others = f"; {optional} are of the extra `agents`" if optional else ""
    yield Finding("plug-ins", "ok", f"{good} of {len(points)} imported, in {len(groups)} groups{others}")


def _machine() -> Iterator[Finding]:
    from gridtune.sweep.execution.cluster import processors_here  # noqa: PLC0415

    processors, free = processors_here(), _free_memory()
    text = f"{processors} processors" + ("" if free is None else f", {_size(free)} of memory free")
    if free is not None and free < _MEMORY:
        hint = "run fewer workers (--workers): each takes 0.3 to 0.5 GB, Ray itself about 1 GB"
        yield Finding("machine", "warn", text, hint)
    else:
        yield Finding("machine", "ok", text)
    if _SHARED.is_dir() and shutil.disk_usage(_SHARED).free < _SHARED_LEAST:
        free_there = _size(shutil.disk_usage(_SHARED).free)
        hint = "give a container more of it (docker run --shm-size=2g): Ray then does without slow files"
        yield Finding("machine", "warn", f"only {free_there} are free in {_SHARED}", hint)


def _free_memory() -> int | None:
    """Return the bytes that programs can still take, as Linux estimates them; None elsewhere."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    text = fields.get("MemAvailable", "").split()
    return int(text[0]) * 1024 if text else None


def _disk(results: Path) -> Iterator[Finding]:
    from gridtune.sweep.journal.journal import check_writable  # noqa: PLC0415

    check_writable(results)
    for name, folder in (("results", results), ("temporary files", Path(tempfile.gettempdir()))):
        there = next(path for path in (folder, *folder.resolve().parents) if path.exists())
        free = shutil.disk_usage(there).free
        text = f"{_size(free)} free for {name} ({folder})"
        level: Level = "fail" if free < _LEAST_DISK else "warn" if free < _DISK else "ok"
        yield Finding(
            "disk", level, text, "" if level == "ok" else "make room, or use a folder on another disk"
        )


def _kernels() -> Iterator[Finding]:
    """Replay three jobs, and see whether the kernels came from numba's cache on the disk."""
    import numpy as np  # noqa: PLC0415

    from gridtune.batch.replay import simulate  # noqa: PLC0415
    from gridtune.batch.simulator import ranked  # noqa: PLC0415
    from gridtune.sweep.journal.journal import check_writable  # noqa: PLC0415
    from gridtune.workload.workload import Workload  # noqa: PLC0415

    ones = np.ones(3, dtype=np.int64)
    columns = ("submit_time", "run_time", "requested_time", "requested_processors")
    began = time.perf_counter()
    simulate(Workload(dict.fromkeys(columns, ones)), processors=2, order="fcfs", backfill="easy")
    seconds = time.perf_counter() - began
    used = [kernel.stats for kernel in vars(ranked).values() if hasattr(kernel, "stats")]
    used = [stats for stats in used if stats.cache_hits or stats.cache_misses]
    folder = Path(next((stats.cache_path for stats in used), tempfile.gettempdir()))
    try:
        check_writable(folder)
    except GridtuneError as fault:
        hint = "set NUMBA_CACHE_DIR to a folder that can be written, or every process compiles all kernels"
        yield Finding(
            "kernels", "warn", f"the cache of compiled kernels is not kept: {fault.message} ({folder})", hint
        )
        return
    how = "compiled now and kept" if any(stats.cache_misses for stats in used) else "from the cache"
    yield Finding("kernels", "ok", f"batch kernels {how}, first replay {seconds:.1f} s; cache in {folder}")


def _ray(full: bool) -> Iterator[Finding]:
    address = os.environ.get("RAY_ADDRESS")
    if address:
        yield Finding("Ray", "ok", f"sweeps join the cluster at {address} (RAY_ADDRESS)")
    if not full:
        yield Finding(
            "Ray", "ok", f"Ray {metadata.version('ray')}; not started", "gridtune doctor --full tries it"
        )
        return
    from gridtune.sweep.execution.cluster import ray_session  # noqa: PLC0415

    began = time.perf_counter()
    with ray_session(None, workers=1, cpus=1) as (workers, _):
        import ray  # noqa: PLC0415

        number = ray.get(ray.remote(_own_number).remote())
    seconds = time.perf_counter() - began
    text = (
        f"Ray {metadata.version('ray')} started, ran a task in process {number} and ended, in {seconds:.0f} s"
    )
    yield Finding("Ray", "ok", f"{text}; {workers} worker")


def _own_number() -> int:
    return os.getpid()


def _tracking(uri: str | None) -> Iterator[Finding]:
    from gridtune.sweep.journal.journal import check_writable  # noqa: PLC0415
    from gridtune.tracking.store import database_path, is_store, tracking_uri  # noqa: PLC0415

    resolved = tracking_uri(uri)
    shown, database = without_secrets(resolved), database_path(resolved)
    if database is None and not resolved.startswith(("http://", "https://")):
        yield Finding("tracking", "ok", f"{shown}: not tried")
    elif database is None:
        yield from _server(resolved)
    elif not database.exists():
        check_writable(database.parent)
        yield Finding("tracking", "ok", f"{resolved}: will be made by the first sweep")
    elif not is_store(database):
        hint = "move it away, or give another store with --tracking-uri or MLFLOW_TRACKING_URI"
        yield Finding("tracking", "fail", f"{database} is not a tracking store", hint)
    elif not os.access(database, os.W_OK):
        yield Finding("tracking", "fail", f"{database} cannot be written", "change its permissions")
    else:
        yield Finding("tracking", "ok", f"{resolved}, {_size(database.stat().st_size)}")


def _server(uri: str) -> Iterator[Finding]:
    try:
        with urlopen(f"{uri.rstrip('/')}/health", timeout=_ANSWER_SECONDS) as answer:
            status = answer.status
    except (URLError, OSError, ValueError) as fault:
        hint = "sweeps run without it, and `gridtune report FOLDER --track` sends them later"
        yield Finding("tracking", "warn", without_secrets(f"{uri} does not answer: {fault}"), hint)
        return
    yield Finding("tracking", "ok", without_secrets(f"{uri} answers ({status})"))


def _ports() -> Iterator[Finding]:
    with socket.socket() as probe:
        # As a server would: a port that was in use a moment ago is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", _UI_PORT))
        except OSError:
            text = f"the port {_UI_PORT} of `gridtune ui` is in use"
            yield Finding(
                "ports", "warn", text, f"gridtune ui --port {_UI_PORT + 1}, if it is not gridtune's UI"
            )
            return
        probe.listen()
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
    yield Finding("ports", "ok", f"{_UI_PORT} is free for `gridtune ui`, and the machine has others for Ray")


def _logs() -> Iterator[Finding]:
    from gridtune.workload.catalogue import (  # noqa: PLC0415
        CATALOGUE,
        bundled_traces,
        cache_folder,
        resolve_trace,
    )

    here = 0
    for name in CATALOGUE:
        try:
            resolve_trace(name)
            here += 1
        except GridtuneError as fault:
            if "SHA-256" in fault.message:
                yield Finding(
                    "logs", "warn", str(fault.path or name) + ": " + fault.message, fault.hint or ""
                )
    own = os.environ.get("GRIDTUNE_TRACE_DIR")
    if own and not Path(own).is_dir():
        yield Finding("logs", "fail", f"GRIDTUNE_TRACE_DIR={own} is no folder", "correct or unset it")
    where = own or str(cache_folder())
    hint = (
        "" if here else "gridtune traces fetch kth-sp2, or set GRIDTUNE_TRACE_DIR to a folder that holds logs"
    )
    bundled = len(bundled_traces())
    level: Level = "ok" if bundled else "warn"
    yield Finding(
        "logs", level, f"{bundled} bundled, {here} of {len(CATALOGUE)} public ones here ({where})", hint
    )


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GB" if size >= 2**30 else f"{size / 2**20:.0f} MB"
