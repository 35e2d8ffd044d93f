"""Blocks: runs of cells handed to a worker at once, and what happens to them when the worker dies.

A cell may take 2 ms, and so may handing it out. Blocks share that cost. They are large while much is left and
small towards the end, so that the workers finish together.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from gridtune.core.cells import Cell, CellResult
from gridtune.errors import SweepError
from gridtune.sweep.execution.cluster import Crew

#: Seconds of work below which a block does not pay for handing it out.
_WORTHWHILE_SECONDS = 2.0
#: Blocks that each worker gets at least, while there is enough to do.
_BLOCKS_PER_WORKER = 4
_LARGEST_BLOCK = 1000
#: Cells in a block before it is known how long they take: they may take minutes.
_FIRST_BLOCK = 4
#: Suspects of a death that are looked into by one worker.
_SUSPECTS_TOGETHER = 16
#: Deaths of workers that were certainly running a cell after which it is given up.
_DEATHS_TO_GIVE_UP = 3
#: The same once all cells that a dead worker may have been running were done after all: workers die here of
#: something else too.
_DEATHS_TO_GIVE_UP_AMONG_OTHERS = 5


@dataclass(frozen=True)
class Block:
    """Some cells for one worker.

    Attributes
    ----------
    number
        Its number within the sweep.
    cells
        The cells, in the order they are run.
    careful
        Report each cell by itself, so that if the worker dies it is known which cell it was running.
    """

    number: int
    cells: tuple[Cell, ...]
    careful: bool = False


class BlockQueue:
    """Deals out cells in blocks until each has a result.

    Parameters
    ----------
    cells
        What is to be run, in this order.
    workers
        How many take blocks at once.
    timeout
        Seconds a cell may take, or None. With a timeout every block is careful.
    """

    def __init__(self, cells: Iterable[Cell], *, workers: int, timeout: float | None = None) -> None:
        self._waiting = deque(cells)
        self._suspects: deque[tuple[Cell, ...]] = deque()
        #: Blocks that workers have, with the cells that have no result, by number.
        self._out: dict[int, Block] = {}
        self._deaths: Counter[str] = Counter()
        #: For each death the cells that the worker may have been running and that have no result yet.
        self._doubtful: list[set[str]] = []
        self._deaths_to_give_up = _DEATHS_TO_GIVE_UP
        #: How many take blocks at once; known for sure when Ray is there.
        self.workers = max(1, workers)
        self._timeout = timeout
        self._count = 0
        self._seconds, self._timed = 0.0, 0
        #: Workers that died since the last result.
        self.deaths_in_a_row = 0

    @property
    def left(self) -> int:
        """Cells without a result."""
        return self.waiting + sum(len(block.cells) for block in self._out.values())

    @property
    def seconds_left(self) -> float | None:
        """Seconds of work that are left by the mean of the results so far; None before the first."""
        return self.left * self._seconds / self._timed if self._timed else None

    @property
    def waiting(self) -> int:
        """Cells that no worker has."""
        return len(self._waiting) + sum(map(len, self._suspects))

    def take(self) -> Block | None:
        """Return the next block, or None when there is nothing to hand out now."""
        if self._suspects:
            return self._hand_out(self._suspects.popleft(), careful=True)
        if not self._waiting:
            return None
        size = min(self.fair_size(), len(self._waiting))
        cells = [self._waiting.popleft() for _ in range(size)]
        return self._hand_out(cells, careful=self._timeout is not None)

    def recall(self, number: int) -> None:
        """Take back the cells that a block's worker, which is between two cells, has not run."""
        block = self._out.pop(number, None)
        if block is not None and block.careful and self._timeout is None:
            self._suspects.appendleft(block.cells)
        elif block is not None:
            self._waiting.extendleft(reversed(block.cells))

    def fair_size(self) -> int:
        """Return how many cells a block should have now."""
        left = len(self._waiting)
        even = left / (_BLOCKS_PER_WORKER * self.workers)
        if not self._timed:
            return max(1, min(_FIRST_BLOCK, math.ceil(even)))
        worthwhile = _WORTHWHILE_SECONDS / max(self._seconds / self._timed, 1e-6)
        return max(1, min(_LARGEST_BLOCK, math.ceil(max(even, min(worthwhile, left / self.workers)))))

    def _hand_out(self, cells: Sequence[Cell], *, careful: bool) -> Block:
        self._count += 1
        block = self._out[self._count] = Block(self._count, tuple(cells), careful)
        return block

    def report(self, number: int, results: Sequence[CellResult]) -> None:
        """Note that a block's worker has sent results."""
        if results:
            self.deaths_in_a_row = 0
        reported = {result.cell_id for result in results}
        for doubtful in self._doubtful:
            doubtful.difference_update(reported)
        if not all(self._doubtful):
            self._deaths_to_give_up = _DEATHS_TO_GIVE_UP_AMONG_OTHERS
        block = self._out.pop(number, None)
        rest = () if block is None else tuple(cell for cell in block.cells if cell.cell_id not in reported)
        if block is not None and rest:
            self._out[number] = replace(block, cells=rest)
        self._timed += len(results)
        self._seconds += sum(result.seconds for result in results if math.isfinite(result.seconds))

    def note(self, results: Sequence[CellResult]) -> None:
        """Take notice of results, wherever they came from; a plain queue learns nothing from them."""

    def lose_start(self, number: int) -> None:
        """Take back a block whose worker died before it began: a death, but no cell's fault."""
        self.deaths_in_a_row += 1
        self.recall(number)

    def worker_died(self, number: int, *, elapsed: float, error: str) -> list[CellResult]:
        """Deal with a block whose worker died; return the results of cells that are given up.

        Parameters
        ----------
        number
            The block's.
        elapsed
            Seconds since its last sign of life.
        error
            What Ray says about the death.
        """
        self.deaths_in_a_row += 1
        block = self._out.pop(number, None)
        if block is None:
            return []
        cells = block.cells
        self._doubtful.append({cell.cell_id for cell in (cells[:1] if block.careful else cells)})
        if not block.careful:
            # Any of them may have been running; they run again where the one that ends a worker is seen.
            for first in range(0, len(cells), _SUSPECTS_TOGETHER):
                self._suspects.append(cells[first : first + _SUSPECTS_TOGETHER])
            return []
        guilty, rest = cells[0], cells[1:]
        if rest:
            self._suspects.append(rest)
        if self._timeout is not None and elapsed >= self._timeout:
            message = f"took longer than the timeout of {self._timeout:g} s; its worker was ended"
            return [CellResult.of(guilty, "timed_out", error=message, seconds=elapsed)]
        self._deaths[guilty.cell_id] += 1
        deaths = self._deaths[guilty.cell_id]
        if deaths < self._deaths_to_give_up:
            self._suspects.append((guilty,))
            return []
        message = f"its worker died with it, {deaths} times: {error}"
        return [CellResult.of(guilty, "lost", error=message, seconds=elapsed)]


