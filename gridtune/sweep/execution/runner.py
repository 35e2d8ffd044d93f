"""Running one cell: in a worker of a sweep, or right here."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import os
import resource
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from gridtune.arguments import require, require_number
from gridtune.core.cells import (
    Cell,
    CellResult,
    Replicate,
    canonical_json,
    id_of_identity,
    identity_of,
    replicate_streams,
    validated,
)
from gridtune.core.remarks import READ_FILES, log_remarks
from gridtune.core.sources import package_checksum
from gridtune.core.system import Outcome, Streams, System, SystemParameters, WorkloadLoader, get_system
from gridtune.core.user_code.checksums import files_read, refresh_checksums
from gridtune.errors import GridtuneError, MetricError, SweepError
from gridtune.sweep.execution.cluster import ONE_THREAD, environment, ray_session
from gridtune.sweep.space.plan import Workloads

#: Lines and characters of a traceback that are kept with a failed cell.
_ERROR_LINES, _ERROR_CHARACTERS = 12, 2000
_STATM = Path("/proc/self/statm")
#: The place of the private data in it, in pages.
_DATA = 5


@dataclass(frozen=True)
class CellRun:
    """One cell, run here.

    Attributes
    ----------
    cell
        What was run.
    outcome
        Its result.
    seconds
        Wall-clock seconds of the run, without reading traces and compiling.
    """

    cell: Cell
    outcome: Outcome
    seconds: float


def run_cell(
    system: str,
    parameters: Mapping[str, Any],
    *,
    seed: int = 0,
    tables: bool = False,
    base: Path | None = None,
    workloads: Workloads | None = None,
) -> CellRun:
    """Run one cell of a system in this process.

    With the parameters and the seed of a sweep's cell, it is that cell: same id, same numbers.

    Parameters
    ----------
    system
        The registered system's name.
    parameters
        Its parameters.
    seed
        What the random numbers derive from.
    tables
        Make the outcome's tables (the schedule) too.
    base
        The folder that relative trace paths are relative to, beside the current one.
    workloads
        Traces read before; by default they are read now.

    Raises
    ------
    GridtuneError
        If the system or a parameter is unknown, a trace is not found, or the run fails.
    """
    hint = 'such as {"trace": "quickstart"}'
    require(parameters, Mapping, "parameters", error=SweepError, hint=hint)  # type: ignore[type-abstract]
    require_number(seed, "seed", whole=True, least=0, error=SweepError)
    process = os.getpid()
    refresh_checksums()
    simulated = get_system(system)
    checked = validated(simulated, parameters)
    workloads = Workloads(base) if workloads is None else workloads
    traces = workloads.checksums(simulated.traces(checked))
    simulated.prepare([checked])
    identity = identity_of(simulated, checked, seed, traces, workloads.load)
    cell = Cell(
        cell_id=id_of_identity(identity),
        configuration_id=id_of_identity(identity_of(simulated, checked, None, traces, workloads.load)),
        workload=", ".join(traces),
        configuration=dict(parameters),
        replicate=Replicate(f"seed {seed}", seed),
        traces=traces,
        identity=identity,
    )
    needs = simulated.resources(checked)
    session = ray_session(None, workers=1, cpus=needs.cpus + needs.helpers, gpus=needs.gpus)
    with session if simulated.needs_ray else contextlib.nullcontext():
        began = time.perf_counter()
        streams = replicate_streams(seed, traces)
        outcome = _run(simulated, checked, streams, workloads.load, tables=tables)
        if os.getpid() != process:
            os._exit(0)  # a fork of users' code that returned
        return CellRun(cell, outcome, time.perf_counter() - began)


def run_one(cell: Cell, system: System, load: WorkloadLoader) -> CellResult:
    """Run a cell of a sweep; an exception becomes the result's error."""
    began = time.perf_counter()
    try:
        streams = replicate_streams(cell.seed, cell.traces)
        parameters = validated(system, cell.parameters)
        outcome = _run(system, parameters, streams, load, tables=False)
        metrics = {name: float(value) for name, value in outcome.metrics.items()}
        found: dict[str, Any] = {"state": "done", "metrics": metrics, "notes": dict(outcome.notes)}
    except (Exception, SystemExit) as fault:
        # Ray's handlers of signals exit like this; a cell may call what exits by itself.
        if isinstance(fault, SystemExit) and (
            hasattr(fault, "ray_terminate_msg") or fault.code == signal.SIGTERM
        ):
            raise
        found = {"state": "failed", "error": error_text(fault)}
    return CellResult.of(cell, **found, seconds=time.perf_counter() - began, worker=worker_name())


