"""What the driver decides while Tune runs: how many workers there are, their blocks, and deaths.

A worker is one trial of Tune for as long as there are cells: a trial costs Tune some 25 ms, and starting its
worker takes seconds. When a worker has run its block, it is given the next.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence

from gridtune.core.cells import CellResult
from gridtune.errors import SweepError
from gridtune.sweep.execution.blocks import Block, BlockQueue
from gridtune.sweep.execution.placement import Crew

__all__ = [
    "Busy",
    "Sink",
    "SweepDriver",
    "death_text",
    "is_of_node",
    "no_worker_is_fit",
    "too_many_deaths",
]

#: Characters of what Ray says about a death that are kept.
_ERROR_CHARACTERS = 400
#: Workers that may die one after another, beside two for each worker, before the sweep is given up.
_DEATHS_TOLERATED = 8
#: Seconds of work after which a worker sends what it has, which is what a killed driver can lose; with many
#: workers more, so that the driver keeps up: seconds for each worker.
_REPORT_SECONDS, _REPORT_SECONDS_PER_WORKER = 0.5, 0.01

#: What Ray says of a worker whose whole node is gone, or lost to it.
_NODE_GONE = re.compile(r"node (has )?died|its node|node was terminated|dead node", re.IGNORECASE)

#: Takes results as they come.
Sink = Callable[[Sequence[CellResult]], None]
#: Hears how many workers are busy.
Busy = Callable[[int], None]


def death_text(error: str | None) -> str:
    """Return what Ray says about a worker's death, in one line."""
    return " ".join(error.split())[:_ERROR_CHARACTERS] if error else "no reason known"


def is_of_node(error: str | None) -> bool:
    """Return whether a worker died because its node did, which says nothing about the cell that it ran."""
    return error is not None and _NODE_GONE.search(error) is not None


def too_many_deaths(in_a_row: int, workers: int, text: str) -> SweepError | None:
    """Return the error that ends a sweep whose workers keep dying; None as long as they may."""
    if in_a_row <= _DEATHS_TOLERATED + 2 * workers:
        return None
    return SweepError(
        f"{in_a_row} workers died one after another; the last: {text}",
        hint="what has been finished is kept; `gridtune run` runs a single cell to look at",
    )


def no_worker_is_fit(reasons: Iterable[str]) -> SweepError:
    """Return the error that ends a sweep none of whose workers could be made ready."""
    listed = list(dict.fromkeys(reasons))
    return SweepError(
        f"no worker can run cells; {listed[0]}",
        hint="no cell has failed for it: mend that on the machine named, and the same command goes on",
    )


class SweepDriver:
    """The driver's side of a sweep.

    Parameters
    ----------
    queue
        Deals out blocks.
    sink
        Takes results; what it raises ends the sweep.
    busy
        Hears how many workers are busy.
    crew
        How many workers there are to be.
    """

    def __init__(self, queue: BlockQueue, *, sink: Sink, busy: Busy, crew: Crew) -> None:
        self.queue = queue
        self.fault: BaseException | None = None
        self.crew = crew
        self._sink = sink
        self._busy = busy
        #: Trials of Tune, that is workers, be they started or not, and the blocks that they have.
        self._trials: set[str] = set()
        self._block_of: dict[str, Block] = {}
        #: When each worker last gave a sign of life.
        self._heard: dict[str, float] = {}
        #: Workers that cannot run cells, and why; each keeps its place.
        self._unfit: dict[str, str] = {}
        self._said_busy = 0

    def __reduce__(self) -> tuple[type[object], tuple[()]]:
        # Tune pickles itself with all its hooks, for a restart that the journal makes needless.
        return (object, ())

    def follow(self) -> None:
        """Take notice of nodes that have joined or left: blocks become smaller or larger with them."""
        if self.crew.follow():
            self.queue.workers = self.crew.workers

    @property
    def over(self) -> bool:
        """Whether there is nothing more to hand out."""
        return self.fault is not None or self.queue.left == 0

    @property
    def report_seconds(self) -> float:
        """Seconds of work after which a worker is to send what it has."""
        return max(_REPORT_SECONDS, _REPORT_SECONDS_PER_WORKER * self.crew.workers)

    def wants(self, trial_id: str) -> bool:
        """Return whether one more worker is wanted now, and take it as this trial of Tune."""
        idle = len(self._trials) - len(self._block_of) - len(self._unfit)
        wanted = not self.over and len(self._trials) < self.crew.workers and self.queue.waiting > idle
        if wanted:
            self._trials.add(trial_id)
        return wanted

    def received(self, trial_id: str, results: Sequence[CellResult], left: int) -> Block | None:
        """Take a worker's results; return its next block if it has run all of the last.

        Parameters
        ----------
        trial_id
            The worker.
        results
            Of its block.
        left
            Cells of the block that it has not run.
        """
        if trial_id not in self._trials:
            return None
        self._unfit.pop(trial_id, None)
        self._heard[trial_id] = time.monotonic()
        block = self._block_of.get(trial_id)
        if block is not None:
            self.queue.report(block.number, results)
            self._pass_on(results)
            if left and not self.over:
                return None
            self._give_up(trial_id)
        return self._next_block(trial_id)

    def _next_block(self, trial_id: str) -> Block | None:
        block = None
        try:
            block = None if self.over else self.queue.take()
        except Exception as fault:
            self.fault = fault
        if block is not None:
            self._block_of[trial_id] = block
        self._say_busy()
        return block

    def unfit(self, trial_id: str, reason: str) -> None:
        """Take a worker's reason for not being able to run cells; it is given none until it is.

        Where no worker is left, the sweep ends: no cell is to blame.
        """
        if trial_id in self._trials:
            self._give_up(trial_id)
            self._unfit[trial_id] = reason
        if len(self._unfit) >= self.crew.workers:
            self.fault = self.fault or no_worker_is_fit(self._unfit.values())

    def died(self, trial_id: str, error: str | None) -> None:
        """Take notice of a worker's death."""
        if trial_id not in self._trials:
            return
        text, block, now = death_text(error), self._block_of.pop(trial_id, None), time.monotonic()
        if block is None:
            self.queue.deaths_in_a_row += 1
        elif is_of_node(error):
            self.queue.lose_start(block.number)
        else:
            elapsed = now - self._heard[trial_id]
            self._pass_on(self.queue.worker_died(block.number, elapsed=elapsed, error=text))
        self._trials.discard(trial_id)
        self._heard.pop(trial_id, None)
        self._unfit.pop(trial_id, None)
        self._say_busy()
        self.fault = self.fault or too_many_deaths(self.queue.deaths_in_a_row, self.crew.most, text)

    def _say_busy(self) -> None:
        if len(self._block_of) != self._said_busy:
            self._said_busy = len(self._block_of)
            self._busy(self._said_busy)

    def _give_up(self, trial_id: str) -> None:
        """Take back what a worker has not run of its block."""
        block = self._block_of.pop(trial_id, None)
        if block is not None:
            self.queue.recall(block.number)

    def _pass_on(self, results: Sequence[CellResult]) -> None:
        if not results:
            return
        try:
            self._sink(results)
            self.queue.note(results)
        except Exception as fault:
            # Tune would take an error in a hook for the trial's; it is kept and raised when Tune is out.
            self.fault = self.fault or fault
