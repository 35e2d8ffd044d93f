"""Where a sweep's cells run: in this process, on Ray, or first here and then on Ray."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gridtune.core.cells import Cell, CellResult
from gridtune.core.system import CellResources, System
from gridtune.errors import SweepError
from gridtune.sweep.execution.blocks import Block, BlockQueue, Busy, Sink
from gridtune.sweep.execution.cluster import (
    Crew,
    RaySession,
    nodes_now,
    processors_here,
    room_for,
    waiting_text,
    warn_after_wait,
)
from gridtune.sweep.execution.runner import is_prepared, prepare_worker, run_one, single_threaded
from gridtune.sweep.search.adaptive import AdaptiveQueue
from gridtune.sweep.space.code import SweepCode
from gridtune.sweep.space.plan import Workloads
from gridtune.sweep.space.schema import SearchSpace

__all__ = [
    "Executor",
    "Stage",
    "SweepExecutor",
    "Work",
    "check_executor",
    "run_inline",
]

#: Where cells run: in this process, on Ray, or "auto": here while that is sooner.
Executor = Literal["auto", "inline", "ray"]
#: Hears what a sweep is busy with, and with how many workers.
Stage = Callable[[str, int], None]

#: Seconds that Ray takes to start, to start workers and to end.
_RAY_SECONDS = 5.0
#: Seconds of a cell up to which cells go on here while Ray starts: compiled code keeps the interpreter from
#: the thread that starts it.
_SHORT_CELL_SECONDS = 0.05
#: In the sweep's folder while its cells run in this process.
_MARKER = ".inline"


def check_executor(
    space: SearchSpace,
    executor: Executor | None,
    *,
    address: str | None,
    workers: int | None,
    system: System | None = None,
) -> Executor:
    """Return where the cells of a space are to run.

    Parameters
    ----------
    space
        Its `resources` say where by default.
    executor
        What the user asked for, or None.
    address, workers
        A running cluster and the cells at once, where the user asked for them: both are Ray's.
    system
        What is searched; its cells may need Ray.

    Raises
    ------
    SweepError
        If this process is to do what only Ray does.
    """
    if executor not in (None, "auto", "inline", "ray"):
        raise SweepError(f"no executor is named {executor!r}", hint="it is auto, inline or ray")
    needs_ray = system is not None and system.needs_ray
    chosen: Executor = executor or space.resources.executor
    if chosen == "auto":
        given = address or workers or space.timeout or os.environ.get("RAY_ADDRESS") or needs_ray
        return "ray" if given or _ray_runs_here() else "auto"
    if chosen == "inline":
        refused = {
            "--address": address is not None,
            "--workers": (workers or 0) > 1,
            "a timeout": space.timeout is not None,
            f"the system {space.system}": needs_ray,
        }
        for what, given in refused.items():
            if given:
                message = f"the inline executor runs one cell after another in this process: {what} needs Ray"
                raise SweepError(message, hint="use the executor ray")
    return chosen


def _ray_runs_here() -> bool:
    """Whether this process is connected to Ray already, so that nothing has to be started."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


@dataclass(frozen=True)
class Work:
    """What cells need beside their parameters.

    Attributes
    ----------
    system
        The system.
    code
        The code of users.
    workloads
        The traces, which the driver has read.
    configurations
        What kernels are compiled or loaded for beforehand.
    typical
        Mean seconds of the cells that were finished before, or None.
    """

    system: System
    code: SweepCode
    workloads: Workloads
    configurations: Sequence[Mapping[str, Any]]
    typical: float | None