#: Characters of Ray's message about a death that are kept.
_ERROR_CHARACTERS = 400
#: Workers that may die one after another, beside two for each worker, before the sweep is given up.
_DEATHS_TOLERATED = 12
#: Seconds of work after which a worker sends its results, which is the most that a killed driver loses; with
#: many workers more, so that the driver keeps up: seconds for each worker.
_REPORT_SECONDS, _REPORT_SECONDS_PER_WORKER = 0.5, 0.01

#: Ray's words for a worker whose whole node is gone, or lost to it.
_NODE_GONE = re.compile(r"node (has )?died|its node|node was terminated|dead node", re.IGNORECASE)

#: Seconds after which a worker that cannot run cells tries once more.
AGAIN_SECONDS = 30.0
#: Seconds between two looks at the workers.
LOOK_SECONDS = 1.0

#: Takes results as they come.
Sink = Callable[[Sequence[CellResult]], None]
#: Takes the number of busy workers.
Busy = Callable[[int], None]


@dataclass
class _Run:
    """A worker's block, and the time of its last sign of life; None before it has begun."""

    block: Block
    heard: float | None


class _Workers(Protocol):
    """The workers of a sweep by name, however they are started: each hosts a `Simulator`."""

    def start(self, name: str) -> None:
        """Start a worker, and let it get ready."""

    def call(self, name: str, method: str, *arguments: Any) -> None:
        """Call a method of a worker's simulator; `answers` has its result."""

    def answers(self) -> Iterable[tuple[str, Any]]:
        """Wait a moment; return answers by worker, an exception as that of a worker that has died."""

    def end(self, name: str) -> None:
        """End a worker, also one that has died, and give its place back."""


