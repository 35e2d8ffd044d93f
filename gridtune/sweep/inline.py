"""Running cells in this process: nothing to start, and the same results as in a worker."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator

from gridtune.core.cells import Cell, CellResult
from gridtune.errors import SweepError
from gridtune.sweep.blocks import Block, BlockQueue
from gridtune.sweep.cluster import ONE_THREAD, environment
from gridtune.sweep.driver import Busy, Sink

__all__ = ["run_inline", "single_threaded"]

#: Seconds of work after which results are passed on: what a killed process can lose.
_STEP_SECONDS = 0.1


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Keep numerical libraries to one thread, as they are in a worker.

    More threads add up numbers in another order, and the last bits of a result would depend on where it was
    computed.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # noqa: PLC0415

    # The variables are for libraries that are loaded later.
    with environment(ONE_THREAD), threadpool_limits(limits=1):
        yield


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
