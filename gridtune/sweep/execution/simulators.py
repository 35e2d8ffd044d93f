"""The simulator that each worker of a sweep hosts: it runs block after block of cells."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridtune.core.cells import Cell, CellResult
from gridtune.core.system import System
from gridtune.sweep.execution.blocks import Block
from gridtune.sweep.execution.runner import (
    error_text,
    limited_memory,
    prepare_worker,
    run_one,
    single_threaded,
    worker_name,
)
from gridtune.sweep.space.code import SentCode
from gridtune.workload.workload import Workload


@dataclass(frozen=True)
class SimulatorSettings:
    """The settings of every worker of a sweep.

    Attributes
    ----------
    code
        The system's name, and the code of users.
    workloads
        The workload, or a reference to it in Ray's object store.
    timeout
        Seconds a cell may take, or None.
    memory
        Bytes a cell may take beside those of the worker when it starts; 0 for no limit.
    configurations
        What kernels are loaded for before the first cell.
    """

    code: SentCode
    workloads: Mapping[str, Any]
    timeout: float | None
    memory: float
    configurations: Sequence[Mapping[str, Any]]


class Simulator:
    """Hosts one system in a worker and runs block after block of cells.

    It is kept from one block to the next, and with it the workloads, selections of their jobs and the
    compiled kernels. Users' code that forks or leaves the folder changes nothing for the cells after it.
    """

    def __init__(self, settings: SimulatorSettings) -> None:
        self._settings = settings
        self._workloads: dict[str, Workload] = {}
        self._system: System | None = None
        self._threads = contextlib.ExitStack()
        self._threads.enter_context(single_threaded())
        self._cells = deque[Cell]()
        self._careful = False
        #: The folder is open, as it may be renamed.
        self._process, self._folder = os.getpid(), os.open(".", os.O_RDONLY)

    def prepare(self, delay: float = 0.0) -> str:
        """Load the system and its kernels after a delay in seconds; return why that fails, or "".

        A failure is the machine's fault, and no cell's.
        """
        time.sleep(delay)
        try:
            self._system = self._settings.code.load()
            prepare_worker(self._system, self._settings.configurations, self._settings.code.checksum)
        except Exception as fault:
            return f"{worker_name()}: {error_text(fault)}"
        return ""

    def run(self, block: Block | None, seconds: float) -> tuple[list[CellResult], int]:
        """Run cells for some seconds, or one cell if careful; return their results, and the number left.

        Parameters
        ----------
        block
            The next block; None to go on with the last. A careful block is only taken: from that sign of life
            on, the driver's clock times its first cell.
        seconds
            Seconds of work after which results are returned.
        """
        if block is not None:
            self._cells, self._careful = deque(block.cells), block.careful
            if block.careful:
                return [], len(self._cells)
        results: list[CellResult] = []
        end = time.monotonic() + (0.0 if self._careful else seconds)
        while self._cells:
            assert self._system is not None
            with limited_memory(self._settings.memory), _ended_after(self._settings.timeout):
                results.append(run_one(self._cells.popleft(), self._system, self._load))
            if os.getpid() != self._process:
                # A fork of users' code that returned: it would answer for this process.
                os._exit(0)
            os.fchdir(self._folder)
            if time.monotonic() >= end:
                break
        return results, len(self._cells)

    def _load(self, reference: str) -> Workload:
        if reference not in self._workloads:
            stored = self._settings.workloads[reference]
            if not isinstance(stored, Workload):
                import ray  # noqa: PLC0415

                stored = ray.get(stored)
            self._workloads[reference] = stored
        return self._workloads[reference]


@contextlib.contextmanager
def _ended_after(seconds: float | None) -> Iterator[None]:
    """End the process where the context takes longer: the driver sees the death and knows the cell.

    A compiled kernel cannot be interrupted from Python. The watchdog is a thread of C, which ends the process
    even while a kernel runs.
    """
    if seconds is None:
        yield
        return
    with Path(os.devnull).open("w") as silence:
        faulthandler.dump_traceback_later(seconds, exit=True, file=silence)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
