"""Where a sweep's cells run: in this process, on Ray, or first here and then on Ray."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from gridtune.core.cells import CellResult
from gridtune.core.system import CellResources
from gridtune.errors import SweepError
from gridtune.sweep.execution.blocks import BlockQueue, Sink, SweepDriver
from gridtune.sweep.execution.children import ChildWorkers
from gridtune.sweep.execution.cluster import Crew, RaySession, is_client, processors_here
from gridtune.sweep.execution.runner import kernel_marker, prepare_worker, run_one, single_threaded
from gridtune.sweep.execution.simulators import Simulator, SimulatorSettings
from gridtune.sweep.space.plan import PlannedSpace

#: Where cells run: in this process, on Ray, or "auto": here while that is sooner.
Executor = Literal["auto", "inline", "ray"]
#: Hears what a sweep is busy with, and with how many workers.
Stage = Callable[[str, int], None]

#: Seconds that Ray takes to start, to start workers and to end, on two busy processors.
_RAY_SECONDS = 8.0
#: Seconds of a cell up to which cells go on here while Ray starts: compiled code keeps the interpreter from
#: the thread that starts it.
_SHORT_CELL_SECONDS = 0.05
#: In the sweep's folder while its cells run in this process.
_MARKER = ".inline"
#: Seconds of work after which results are passed on: what a killed process can lose.
_STEP_SECONDS = 0.1


def check_executor(
    plan: PlannedSpace, executor: Executor | None, *, address: str | None, workers: int | None
) -> Executor:
    """Return where the cells of a space are to run.

    Parameters
    ----------
    plan
        The space; its `resources` say where by default, and its system may need Ray.
    executor
        What the user asked for, or None.
    address, workers
        A running cluster and the cells at once, where the user asked for them: both are Ray's.

    Raises
    ------
    SweepError
        If this process is to do what only Ray does, or to train agents over Ray Client: their checkpoints
        would be on the cluster, out of this process' reach.
    """
    if executor not in (None, "auto", "inline", "ray"):
        raise SweepError(f"no executor is named {executor!r}", hint="it is auto, inline or ray")
    resources, needs_ray = plan.space.resources, plan.system.needs_ray
    cluster = address or os.environ.get("RAY_ADDRESS") or ""
    if cluster.startswith(("http://", "https://")):
        raise SweepError(
            f"{cluster} is a dashboard, which takes jobs and runs no cells",
            hint=f"send the sweep as a job: scripts/submit SPACE --address {cluster}; or join the cluster: "
            "--address HOST:6379",
        )
    if is_client(cluster) and needs_ray:
        host = cluster.removeprefix("ray://").partition(":")[0]
        raise SweepError(
            f"agents cannot be trained over Ray Client ({cluster}): the trainings' checkpoints would stay on "
            "the cluster, and this process reads them",
            hint=f"send it as a job (scripts/submit SPACE --address http://{host}:8265), or run this command "
            f"on a machine of the cluster with --address {host}:6379",
        )
    chosen: Executor = executor or resources.executor
    if chosen == "auto":
        # A process that is connected to Ray already has nothing to start.
        ray = sys.modules.get("ray")
        connected = ray is not None and ray.is_initialized()
        return "ray" if cluster or workers or needs_ray or connected else "auto"
    if chosen == "inline":
        refused = {
            "--address": address is not None,
            "--workers": (workers or 0) > 1,
            f"the system {plan.system.name}": needs_ray,
        }
        for what, given in refused.items():
            if given:
                message = f"the inline executor runs one cell after another in this process: {what} needs Ray"
                raise SweepError(message, hint="use the executor ray")
    return chosen


@dataclass
class SweepExecutor:
    """Run the cells that a queue deals out.

    Attributes
    ----------
    plan
        The space with its system, workloads and code, and the resources of a cell.
    executor
        Where, as `check_executor` says.
    address
        A running Ray cluster to join, or None.
    workers
        Cells at once; 0 for as many as there are processors.
    folder
        The sweep's.
    stage
        Takes the sweep's present activity and the number of busy workers.
    """

    plan: PlannedSpace
    executor: Executor
    address: str | None
    workers: int
    folder: Path
    stage: Stage
    _session: RaySession | None = field(default=None, init=False)

    def start_ray(self) -> None:
        """Start Ray, and import what drives it, while this thread goes on."""
        if self._session is None:
            # What cannot be sent to workers is refused before.
            _ = self.plan.code.sent
            self._session = RaySession(self.address, workers=self.workers, needs=self.plan.needs)

    def close(self) -> None:
        """End what was started."""
        if self._session is not None:
            self._session.end()

    def run(
        self,
        queue: BlockQueue,
        configurations: Sequence[Mapping[str, Any]],
        typical: float | None,
        *,
        sink: Sink,
    ) -> None:
        """Run cells until none is left.

        Parameters
        ----------
        queue
            Deals out blocks of cells.
        configurations
            The configurations that kernels are compiled for, or loaded from the cache, before the first cell.
        typical
            Mean seconds of the cells that were finished before, or None.
        sink
            Takes results as they come.

        Raises
        ------
        SweepError
            If Ray cannot be started or reached, or workers keep dying.
        """
        few = typical is None or self._is_little(typical * queue.left)
        if self.executor == "inline" or (self.executor == "auto" and few):
            marker = self.folder / _MARKER
            # Cells that ended this process before run in a child.
            guarded = self.plan.code.from_outside or self.plan.space.timeout is not None or marker.exists()
            marker.touch()
            try:
                (self._run_in_child if guarded else self._run_here)(queue, configurations, sink)
            finally:
                # It stays only where this process dies.
                marker.unlink(missing_ok=True)
                self.stage("running", 0)
        if queue.left:
            self._run_on_ray(queue, configurations, sink)

    def _is_little(self, seconds: float) -> bool:
        """Return whether workers would not end so many seconds of work sooner, as Ray has to start first."""
        return seconds * (1 - 1 / (self.workers or processors_here())) <= _RAY_SECONDS

    def _stay(self, queue: BlockQueue, *, beside: bool = False) -> bool:
        """Return whether cells stay here, or beside in a child; with much left, Ray starts and takes them."""
        if self.executor == "inline" or queue.seconds_left is None:
            return True
        if self._session is None and self._is_little(queue.seconds_left):
            return True
        self.start_ray()
        short = beside or queue.seconds_left <= _SHORT_CELL_SECONDS * queue.left
        return short and self._session is not None and not self._session.answered

    def _run_here(self, queue: BlockQueue, configurations: Sequence[Mapping[str, Any]], sink: Sink) -> None:
        system, code, load = self.plan.system, self.plan.code, self.plan.workloads.load
        with contextlib.ExitStack() as prepared:
            if not kernel_marker(system, configurations, code.checksum).exists():
                from gridtune.core.compiled import telling_of_compilation  # noqa: PLC0415 (numba)

                text = "compiling kernels: once, it can take a minute"
                prepared.enter_context(telling_of_compilation(lambda: self.stage(text, 0)))
            prepare_worker(system, configurations, code.checksum)
        queue.workers = 1
        self.stage("running", 1)
        with single_threaded():
            while queue.left and self._stay(queue):
                block = queue.take()
                if block is None:
                    raise SweepError(f"{queue.left} cells are left to run, but none can be run now")
                results: list[CellResult] = []
                end = time.monotonic() + _STEP_SECONDS
                try:
                    for cell in block.cells:
                        results.append(run_one(cell, system, load))
                        if time.monotonic() >= end:
                            break
                finally:
                    # Also after an interrupt: what is finished is kept.
                    queue.report(block.number, results)
                    queue.recall(block.number)
                    if results:
                        sink(results)
                        queue.note(results)

    def _run_in_child(
        self, queue: BlockQueue, configurations: Sequence[Mapping[str, Any]], sink: Sink
    ) -> None:
        settings = self._settings(configurations, self.plan.workloads.loaded)
        self.stage(f"starting a process for the cells{self._compiling(configurations)}", 0)
        queue.workers = 1
        crew = Crew(1, CellResources(1.0), lambda: [{"CPU": 1.0}])
        driver = SweepDriver(queue, sink=sink, busy=partial(self.stage, "running"), crew=crew)
        with contextlib.closing(ChildWorkers(partial(Simulator, settings), self.folder)) as workers:
            driver.run(workers, lambda: self._stay(queue, beside=True))

    def _settings(
        self, configurations: Sequence[Mapping[str, Any]], workloads: Mapping[str, Any]
    ) -> SimulatorSettings:
        plan = self.plan
        timeout, memory = plan.space.timeout, plan.needs.memory
        return SimulatorSettings(plan.code.sent, workloads, timeout, memory, configurations)

    def _compiling(self, configurations: Sequence[Mapping[str, Any]]) -> str:
        compiled = kernel_marker(self.plan.system, configurations, self.plan.code.checksum).exists()
        return "" if compiled else ", and compiling the kernels that this machine does not have yet"

    def _run_on_ray(self, queue: BlockQueue, configurations: Sequence[Mapping[str, Any]], sink: Sink) -> None:
        self.start_ray()
        self.stage("starting Ray", 0)
        assert self._session is not None
        crew = self._session.wait()
        import ray  # noqa: PLC0415

        from gridtune.sweep.execution.workers import run_on_ray  # noqa: PLC0415

        plan = self.plan
        stored = {name: ray.put(workload) for name, workload in plan.workloads.loaded.items()}
        settings = self._settings(configurations, stored)
        # Asked before our own workers take some. Ray leaves out what is used up.
        every, free = (now.get("CPU", 0.0) for now in (ray.cluster_resources(), ray.available_resources()))
        full = "" if free >= plan.needs.cpus else f": waiting for one of {every:g} processors, all in use"
        self.stage(f"starting workers{self._compiling(configurations)}{full}", 0)
        queue.workers = crew.workers
        run_on_ray(queue, settings, sink=sink, busy=partial(self.stage, "running"), crew=crew)
        self.stage("ending Ray", 0)
