"""The driver's bookkeeping of its workers: their blocks, signs of life and deaths, and the results passed on.

`workers` drives exhaustive sweeps and races with it, `search.tuning` adaptive searches.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gridtune.core.cells import CellResult
from gridtune.errors import SweepError
from gridtune.sweep.execution.blocks import Block, BlockQueue
from gridtune.sweep.execution.placement import Crew

__all__ = ["Busy", "Driver", "Sink", "SweepDriver"]

#: Characters of Ray's message about a death that are kept.
_ERROR_CHARACTERS = 400
#: Workers that may die one after another, beside two for each worker, before the sweep is given up.
_DEATHS_TOLERATED = 8
#: Seconds of work after which a worker sends its results, which is the most that a killed driver loses; with
#: many workers more, so that the driver keeps up: seconds for each worker.
_REPORT_SECONDS, _REPORT_SECONDS_PER_WORKER = 0.5, 0.01

#: Ray's words for a worker whose whole node is gone, or lost to it.
_NODE_GONE = re.compile(r"node (has )?died|its node|node was terminated|dead node", re.IGNORECASE)

#: Takes results as they come.
Sink = Callable[[Sequence[CellResult]], None]
#: Takes the number of busy workers.
Busy = Callable[[int], None]


@dataclass
class _Run:
    """A worker's block, and the time of its last sign of life; None before it has begun."""

    block: Block
    heard: float | None


class Driver:
    """Bookkeeping of the workers of a sweep.

    Parameters
    ----------
    queue
        Deals out blocks.
    sink
        Takes results; an exception of it ends the sweep.
    busy
        Takes the number of busy workers when it changes.
    crew
        How many workers there are to be.

    Attributes
    ----------
    fault
        The error that ends the sweep; None while it goes on.
    """

    def __init__(self, queue: BlockQueue, *, sink: Sink, busy: Busy, crew: Crew) -> None:
        self.queue, self.crew = queue, crew
        self.fault: Exception | None = None
        self._sink, self._say_busy = sink, busy
        self._runs: dict[str, _Run] = {}
        #: Workers that cannot run cells, and the reason; each keeps its place.
        self._unfit: dict[str, str] = {}
        self._results: list[CellResult] = []
        self._busy = 0

    @property
    def over(self) -> bool:
        """Whether there is nothing more to run."""
        return self.fault is not None or self.queue.left == 0

    @property
    def busy(self) -> int:
        """Workers that run cells."""
        return sum(run.heard is not None for run in self._runs.values())

    def follow(self) -> None:
        """Adapt to nodes that have joined or left: blocks become smaller or larger with them."""
        if self.crew.follow():
            self.queue.workers = self.crew.workers

    def begin(self, worker: str, block: Block, *, alive: bool) -> None:
        """Give a worker a block; `alive` if a death from now on may be a cell's fault."""
        self._runs[worker] = _Run(block, time.monotonic() if alive else None)
        self._count_busy()

    def sign_of_life(self, worker: str) -> None:
        """Note that a worker runs its block."""
        self._runs[worker].heard = time.monotonic()
        self._count_busy()

    def report(self, worker: str, results: Sequence[CellResult]) -> None:
        """Take results of a worker's block; `deliver` passes them on."""
        self.sign_of_life(worker)
        self.queue.report(self._runs[worker].block.number, results)
        self._results += results

    def release(self, worker: str) -> None:
        """Take a worker's block away; the cells that it has not run are dealt out again."""
        run = self._runs.pop(worker, None)
        if run is not None:
            self.queue.recall(run.block.number)
        self._count_busy()

    def unfit(self, worker: str, reason: str) -> None:
        """Give a worker that cannot run cells no more of them; without any other the sweep ends.

        It keeps its place: Ray would start another in it, which would fail again.
        """
        self.release(worker)
        self._unfit[worker] = reason
        if len(self._unfit) >= self.crew.workers:
            self.fault = self.fault or SweepError(
                f"no worker can run cells; {next(iter(self._unfit.values()))}",
                hint="no cell has failed for it: mend that on the machine named, and the same command "
                "goes on",
            )

    def died(self, worker: str, error: str | None) -> None:
        """Deal with a worker's death: its block runs again, or a cell is given up."""
        text = " ".join(error.split())[:_ERROR_CHARACTERS] if error else "no reason known"
        run = self._runs.pop(worker, None)
        self._unfit.pop(worker, None)
        if run is None:
            self.queue.deaths_in_a_row += 1
        elif run.heard is None or _NODE_GONE.search(text):
            # The death of a node says nothing about the cell that ran there.
            self.queue.lose_start(run.block.number)
        else:
            elapsed = time.monotonic() - run.heard
            self._results += self.queue.worker_died(run.block.number, elapsed=elapsed, error=text)
        self._count_busy()
        deaths = self.queue.deaths_in_a_row
        if deaths > _DEATHS_TOLERATED + 2 * self.crew.most:
            self.fault = self.fault or SweepError(
                f"{deaths} workers died one after another; the last: {text}",
                hint="what has been finished is kept; `gridtune run` runs a single cell to look at",
            )

    def deliver(self) -> None:
        """Pass on the results that have come; an exception is kept as the fault that ends the sweep."""
        results, self._results = self._results, []
        if results:
            try:
                self._sink(results)
                self.queue.note(results)
            except Exception as fault:
                self.fault = self.fault or fault

    def _count_busy(self) -> None:
        if self.busy != self._busy:
            self._busy = self.busy
            self._say_busy(self._busy)


class SweepDriver(Driver):
    """The driver of workers that take block after block, whichever comes next."""

    def __init__(self, queue: BlockQueue, *, sink: Sink, busy: Busy, crew: Crew) -> None:
        super().__init__(queue, sink=sink, busy=busy, crew=crew)
        self._workers: set[str] = set()
        #: Workers that are ready and have no block.
        self._idle: dict[str, None] = {}

    @property
    def report_seconds(self) -> float:
        """Seconds of work after which a worker is to send its results."""
        return max(_REPORT_SECONDS, _REPORT_SECONDS_PER_WORKER * self.crew.workers)

    def wants(self, worker: str) -> bool:
        """Return whether one more worker is wanted now, and count this one as started if so."""
        without_block = len(self._workers) - len(self._runs) - len(self._unfit)
        wanted = not self.over and len(self._workers) < self.crew.workers
        if wanted and self.queue.waiting > without_block:
            self._workers.add(worker)
            return True
        return False

    def ready(self, worker: str) -> None:
        """Take a worker that can run cells."""
        self._unfit.pop(worker, None)
        self._idle[worker] = None

    def received(self, worker: str, results: Sequence[CellResult], left: int) -> None:
        """Take results; the worker is idle if no cells of its block are left."""
        self.report(worker, results)
        if not left:
            self.release(worker)
            self._idle[worker] = None

    def died(self, worker: str, error: str | None) -> None:
        """Deal with a worker's death; another may be started in its place."""
        self._workers.discard(worker)
        self._idle.pop(worker, None)
        super().died(worker, error)

    def hand_out(self) -> Iterator[tuple[str, Block]]:
        """Yield idle workers with the blocks that they are to run."""
        while self._idle and self.fault is None:
            block = self.queue.take()
            if block is None:
                return
            worker, _ = self._idle.popitem()
            # A careful block begins with a sign of life.
            self.begin(worker, block, alive=not block.careful)
            yield worker, block