def _run(
    system: System, parameters: SystemParameters, streams: Streams, load: WorkloadLoader, *, tables: bool
) -> Outcome:
    """Run a cell; its notes also say what of its logs is not modelled and what files users' code read."""
    outcome = system.run(parameters, streams=streams, load=load, tables=tables)
    given: Mapping[str, Any] = outcome.metrics
    for name, value in given.items():
        if isinstance(value, str | bytes):
            raise MetricError(f"metric {name!r} gives the text {value!r} and no number")
    remarks: dict[str, Any] = {READ_FILES: files} if (files := files_read()) else {}
    for reference in system.traces(parameters):
        remarks |= log_remarks(load(reference).contents, system.modelled_features(parameters))
    return replace(outcome, notes={**outcome.notes, **remarks}) if remarks else outcome


def error_text(fault: BaseException) -> str:
    """Return what went wrong in a few lines: for our own errors the message, else the traceback's end."""
    if isinstance(fault, GridtuneError):
        return f"{type(fault).__name__}: {fault}"
    lines = "".join(traceback.format_exception(fault)).strip().splitlines()
    return "\n".join(lines[-_ERROR_LINES:])[-_ERROR_CHARACTERS:]


def worker_name() -> str:
    """Return `host:pid` of this process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def prepare_worker(system: System, configurations: Sequence[Mapping[str, Any]], user_code: str) -> None:
    """Load the kernels in a worker; where they are not compiled yet, one worker does it, the others wait.

    A marker in the folder for temporary files says that a machine has compiled them. Should the compiled
    code have been removed since, workers compile at once: slower, and right all the same.

    Parameters
    ----------
    system
        The system.
    configurations
        What kernels are compiled for.
    user_code
        Checksum of the code of users that runs.
    """
    files_read()  # Code of users may read in its first call, here, and never again.
    marker = kernel_marker(system, configurations, user_code)
    with marker.with_suffix(".lock").open("w") as lock:
        if not marker.exists():
            fcntl.flock(lock, fcntl.LOCK_EX)
        if marker.exists():
            # Compiled by now: workers load the kernels at the same time.
            fcntl.flock(lock, fcntl.LOCK_UN)
        # A policy that does not compile fails in its own cells, where the error is kept; not here.
        with contextlib.suppress(Exception):
            system.prepare([validated(system, configuration) for configuration in configurations])
        marker.touch()


#: Several places of a sweep ask for it.
_checksum_of = cache(package_checksum)


def kernel_marker(system: System, configurations: Sequence[Mapping[str, Any]], user_code: str) -> Path:
    """Return the file that is there once this machine has compiled the kernels of these configurations."""
    what = {
        "gridtune": _checksum_of("gridtune"),
        "system": [system.name, system.version],
        "configurations": list(configurations),
        "code": user_code,
        "cache": os.environ.get("NUMBA_CACHE_DIR"),
        "python": [sys.executable, sys.version, importlib.metadata.version("numba")],
    }
    digest = hashlib.sha256(canonical_json(what).encode())
    folder = Path(tempfile.gettempdir()) / f"gridtune-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"warm-{digest.hexdigest()[:16]}"


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Keep numerical libraries to one thread, as they are in a worker.

    More threads add up numbers in another order, and the last bits of a result would depend on where it was
    computed.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # noqa: PLC0415

    # The variables are for libraries that are loaded later.
    with environment(ONE_THREAD), threadpool_limits(limits=1):
        yield


@contextlib.contextmanager
def limited_memory(size: float) -> Iterator[None]:
    """Let this process take `size` bytes more than it has, while the context lasts.

    A request for more gets a `MemoryError`, also in compiled code. Without a size, or on a system that does
    not count memory so, there is no limit.
    """
    if not size or not _STATM.exists():
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(_STATM.read_text(encoding="utf-8").split()[_DATA]) * resource.getpagesize()
    limit = used + int(size)
    if before[1] != resource.RLIM_INFINITY:
        limit = min(limit, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
