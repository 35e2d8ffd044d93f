"""What the driver decides while Tune runs: who gets which block, when a trial ends, what a death means.

Tune gives the actor of a trial that ends to the next trial and, if that one's own actor is still starting,
ends the start. With trials much shorter than the seconds a worker takes to start, a sweep would stay with
the first worker. So, as long as a worker is starting, no trial ends: the first blocks share out
everything there is, and what is left of them when all workers are there is recalled and dealt out again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence

from gridtune.core.cells import CellResult
from gridtune.errors import SweepError
from gridtune.sweep.blocks import Block, BlockQueue
from gridtune.sweep.placement import Crew

__all__ = ["Busy", "Sink", "SweepDriver", "death_text", "is_of_node", "no_worker_is_fit", "too_many_deaths"]

#: Characters of what Ray says about a death that are kept.
_ERROR_CHARACTERS = 400
#: Workers that may die one after another, beside two for each worker, before the sweep is given up.
_DEATHS_TOLERATED = 8
#: Seconds that trials are held for a worker that is starting; on a full cluster it may never start.
_PATIENCE_SECONDS = 30.0

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
    timeout
        Seconds a cell may take, or None.
    """

    def __init__(
        self,
        queue: BlockQueue,
        *,
        sink: Sink,
        busy: Busy,
        crew: Crew,
        timeout: float | None,
    ) -> None:
        self.queue = queue
        self.fault: BaseException | None = None
        self.crew = crew
        self._sink = sink
        self._busy = busy
        self._timeout = timeout
        self._block_of: dict[str, Block] = {}
        #: When each running trial last gave a sign of life.
        self._heard: dict[str, float] = {}
        #: Whether all workers have been there at once; until then blocks are shares of everything.
        self._complete = False
        self._held_since: float | None = None
        #: Trials whose worker cannot run cells, and why; each keeps its worker's place.
        self._unfit: dict[str, str] = {}

    def __reduce__(self) -> tuple[type[object], tuple[()]]:
        # Tune pickles itself with all its hooks, for a restart that the journal makes needless.
        return (object, ())

    @property
    def _workers(self) -> int:
        return max(1, self.crew.workers - len(self._unfit))

    def follow(self) -> None:
        """Take notice of nodes that have joined or left: blocks become smaller or larger with them."""
        if self.crew.follow():
            self.queue.workers = self.crew.workers

    @property
    def over(self) -> bool:
        """Whether there is nothing more to hand out."""
        return self.fault is not None or self.queue.left == 0

    def suggest(self, trial_id: str) -> Block | None:
        """Return the block of a new trial, or None when there is none now."""
        most = self.crew.trials(self._workers) if self._complete else self._workers
        if self.over or len(self._block_of) >= most:
            return None
        try:
            among = None if self._complete else self._workers - len(self._block_of)
            block = self.queue.take(among=among)
        except Exception as fault:
            self.fault = fault
            return None
        if block is not None:
            self._block_of[trial_id] = block
        return block

    def started(self, trial_id: str) -> None:
        """Note that a trial has its worker."""
        self._heard[trial_id] = time.monotonic()
        self._held_since = None
        if len(self._heard) >= self._workers:
            self._complete = True
        self._busy(len(self._heard))

    def should_end(self, trial_id: str, left: int, ran: int = 1) -> bool:
        """Return whether a trial should end now whose worker has run `ran` cells and has `left`."""
        if self.over or trial_id not in self._block_of:
            return True
        waiting_for_worker = len(self._heard) < min(self._workers, len(self._block_of))
        if left and not ran:
            # Only a sign of life. Ended now, it would be dealt out as it is, and end again, for ever.
            return False
        if left:
            # A share of everything, dealt out before all workers were there.
            return self._complete and not waiting_for_worker and left > self.queue.fair_size(left)
        return not (waiting_for_worker and self._patient())

    def _patient(self) -> bool:
        now = time.monotonic()
        if self._held_since is None:
            self._held_since = now
        patient = now - self._held_since < _PATIENCE_SECONDS
        if not patient:
            self._complete = True
        return patient

    def unfit(self, trial_id: str, reason: str) -> bool:
        """Take a worker's reason for not being able to run cells, "" once it is; return whether it is.

        Its cells are dealt out to others. Where no worker is left, the sweep ends: no cell is to blame.
        """
        if not reason:
            self._unfit.pop(trial_id, None)
            return True
        if trial_id in self._block_of:
            self.queue.recall(self._block_of[trial_id].number)
            self._forget(trial_id)
        self._unfit[trial_id] = reason
        if len(self._unfit) >= self.crew.workers:
            self.fault = self.fault or no_worker_is_fit(self._unfit.values())
        return False

    def received(self, trial_id: str, results: Sequence[CellResult], *, ended: bool) -> None:
        """Take a trial's results; if it has ended, take back what it has not run."""
        if trial_id not in self._block_of:
            return
        self._heard[trial_id] = time.monotonic()
        self.queue.report(self._block_of[trial_id].number, results)
        self._pass_on(results)
        if ended:
            self.queue.recall(self._block_of[trial_id].number)
            self._forget(trial_id)

    def died(self, trial_id: str, error: str | None) -> None:
        """Take notice of a worker's death."""
        self._unfit.pop(trial_id, None)
        if trial_id not in self._block_of:
            return
        now = time.monotonic()
        elapsed = now - self._heard.get(trial_id, now)
        text = death_text(error)
        number = self._block_of[trial_id].number
        if trial_id in self._heard and not is_of_node(error):
            self._pass_on(self.queue.worker_died(number, elapsed=elapsed, error=text))
        else:
            self.queue.lose_start(number)
        self._forget(trial_id)
        self.fault = self.fault or too_many_deaths(self.queue.deaths_in_a_row, self.crew.most, text)

    def _forget(self, trial_id: str) -> None:
        self._block_of.pop(trial_id, None)
        self._heard.pop(trial_id, None)
        self._busy(len(self._heard))

    def _pass_on(self, results: Sequence[CellResult]) -> None:
        if not results:
            return
        try:
            self._sink(results)
            self.queue.note(results)
        except Exception as fault:
            # Tune would take an error in a hook for the trial's; it is kept and raised when Tune is out.
            self.fault = self.fault or fault