class SweepDriver:
    """Bookkeeping of the workers of a sweep, which take block after block, whichever comes next.

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
        self._workers: set[str] = set()
        #: Workers that are ready and have no block.
        self._idle: dict[str, None] = {}

    @property
    def report_seconds(self) -> float:
        """Seconds of work after which a worker is to send its results."""
        return max(_REPORT_SECONDS, _REPORT_SECONDS_PER_WORKER * self.crew.workers)

    @property
    def over(self) -> bool:
        """True if there is nothing more to run."""
        return self.fault is not None or self.queue.left == 0

    def run(self, workers: _Workers, stay: Callable[[], bool] = lambda: True) -> None:
        """Run everything that the queue deals out, as long as `stay` returns True.

        Raises
        ------
        SweepError
            If workers keep dying, or none can be made ready.
        """
        started = 0
        while not self.over and stay():
            self.follow()
            while self.wants(name := f"worker {started + 1}"):
                workers.start(name)
                started += 1
            self._occupy(workers)
            if len(self._idle) == len(self._workers):
                raise SweepError(f"{self.queue.left} cells are left to run, but no worker has any")
            for name, answer in workers.answers():
                self._take(workers, name, answer)
            # Workers have their next blocks before this process writes.
            self._occupy(workers)
            self.deliver()
        if self.fault is not None:
            raise self.fault
        for run in self._runs.values():
            self.queue.recall(run.block.number)

    def _occupy(self, workers: _Workers) -> None:
        for name, block in self.hand_out():
            workers.call(name, "run", block, self.report_seconds)

    def _take(self, workers: _Workers, name: str, answer: Any) -> None:
        if isinstance(answer, Exception):
            workers.end(name)
            self.died(name, str(answer))
        elif answer == "":
            self.ready(name)
        elif isinstance(answer, str):
            self.unfit(name, answer)
            workers.call(name, "prepare", AGAIN_SECONDS)
        else:
            results, left = answer
            self.received(name, results, left)
            if left:
                workers.call(name, "run", None, self.report_seconds)

    def follow(self) -> None:
        """Adapt to nodes that have joined or left: blocks become smaller or larger with them."""
        if self.crew.follow():
            self.queue.workers = self.crew.workers

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

    def hand_out(self) -> Iterator[tuple[str, Block]]:
        """Yield idle workers with the blocks that they are to run."""
        while self._idle and self.fault is None:
            block = self.queue.take()
            if block is None:
                return
            worker, _ = self._idle.popitem()
            # A careful block begins with a sign of life.
            self._runs[worker] = _Run(block, None if block.careful else time.monotonic())
            self._count_busy()
            yield worker, block

    def received(self, worker: str, results: Sequence[CellResult], left: int) -> None:
        """Take results, which `deliver` passes on; the worker is idle if no cells of its block are left."""
        run = self._runs[worker]
        run.heard = time.monotonic()
        self.queue.report(run.block.number, results)
        self._results += results
        if not left:
            del self._runs[worker]
            self.queue.recall(run.block.number)
            self._idle[worker] = None
        self._count_busy()

    def unfit(self, worker: str, reason: str) -> None:
        """Give a worker that cannot run cells none of them; without any other the sweep ends.

        It keeps its place: Ray would start another in it, which would fail again.
        """
        self._unfit[worker] = reason
        if len(self._unfit) >= self.crew.workers:
            self.fault = self.fault or SweepError(
                f"no worker can run cells; {next(iter(self._unfit.values()))}",
                hint="no cell has failed for it: mend that on the machine named, and the same command "
                "goes on",
            )

    def died(self, worker: str, error: str | None) -> None:
        """Deal with a worker's death: its block runs again, or a cell is given up; another may be started."""
        text = " ".join(error.split())[:_ERROR_CHARACTERS] if error else "no reason known"
        run = self._runs.pop(worker, None)
        self._unfit.pop(worker, None)
        self._workers.discard(worker)
        self._idle.pop(worker, None)
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
        busy = sum(run.heard is not None for run in self._runs.values())
        if busy != self._busy:
            self._busy = busy
            self._say_busy(busy)
