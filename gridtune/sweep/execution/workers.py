"""Workers on Ray: actors that host a simulator each, fed with blocks of cells until none is left.

Imported only where Ray is.
"""

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

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from gridtune.core.cells import Cell, CellResult
from gridtune.core.system import CellResources, System
from gridtune.errors import SweepError
from gridtune.sweep.execution.blocks import Block, BlockQueue, Busy, Sink, SweepDriver
from gridtune.sweep.execution.cluster import Crew, client_connection
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

#: Seconds after which a worker that cannot run cells tries once more.
AGAIN_SECONDS = 30.0
#: Seconds between two looks at the cluster.
_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class SimulatorSettings:
    """The settings of every worker of a sweep.

    Attributes
    ----------
    code
        The system's name, and the code of users.
    workloads
        Reference to the workload in the object store.
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

    It is kept from one block to the next, and with it the workloads from the object store, selections of
    their jobs and the compiled kernels.
    """

    def __init__(self, settings: SimulatorSettings) -> None:
        self._settings = settings
        self._workloads: dict[str, Workload] = {}
        self._system: System | None = None
        self._threads = contextlib.ExitStack()
        self._threads.enter_context(single_threaded())
        self._cells = deque[Cell]()
        self._careful = False

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
            if time.monotonic() >= end:
                break
        return results, len(self._cells)

    def _load(self, reference: str) -> Workload:
        if reference not in self._workloads:
            self._workloads[reference] = ray.get(self._settings.workloads[reference])
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


class _Actors:
    """The actors of a sweep, by name, and the calls that they have not answered."""

    def __init__(self, settings: SimulatorSettings, needs: CellResources) -> None:
        self._settings, self._needs = ray.put(settings), needs
        self._class = ray.remote(Simulator)
        self._actors: dict[str, Any] = {}
        self._groups: dict[str, PlacementGroup] = {}
        self._calls: dict[ray.ObjectRef, str] = {}

    def start(self, name: str) -> None:
        """Start an actor, and let it get ready."""
        own, *helpers = self._needs.bundles
        options: dict[str, Any] = {"num_cpus": own.get("CPU", 0), "num_gpus": own.get("GPU", 0)}
        options["memory"] = own.get("memory")
        if helpers:
            # Processes that the cell starts take the other bundles.
            self._groups[name] = placement_group(self._needs.bundles)
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                self._groups[name], placement_group_bundle_index=0, placement_group_capture_child_tasks=True
            )
        self._actors[name] = self._class.options(**options).remote(self._settings)
        self.call(name, "prepare")

    def call(self, name: str, method: str, *arguments: Any) -> None:
        """Call a method of an actor; `take_answers` gets its result."""
        self._calls[getattr(self._actors[name], method).remote(*arguments)] = name

    def hand_out(self, driver: SweepDriver) -> None:
        """Let idle actors run the blocks that the driver has for them."""
        for name, block in driver.hand_out():
            self.call(name, "run", block, driver.report_seconds)

    def take_answers(self, driver: SweepDriver) -> None:
        """Wait a moment for answers of actors, and pass them to the driver."""
        if not self._calls:
            raise SweepError("cells are left to run, but no worker has any")
        ready, _ = ray.wait(list(self._calls), num_returns=len(self._calls), timeout=0)
        if not ready:
            ready, _ = ray.wait(list(self._calls), timeout=_LOOK_SECONDS)
        for reference in ready:
            name = self._calls.pop(reference)
            try:
                answer = ray.get(reference)
            except RayError as fault:
                self.end(name)
                driver.died(name, str(fault))
                continue
            if answer == "":
                driver.ready(name)
            elif isinstance(answer, str):
                driver.unfit(name, answer)
                self.call(name, "prepare", AGAIN_SECONDS)
            else:
                results, left = answer
                driver.received(name, results, left)
                if left:
                    self.call(name, "run", None, driver.report_seconds)

    def end(self, name: str) -> None:
        """End an actor, and give its place back."""
        ray.kill(self._actors.pop(name))
        if name in self._groups:
            remove_placement_group(self._groups.pop(name))

    def close(self) -> None:
        """End all actors."""
        for name in list(self._actors):
            self.end(name)


def run_on_ray(queue: BlockQueue, settings: SimulatorSettings, *, sink: Sink, busy: Busy, crew: Crew) -> None:
    """Run everything a queue deals out in workers on the Ray that is connected.

    Parameters
    ----------
    queue
        Deals out blocks of cells.
    settings
        The workers' settings; their workloads are in the object store.
    sink
        Takes results in the order they come, in this thread.
    busy
        Takes the number of busy workers when it changes.
    crew
        How many workers there are to be at once, and the resources that each occupies.

    Raises
    ------
    SweepError
        If workers keep dying, or none can be made ready.
    """
    driver = SweepDriver(queue, sink=sink, busy=busy, crew=crew)
    with client_connection(), contextlib.closing(_Actors(settings, crew.needs)) as actors:
        started = 0
        while not driver.over:
            driver.follow()
            while driver.wants(name := f"worker {started + 1}"):
                actors.start(name)
                started += 1
            actors.hand_out(driver)
            actors.take_answers(driver)
            # Workers have their next blocks before this process writes.
            actors.hand_out(driver)
            driver.deliver()
    if driver.fault is not None:
        raise driver.fault
