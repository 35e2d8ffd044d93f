"""Running one cell: in a worker of a sweep, or right here."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gridtune.arguments import require, require_number
from gridtune.core.cells import (
    Cell,
    CellResult,
    Replicate,
    configuration_id_of,
    id_of_identity,
    identity_of,
    replicate_streams,
    validated,
)
from gridtune.core.remarks import log_remarks
from gridtune.core.system import Outcome, Streams, System, SystemParameters, WorkloadLoader, get_system
from gridtune.core.user_code import refresh_checksums
from gridtune.errors import GridtuneError, SweepError
from gridtune.sweep.cluster import ray_session
from gridtune.sweep.space.plan import Workloads

__all__ = ["CellRun", "error_text", "run_cell", "run_one", "worker_name"]

#: Lines and characters of a traceback that are kept with a failed cell.
_ERROR_LINES, _ERROR_CHARACTERS = 12, 2000


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
    refresh_checksums()
    simulated = get_system(system)
    checked = validated(simulated, parameters)
    workloads = Workloads(base) if workloads is None else workloads
    traces = workloads.checksums(simulated.traces(checked))
    simulated.prepare([checked])
    identity = identity_of(simulated, checked, seed, traces, workloads.load)
    cell = Cell(
        cell_id=id_of_identity(identity),
        configuration_id=configuration_id_of(simulated, checked, traces, workloads.load),
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
        return CellRun(cell, outcome, time.perf_counter() - began)


def run_one(cell: Cell, system: System, load: WorkloadLoader) -> CellResult:
    """Run a cell of a sweep; an exception becomes the result's error."""
    began = time.perf_counter()
    try:
        streams = replicate_streams(cell.seed, cell.traces)
        parameters = validated(system, cell.parameters)
        outcome = _run(system, parameters, streams, load, tables=False)
        metrics = {name: float(value) for name, value in outcome.metrics.items()}
        notes = dict(outcome.notes)
    except (Exception, SystemExit) as fault:
        if _is_termination(fault):
            raise
        seconds = time.perf_counter() - began
        return CellResult.of(cell, "failed", error=error_text(fault), seconds=seconds, worker=worker_name())
    seconds = time.perf_counter() - began
    return CellResult.of(cell, "done", metrics=metrics, notes=notes, seconds=seconds, worker=worker_name())


def _is_termination(fault: BaseException) -> bool:
    """Whether a signal ends this process, as Ray's handlers do it; what a cell calls may exit by itself."""
    if not isinstance(fault, SystemExit):
        return False
    return hasattr(fault, "ray_terminate_msg") or fault.code == signal.SIGTERM


def _run(
    system: System, parameters: SystemParameters, streams: Streams, load: WorkloadLoader, *, tables: bool
) -> Outcome:
    """Run a cell; its notes also say what of its logs the system does not model."""
    outcome = system.run(parameters, streams=streams, load=load, tables=tables)
    remarks: dict[str, Any] = {}
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
