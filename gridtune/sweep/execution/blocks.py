"""Blocks: runs of cells handed to a worker at once, and what happens to them when the worker dies.

A cell may take 2 ms, and so may handing it out. Blocks share that cost. They are large while much is left and
small towards the end, so that the workers finish together.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gridtune.core.cells import Cell, CellResult

__all__ = [
    "Block",
    "BlockQueue",
]

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
_DEATHS_TO_GIVE_UP = 2
#: The same once a cell with such a death was done after all: workers die here of something else too.
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
        self._out: dict[int, list[Cell]] = {}
        self._blocks: dict[int, Block] = {}
        self._deaths: Counter[str] = Counter()
        self._deaths_to_give_up = _DEATHS_TO_GIVE_UP
        #: How many take blocks at once; known for sure when Ray is there.
        self.workers = max(1, workers)
        self._timeout = timeout
        self._count = 0
        self._seconds, self._timed = 0.0, 0
        #: Workers that died since the last result.
        self.deaths_in_a_row = 0

    def add(self, cells: Iterable[Cell]) -> None:
        """Add cells at the end."""
        self._waiting.extend(cells)

    @property
    def out(self) -> int:
        """Blocks that workers have."""
        return len(self._out)

    @property
    def left(self) -> int:
        """Cells without a result."""
        return self.waiting + sum(map(len, self._out.values()))

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
            return self.hand_out(self._suspects.popleft(), careful=True)
        if not self._waiting:
            return None
        size = min(self.fair_size(), len(self._waiting))
        return self.hand_out([self._waiting.popleft() for _ in range(size)])

    def recall(self, number: int) -> None:
        """Take back the cells that a block's worker, which is between two cells, has not run."""
        cells = self._out.pop(number, [])
        if cells and self._blocks[number].careful and self._timeout is None:
            self._suspects.appendleft(tuple(cells))
        else:
            self._waiting.extendleft(reversed(cells))

    def fair_size(self) -> int:
        """Return how many cells a block should have now."""
        left = len(self._waiting)
        even = left / (_BLOCKS_PER_WORKER * self.workers)
        if not self._timed:
            return max(1, min(_FIRST_BLOCK, math.ceil(even)))
        worthwhile = _WORTHWHILE_SECONDS / max(self._seconds / self._timed, 1e-6)
        return max(1, min(_LARGEST_BLOCK, math.ceil(max(even, min(worthwhile, left / self.workers)))))

    def hand_out(self, cells: Sequence[Cell], *, careful: bool | None = None) -> Block:
        """Return a block of these cells, which must not be waiting."""
        self._count += 1
        sure = self._timeout is not None if careful is None else careful
        block = Block(self._count, tuple(cells), sure)
        self._out[block.number] = list(cells)
        self._blocks[block.number] = block
        return block

    def report(self, number: int, results: Sequence[CellResult]) -> None:
        """Note that a block's worker has sent results."""
        if results:
            self.deaths_in_a_row = 0
        reported = {result.cell_id for result in results}
        if not reported.isdisjoint(self._deaths):
            self._deaths_to_give_up = _DEATHS_TO_GIVE_UP_AMONG_OTHERS
        rest = [cell for cell in self._out.pop(number, []) if cell.cell_id not in reported]
        if rest:
            self._out[number] = rest
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
        block, cells = self._blocks[number], self._out.pop(number, [])
        if not cells:
            return []
        if not block.careful:
            # Any of them may have been running; they run again where the one that ends a worker is seen.
            for first in range(0, len(cells), _SUSPECTS_TOGETHER):
                self._suspects.append(tuple(cells[first : first + _SUSPECTS_TOGETHER]))
            return []
        guilty, rest = cells[0], tuple(cells[1:])
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