@dataclass
class SweepExecutor:
    """Runs what a queue deals out.

    Attributes
    ----------
    space
        The search space.
    executor
        Where, as `check_executor` says.
    address
        A running Ray cluster to join, or None.
    workers
        Cells at once; 0 for as many as there are processors.
    needs
        What each cell occupies.
    folder
        The sweep's.
    stage
        Hears what the sweep is busy with.
    """

    space: SearchSpace
    executor: Executor
    address: str | None
    workers: int
    needs: CellResources
    folder: Path
    stage: Stage
    _session: RaySession | None = field(default=None, init=False)
    #: Workers that run cells.
    _busy: int = field(default=0, init=False)

    def start_ray(self) -> None:
        """Start Ray, and import what drives it, while this thread goes on."""
        if self._session is None:
            self._session = RaySession(
                self.address,
                workers=self.workers,
                needs=self.needs,
                silent=self._head_is_silent,
                tune=self.space.strategy.adaptive is not None,
            )

    def close(self) -> None:
        """End what was started."""
        if self._session is not None:
            self._session.end()

    def run(self, queue: BlockQueue, work: Work, *, sink: Sink) -> None:
        """Run cells until none is left.

        Raises
        ------
        SweepError
            If Ray cannot be started or reached, or workers keep dying.
        """
        if self.executor == "inline" or (self.executor == "auto" and self._begins_here(queue, work)):
            self._run_here(queue, work, sink)
        if queue.left:
            self._run_on_ray(queue, work, sink)

    def _begins_here(self, queue: BlockQueue, work: Work) -> bool:
        """Whether cells begin in this process: not if one ended it before, or if there is too much to do."""
        left = None if work.typical is None else work.typical * queue.left
        return not (self.folder / _MARKER).exists() and (left is None or self._is_little(left))

    def _is_little(self, seconds: float) -> bool:
        workers = self.workers or processors_here()
        return seconds * (1 - 1 / workers) <= _RAY_SECONDS and seconds <= 2 * _RAY_SECONDS

    def _run_here(self, queue: BlockQueue, work: Work, sink: Sink) -> None:
        system, load = work.system, work.workloads.load
        if not self._is_prepared(work):
            self.stage("compiling kernels: once, it can take a minute", 0)
        prepare_worker(system, work.configurations, work.code.checksum)

        def stay() -> bool:
            if self.executor == "inline" or queue.seconds_left is None:
                return True
            if self._session is None and self._is_little(queue.seconds_left):
                return True
            # What cannot be sent to workers is refused before Ray starts.
            _ = work.code.sent
            self.start_ray()
            short = queue.seconds_left <= _SHORT_CELL_SECONDS * queue.left
            return short and self._session is not None and not self._session.answered

        with _marked(self.folder / _MARKER), single_threaded():
            run_inline(
                queue,
                lambda cell: run_one(cell, system, load),
                sink=sink,
                busy=lambda number: self.stage("running", number),
                stay=stay,
            )

    @staticmethod
    def _is_prepared(work: Work) -> bool:
        return is_prepared(work.system, work.configurations, work.code.checksum)

    def _run_on_ray(self, queue: BlockQueue, work: Work, sink: Sink) -> None:
        code = work.code.sent
        self.stage("starting Ray", 0)
        self.start_ray()
        assert self._session is not None
        count, room = self._session.wait(
            lambda: self.stage("still starting Ray: the machine is busy, or this is the first time", 0)
        )
        import ray  # noqa: PLC0415

        from gridtune.sweep.execution.workers import SimulatorSettings, run_on_ray  # noqa: PLC0415

        settings = SimulatorSettings(
            code=code,
            workloads={name: ray.put(workload) for name, workload in work.workloads.loaded.items()},
            timeout=self.space.timeout,
            memory=self.needs.memory,
            configurations=work.configurations,
        )
        compiling = "" if self._is_prepared(work) else ", which compile kernels: once, it can take a minute"
        self.stage(f"starting workers{compiling}", 0)
        queue.workers = count
        # Asked before our own workers take what is free.
        where = self.address or os.environ.get("RAY_ADDRESS") or "this machine"
        text = waiting_text(where, ray.cluster_resources(), ray.available_resources(), self.needs.cpus)
        with warn_after_wait(text, lambda message: self.stage(message, 0)) as started:

            def busy(number: int) -> None:
                started()
                self._busy = number
                self.stage("running", number)

            crew = Crew(count, room, self.needs, self._crew_now)
            if isinstance(queue, AdaptiveQueue):
                from gridtune.sweep.search.tuning import run_in_tune  # noqa: PLC0415

                scratch = self.folder / ".tune"
                run_in_tune(queue, settings, sink=sink, busy=busy, crew=crew, scratch=scratch)
            else:
                run_on_ray(queue, settings, sink=sink, busy=busy, crew=crew)
        self.stage("ending Ray", 0)

    def _head_is_silent(self, address: str) -> None:
        what = f"waiting for the cluster's head at {address}, which does not answer" if address else "running"
        self.stage(what, 0 if address else self._busy)

    def _crew_now(self) -> tuple[int, int]:
        """Return the workers to use and those there is room for, as the cluster is now."""
        room = room_for(nodes_now(), self.needs)
        return min(self.workers, room) if self.workers else room, room


@contextlib.contextmanager
def _marked(marker: Path) -> Iterator[None]:
    """Leave a file behind only if this process dies: its cells then run in workers, which may die."""
    marker.touch()
    try:
        yield
    finally:
        marker.unlink(missing_ok=True)


#: Seconds of work after which results are passed on: what a killed process can lose.
_STEP_SECONDS = 0.1


def run_inline(
    queue: BlockQueue,
    run: Callable[[Cell], CellResult],
    *,
    sink: Sink,
    busy: Busy,
    stay: Callable[[], bool] = lambda: True,
) -> None:
    """Run what a queue deals out, cell after cell, in this thread.

    Parameters
    ----------
    queue
        Deals out blocks of cells. Those that were not run are waiting in it afterwards.
    run
        Runs a cell; its exceptions are the cell's result.
    sink
        Gets results in the order they come, several times a second. After an interrupt it gets those of the
        cells that were finished.
    busy
        Called with the number of busy workers, here 1 or 0.
    stay
        Called between cells, several times a second: whether to go on here.

    Raises
    ------
    SweepError
        If the queue has cells left and deals out none.
    """
    queue.workers = 1
    busy(1)
    try:
        while queue.left and stay():
            block = queue.take()
            if block is None:
                raise SweepError(f"{queue.left} cells are left to run, but none can be run now")
            _run_block(block, queue, run, sink, stay)
    finally:
        busy(0)


def _run_block(
    block: Block, queue: BlockQueue, run: Callable[[Cell], CellResult], sink: Sink, stay: Callable[[], bool]
) -> None:
    waiting = deque(block.cells)
    results: list[CellResult] = []

    def deliver() -> None:
        delivered = list(results)
        results.clear()
        queue.report(block.number, delivered)
        if delivered:
            sink(delivered)
            queue.note(delivered)

    try:
        end = time.monotonic() + _STEP_SECONDS
        while waiting:
            results.append(run(waiting.popleft()))
            if time.monotonic() >= end:
                deliver()
                if not stay():
                    break
                end = time.monotonic() + _STEP_SECONDS
    finally:
        # Also after an interrupt: what is finished is kept.
        deliver()
        queue.recall(block.number)
