"""`SimulatorActor`: the Ray actor that hosts a system with its workloads and runs blocks of cells.

Imported only where Ray is.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import ray
from ray import tune

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

__all__ = [
    "ActorSettings",
    "SimulatorActor",
]

#: Seconds of work after which a step returns what it has: what a killed driver can lose.
_STEP_SECONDS = 0.5
#: Seconds between two questions of a worker that has nothing to do: the first, and at most.
_IDLE_SECONDS, _LONGEST_IDLE_SECONDS = 0.02, 0.5
#: Seconds between two reports of a worker that cannot run cells, and after which it tries once more.
_UNFIT_SECONDS, _AGAIN_SECONDS = 0.5, 30.0


@dataclass(frozen=True)
class ActorSettings:
    """What every actor of a sweep is given when it starts.

    Attributes
    ----------
    code
        The system's name, and the code of users.
    workloads
        Reference to the workload in the object store.
    timeout
        Seconds a cell may take, or None.
    memory
        Bytes a cell may take beside what the worker has when it starts; 0 for no limit.
    configurations
        What kernels are loaded for before the first cell.
    """

    code: SentCode
    workloads: Mapping[str, Any]
    timeout: float | None
    memory: float
    configurations: Sequence[Mapping[str, Any]]


class SimulatorActor(tune.Trainable):
    """Hosts one system and runs block after block of cells.

    The actor is kept from one block to the next, and with it the workloads it has taken from the object
    store, what it has selected from them and the compiled kernels.

    A worker that cannot be made ready runs nothing: it says so and keeps its place, so that nothing is
    started where it would fail again.
    """

    def setup(self, config: dict[str, Any], settings: ActorSettings | None = None) -> None:
        """Get ready to run cells."""
        assert settings is not None
        self._settings = settings
        self._workloads: dict[str, Workload] = {}
        self._silence: IO[str] | None = None
        self._system: System | None = None
        #: Why this worker cannot run cells, and when it tries again.
        self._unfit, self._again = "", 0.0
        self._threads = contextlib.ExitStack()
        self._threads.enter_context(single_threaded())
        self._cells = deque[Cell]()
        self._careful = self._began = False
        self._step_seconds, self._idle_seconds = _STEP_SECONDS, _IDLE_SECONDS
        # Tune sends the configuration back with every result.
        self.config: dict[str, Any] = {}
        self._get_ready()

    def _get_ready(self) -> None:
        """Load the system and its kernels; what goes wrong here is the machine's fault, and no cell's."""
        settings = self._settings
        try:
            self._system = settings.code.load()
            prepare_worker(self._system, settings.configurations, settings.code.checksum)
            self._unfit = ""
        except Exception as fault:
            self._unfit = f"{worker_name()}: {error_text(fault)}"
            self._again = time.monotonic() + _AGAIN_SECONDS

    def take(self, block: Block, seconds: float = _STEP_SECONDS) -> None:
        """Take the next block, and the seconds of work after which to send results."""
        self._cells = deque(block.cells)
        self._careful = block.careful
        self._began = False
        self._step_seconds, self._idle_seconds = seconds, _IDLE_SECONDS

    def step(self) -> dict[str, Any]:
        """Run cells for half a second or more, or one cell if careful, and return their results.

        A worker without cells idles until the driver gives it some or ends it.
        """
        if self._unfit:
            time.sleep(_UNFIT_SECONDS)
            if time.monotonic() > self._again:
                self._get_ready()
            return {"results": [], "left": len(self._cells), "unfit": self._unfit}
        if self._careful and not self._began:
            # A sign of life before the first cell: from here on, the driver's clock times that cell.
            self._began = True
            return {"results": [], "left": len(self._cells)}
        if not self._cells:
            time.sleep(self._idle_seconds)
            self._idle_seconds = min(2 * self._idle_seconds, _LONGEST_IDLE_SECONDS)
        results: list[CellResult] = []
        end = time.monotonic() + (0.0 if self._careful else self._step_seconds)
        while self._cells:
            results.append(self._run(self._cells.popleft()))
            if time.monotonic() >= end:
                break
        return {"results": results, "left": len(self._cells)}

    def _run(self, cell: Cell) -> CellResult:
        timeout, memory = self._settings.timeout, self._settings.memory
        assert self._system is not None
        if timeout is None:
            with limited_memory(memory):
                return run_one(cell, self._system, self._load)
        # A compiled kernel cannot be interrupted from Python. This watchdog is a thread of C, which ends
        # the process even while a kernel runs; the driver sees the death and knows the cell.
        if self._silence is None:
            self._silence = Path(os.devnull).open("w")  # noqa: SIM115 (the watchdog keeps it)
        faulthandler.dump_traceback_later(timeout, exit=True, file=self._silence)
        try:
            with limited_memory(memory):
                return run_one(cell, self._system, self._load)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _load(self, reference: str) -> Workload:
        if reference not in self._workloads:
            self._workloads[reference] = ray.get(self._settings.workloads[reference])
        return self._workloads[reference]
