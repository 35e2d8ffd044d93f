"""What the driver decides while Tune runs an adaptive search: which trial runs when, and on which worker.

A configuration is a trial of Tune. When its worker has run a step, the trial goes on with the next one if the
search says so already; else it is paused, or ends, as soon as another trial can take its worker over. Until
then the worker idles: Tune ends a worker that it has no use for at once, and a new one takes seconds. A trial
whose worker died begins again as another trial of Tune.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from gridtune.core.cells import Cell, CellResult
from gridtune.sweep.adaptive import AdaptiveQueue
from gridtune.sweep.blocks import Block
from gridtune.sweep.driver import Busy, Sink, death_text, is_of_node, no_worker_is_fit, too_many_deaths
from gridtune.sweep.placement import Crew
from gridtune.sweep.tuning.trials import SearchTrial

__all__ = ["Action", "Assignment", "SearchDriver"]

#: Seconds that trials keep their workers for one that is starting; on a full cluster it may never start.
_PATIENCE_SECONDS = 30.0

#: What becomes of a trial of Tune: its worker goes on (or idles), it pauses, or it ends.
Action = Literal["CONTINUE", "PAUSE", "STOP"]


@dataclass(frozen=True, repr=False)
class Assignment:
    """What a trial's worker is to run, and what its objective is made of.

    Attributes
    ----------
    block
        The cells.
    judged
        The cells whose mean is the objective when the block is finished.
    earlier
        Results of those that are not in the block.
    metrics
        The objectives' metrics.
    step
        The number of the step, from 1.
    """

    block: Block
    judged: Sequence[Cell]
    earlier: Mapping[str, CellResult]
    metrics: Sequence[str]
    step: int

    def __repr__(self) -> str:
        # Tune writes it into trial names.
        return f"{self.block}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Tune copies what it is given; an assignment never changes.
        return self


@dataclass
class _Run:
    """A trial of Tune that has work: its block, and when its worker was last heard of."""

    block: Block
    heard: float | None = None


class SearchDriver:
    """The driver's side of an adaptive search.

    Parameters
    ----------
    queue
        The search.
    metrics
        The objectives' metrics.
    sink
        Takes results; what it raises ends the sweep.
    busy
        Called with the number of busy workers when it changes.
    crew
        How many workers there are to be; no more are used than the search has configurations at once.
    timeout
        Seconds a cell may take, or None.
    """

    def __init__(
        self,
        queue: AdaptiveQueue,
        *,
        metrics: Sequence[str],
        sink: Sink,
        busy: Busy,
        crew: Crew,
        timeout: float | None,
    ) -> None:
        self.queue = queue
        self.fault: BaseException | None = None
        self.crew = crew
        self._metrics, self._sink, self._busy = tuple(metrics), sink, busy
        self._timeout = timeout
        self._runs: dict[str, _Run] = {}
        self._paused: dict[SearchTrial, Any] = {}
        #: The block that runs next; it goes to a paused trial or a new one.
        self._next: Block | None = None
        #: Workers that trials have left and no trial has taken over.
        self._free = 0
        self._complete = False
        self._waiting_since: float | None = None
        #: Trials of Tune whose worker cannot run cells, and why.
        self._unfit: dict[str, str] = {}

    def __reduce__(self) -> tuple[type[object], tuple[()]]:
        # Tune pickles itself with all its hooks, for a restart that the journal makes needless.
        return (object, ())

    @property
    def _workers(self) -> int:
        return max(1, min(self.crew.workers - len(self._unfit), self.queue.search.parallel))

    def follow(self) -> None:
        """Take notice of nodes that have joined or left."""
        self.crew.follow()

    @property
    def over(self) -> bool:
        """Whether there is nothing more to run."""
        return self.fault is not None or self.queue.left == 0

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """Return the configuration of a new trial of Tune, or None if there is none now."""
        block = self._peek()
        if block is None or self.queue.trial_of(block) in self._paused:
            return None
        self._next = None
        return self._begin(trial_id, block)

    def resumed(self) -> Any:
        """Return a paused trial of Tune that is to go on, with its new configuration; None without one."""
        block = self._peek()
        trial = None if block is None else self._paused.pop(self.queue.trial_of(block), None)
        if block is not None and trial is not None:
            self._next = None
            trial.set_config(self._begin(trial.trial_id, block))
        return trial

    def abandoned(self) -> list[Any]:
        """Return the paused trials of Tune whose search has ended; they are paused no more."""
        ended = [trial for trial in self._paused if trial.ended or self.over]
        return [self._paused.pop(trial) for trial in ended]

    def _peek(self) -> Block | None:
        most = self.crew.trials(self._workers) if self._complete else self._workers
        if self._next is None and not self.over and len(self._runs) < most:
            self._next = self.queue.take(without=self._live)
        return self._next

    @property
    def _live(self) -> set[SearchTrial]:
        """The search's trials whose worker goes on with them."""
        return {self.queue.trial_of(run.block) for run in self._runs.values()}

    def _begin(self, trial_id: str, block: Block) -> dict[str, Any]:
        self._runs[trial_id] = _Run(block)
        trial, results = self.queue.trial_of(block), self.queue.results
        judged = self.queue.search.judged(trial)
        earlier = {cell.cell_id: results[cell.cell_id] for cell in judged if cell.cell_id in results}
        step = trial.finished_steps + 1
        return {**trial.point, "assignment": Assignment(block, judged, earlier, self._metrics, step)}

    def started(self, trial_id: str) -> None:
        """Note that a trial has its worker."""
        self._runs[trial_id].heard = time.monotonic()
        self._free = max(0, self._free - 1)
        self._waiting_since = None
        if self._started >= self._workers:
            self._complete = True
        self._busy(self._started)

    @property
    def _started(self) -> int:
        return sum(run.heard is not None for run in self._runs.values())

    def received(self, trial: Any, results: Sequence[CellResult], left: int) -> Action:
        """Take a trial's results; return what becomes of it.

        Parameters
        ----------
        trial
            The trial of Tune.
        results
            Results of its block.
        left
            Cells of the block that it has not run.
        """
        run = self._runs.get(trial.trial_id)
        if run is None:
            return "STOP"
        run.heard = time.monotonic()
        self.queue.report(run.block.number, results)
        self._pass_on(results)
        search_trial = self.queue.trial_of(run.block)
        if not self.over and (left or self._goes_on(trial, search_trial) or not self._may_leave()):
            return "CONTINUE"
        self.queue.recall(run.block.number)
        self._forget(trial.trial_id)
        self._free += 1
        if self.over or self._needs_no_more(search_trial) or search_trial in self._paused:
            return "STOP"
        self._paused[search_trial] = trial
        return "PAUSE"

    def unfit(self, trial_id: str, reason: str) -> bool:
        """Take a worker's reason for not being able to run cells; see `SweepDriver.unfit`."""
        if not reason:
            self._unfit.pop(trial_id, None)
            return True
        if trial_id in self._runs:
            self.queue.recall(self._runs[trial_id].block.number)
            self._forget(trial_id)
        self._unfit[trial_id] = reason
        if len(self._unfit) >= self.crew.workers:
            self.fault = self.fault or no_worker_is_fit(self._unfit.values())
        return False

    def _goes_on(self, trial: Any, search_trial: SearchTrial) -> bool:
        """Give a trial's worker the next step, if it has come to that; return whether it has."""
        block = self.queue.take_of(search_trial)
        if block is None:
            return False
        assignment = self._begin(trial.trial_id, block)["assignment"]
        self._runs[trial.trial_id].heard = time.monotonic()
        # Calls of an actor are run in their order: this one comes before the trial's next step.
        trial.temporary_state.ray_actor.assign.remote(assignment)
        return True

    def _needs_no_more(self, trial: SearchTrial) -> bool:
        """Return whether a trial has run all its steps; the last one's turn may be still to come."""
        last = trial.status == "RUNNING" and trial.finished_steps == len(trial.steps) - 1
        return trial.ended or (last and not self.queue.missing(trial))

    def _may_leave(self) -> bool:
        """Return whether a trial that is done may leave its worker."""
        if self._started < min(self._workers, len(self._runs)) and self._patient():
            return False
        starting = len(self._runs) - self._started
        return starting + self.queue.pieces(self._live) + (self._next is not None) > self._free

    def _patient(self) -> bool:
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since >= _PATIENCE_SECONDS:
            self._complete = True
            return False
        return True

    def died(self, trial_id: str, error: str | None) -> None:
        """Take notice of a worker's death."""
        self._unfit.pop(trial_id, None)
        if trial_id not in self._runs:
            return
        run, now = self._runs[trial_id], time.monotonic()
        text = death_text(error)
        self._forget(trial_id)
        if run.heard is None or is_of_node(error):
            self.queue.lose_start(run.block.number)
        else:
            elapsed = now - run.heard
            self._pass_on(self.queue.worker_died(run.block.number, elapsed=elapsed, error=text))
        self.fault = self.fault or too_many_deaths(self.queue.deaths_in_a_row, self.crew.most, text)

    def _forget(self, trial_id: str) -> None:
        self._runs.pop(trial_id, None)
        self._busy(self._started)

    def _pass_on(self, results: Sequence[CellResult]) -> None:
        if not results:
            return
        try:
            self._sink(results)
            self.queue.note(results)
        except Exception as fault:
            # Tune would take an error in a hook for the trial's; it is kept and raised when Tune is out.
            self.fault = self.fault or fault
