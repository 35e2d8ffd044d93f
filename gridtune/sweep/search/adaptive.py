"""Adaptive searches: their course depends on results alone and not on the speed of workers.

A number of *slots*, the strategy's `parallel`, take turns. Each has a trial; at its turn the result of the
trial's step is given to the scheduler, and what the scheduler decides takes effect: the trial goes on, is
paused or ends. When it ends the sampler is told, and the next trial takes the slot. A result that comes
before its turn waits. So the order of events is that of as many equal workers in lock step, whatever the
number and the speed of the real ones, and results that the journal has lead to where the search stopped.

Without a scheduler a trial is one step, and the rule comes to this: proposal k is made when proposals up to
k − `parallel` have ended, from the results of exactly those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gridtune.core.cells import Cell, CellResult, canonical_json, content_id
from gridtune.errors import GridtuneError
from gridtune.sweep.execution.blocks import BlockQueue
from gridtune.sweep.search.proposals import Evaluation, Proposer
from gridtune.sweep.search.schedulers import TIME, SearchTrial, new_scheduler, step_times
from gridtune.sweep.space.constraints import Constraint
from gridtune.sweep.space.plan import PlannedSpace
from gridtune.sweep.space.points import Point, space_points
from gridtune.sweep.space.schema import SearchSpace
from gridtune.sweep.space.strategies import Population
from gridtune.training.system import HISTORY, with_segment

#: Takes proposals that are new, before their cells run.
Record = Callable[[Sequence[Mapping[str, Any]]], None]


class _LockstepSearch:
    """The trials of an adaptive strategy, in an order that results decide.

    Parameters
    ----------
    planner
        Makes a configuration's cells.
    results
        Results by cell id; the caller adds to it and calls `advance`.
    recorded
        Proposals that the journal has, of this search and of others.
    record
        Takes new proposals, before their cells run.
    """

    def __init__(
        self,
        planner: PlannedSpace,
        results: Mapping[str, CellResult],
        *,
        recorded: Iterable[Mapping[str, Any]] = (),
        record: Record | None = None,
    ) -> None:
        space = planner.space
        options = space.strategy.adaptive
        assert options is not None
        self._planner, self._options, self._results = planner, options, results
        self.metrics = [objective.metric for objective in space.objective]
        self.directions = directions = planner.directions
        #: Configurations at once.
        self.parallel = options.parallel
        stopping = space.strategy.stopping
        self._resource = None if stopping is None else stopping.resource
        self._times = step_times(space)
        allowed = getattr(planner.system, "changeable", ())
        self._changeable = [name for name in space.dimensions if name in allowed]
        self._scheduler = new_scheduler(space, self._changeable, self.metrics[0], directions[0])
        # A population is proposed together.
        self._at_once = options.trials if isinstance(stopping, Population) else 1
        # By name, so that a search does not change with the order in which its file lists dimensions.
        dimensions = {name: part for name, part in sorted(space.dimensions.items()) if name != self._resource}
        self._constraints = [Constraint.read(*stated) for stated in space.subject_to.items()]
        self._windows = space.replicates.windows is not None
        self._proposer = Proposer(dimensions, options, directions, self._key, len(self._constraints))
        self._id = _search_id(space, directions)
        self._recorded = {entry["number"]: entry for entry in recorded if entry.get("search") == self._id}
        self._record = record or (lambda proposals: None)
        self._proposals = 0
        self._exhausted = False
        #: Every trial, in the order they were added.
        self.trials: list[SearchTrial] = []
        self._live: dict[SearchTrial, None] = {}
        self._slots: list[SearchTrial | None] = [None] * options.parallel
        self._turn = 0
        self._baseline = [self._baseline_trial(point) for point in space_points(space)]
        for slot in range(len(self._slots)):
            self._slots[slot] = self._next_trial()
        self.advance()

    # What the rest of a sweep asks.

    @property
    def warning(self) -> str | None:
        """The message about proposals of the journal that would be others now; None if there are none."""
        differing = self._proposer.differing
        if not differing:
            return None
        proposals = "1 proposal" if differing == 1 else f"{differing} proposals"
        return (
            f"{proposals} of the journal would be different now, by another version of Optuna or because "
            "cells were run again; the journal's are kept"
        )

    @property
    def over(self) -> bool:
        """True if every trial has ended and there is nothing more to propose."""
        return not any(self._slots)

    @property
    def in_turn(self) -> Iterator[SearchTrial]:
        """The running trials, the one whose result is needed first in front."""
        for slot in range(len(self._slots)):
            trial = self._slots[(self._turn + slot) % len(self._slots)]
            if trial is not None:
                yield trial

    @property
    def unproposed(self) -> int:
        """Number of configurations that are still to be proposed."""
        if self._exhausted:
            return 0
        given = sum(trial.number is not None for trial in self._baseline)
        most = min(self._options.trials + given, self._proposer.size)
        return max(0, int(most) - self._proposals)

    @property
    def cells_each(self) -> int:
        """Cells of a configuration's first step."""
        cells = len(self._planner.strata) * len(self._planner.replicates)
        return len(self._planner.strata) if len(self._times) > 1 and self._resource is None else cells

    def values(self, trial: SearchTrial) -> list[float] | None:
        """Return the mean of each objective over what a trial has run; None if a cell has no value.

        With a resource these are the cells of the last step, else those of all steps.
        """
        return self.means(self.judged(trial))

    def means(self, cells: Sequence[Cell]) -> list[float] | None:
        """Return the mean of each objective over cells that have results; None where one has no value."""
        results = [self._results[cell.cell_id].metrics for cell in cells]
        means = [float(np.mean([one.get(metric, math.nan) for one in results])) for metric in self.metrics]
        return means if all(map(math.isfinite, means)) else None

    def judged(self, trial: SearchTrial) -> list[Cell]:
        """Return the cells whose mean counts after the step that a trial is at."""
        last = trial.finished_steps + (trial.status == "RUNNING")
        steps = trial.steps[:last] if self._resource is None else trial.steps[last - 1 : last]
        return [cell for step in steps for cell in step]

    def advance(self) -> None:
        """Take every result whose turn has come."""
        while self._take_turn():
            pass

    # The course of the search.

    def _take_turn(self) -> bool:
        """Take the next slot's turn; return whether there may be another one now."""
        if self.over:
            return self._revive()
        trial = self._slots[self._turn]
        if trial is not None:
            if any(cell.cell_id not in self._results for cell in trial.cells):
                return False
            self._finish_step(trial)
        if self._slots[self._turn] is None:
            self._slots[self._turn] = self._next_trial()
        self._turn = (self._turn + 1) % len(self._slots)
        return True

    def _revive(self) -> bool:
        """End trials that the scheduler has forgotten, and go on with what there is then, if anything."""
        for trial in list(self._live):
            self.stop_trial(trial)
        self._slots[self._turn] = self._next_trial()
        return not self.over

    def _next_trial(self) -> SearchTrial | None:
        """Return the next trial to run: one that the scheduler chooses, if need be from new proposals."""
        if self._baseline and not self.trials:
            self.trials += self._baseline
            return self._baseline[0]
        trial: SearchTrial | None = self._scheduler.choose_trial_to_run(self)
        if trial is None:
            self._propose()
            trial = self._scheduler.choose_trial_to_run(self)
        if trial is not None:
            trial.status = "RUNNING"
        return trial

    def _finish_step(self, trial: SearchTrial) -> None:
        values = self.values(trial)
        trial.finished_steps += 1
        last = trial.finished_steps == len(trial.steps)
        if values is None:
            if trial.stoppable:
                self._scheduler.on_trial_error(self, trial)
            self._end(trial, "ERROR")
        elif not trial.stoppable:
            self._end(trial, "TERMINATED", values)
        else:
            time = self._times[trial.finished_steps - 1]
            trial.last_result = {self.metrics[0]: values[0], TIME: time, "trial_id": trial.trial_id}
            decision = "STOP" if last else self._scheduler.on_trial_result(self, trial, trial.last_result)
            if decision == "STOP":
                self._scheduler.on_trial_complete(self, trial, trial.last_result)
                self._end(trial, "TERMINATED", values, stopped=not last)
            elif decision == "PAUSE":
                self.pause_trial(trial)

    def _end(
        self, trial: SearchTrial, status: str, values: Sequence[float] | None = None, stopped: bool = False
    ) -> None:
        step = trial.finished_steps
        trial.status = status
        self._leave_slot(trial)
        self._live.pop(trial, None)
        if trial.number is not None:
            excess = () if values is None else self._excess(trial)
            self._proposer.tell(trial.number, Evaluation(values, step, stopped, excess))

    def _excess(self, trial: SearchTrial) -> list[float]:
        """Return how far a trial breaks each constraint, on the workload where it breaks it most.

        The baseline has the first turn, so its results are there.
        """
        both = (self.judged(trial), self._baseline[0].steps[0] if self._baseline else [])
        excess = []
        for constraint in self._constraints:
            own, base = (self._by_place(side, constraint.metric) for side in both)
            worst = -math.inf
            for workload in dict.fromkeys(workload for workload, _ in own):
                labels = [label for name, label in own if name == workload]
                values = np.array([[own[workload, label] for label in labels]])
                compared = np.array([[base.get((workload, label), math.nan) for label in labels]])
                (beyond,) = constraint.margin(values, compared, windows=self._windows).excess
                # What is not known is not kept.
                worst = max(worst, 1.0 if math.isnan(beyond) else float(beyond))
            excess.append(worst)
        return excess

    def _by_place(self, cells: Iterable[Cell], metric: str) -> dict[tuple[str, str], float]:
        """Return workload and replicate to a metric's value; NaN where a cell has none."""
        values = {}
        for cell in cells:
            result = self._results.get(cell.cell_id)
            value = math.nan if result is None else result.metrics.get(metric, math.nan)
            values[cell.workload, cell.replicate.label] = value
        return values

    def _leave_slot(self, trial: SearchTrial) -> None:
        self._slots = [None if other is trial else other for other in self._slots]

    # What schedulers ask: the search is their controller.

    search_alg = None

    def _schedule_trial_save(self, trial: SearchTrial, result: Any = None) -> SearchTrial:
        return trial.checkpoint

    def get_trials(self) -> list[SearchTrial]:
        """Return the trials that have not ended."""
        return list(self._live)

    def get_live_trials(self) -> set[SearchTrial]:
        """Return the trials that have not ended."""
        return set(self._live)

    def pause_trial(self, trial: SearchTrial, should_checkpoint: bool = True) -> None:
        """Let a running trial wait."""
        trial.status = "PAUSED"
        self._leave_slot(trial)

    def take_over(self, trial: SearchTrial, source: SearchTrial, changes: Mapping[str, Any]) -> None:
        """Let a trial go on from where another is, with changed parameters."""
        assert self._resource is not None
        rungs = self._planner.space.dimensions[self._resource].grid or ()
        before = {name: source.point[name] for name in changes}
        history = with_segment(source.point.get(HISTORY), rungs[source.finished_steps - 1], before)
        trial.point = {**source.point, **changes, HISTORY: history}
        done = trial.finished_steps
        trial.steps = [*trial.steps[:done], *self._steps(trial.point, done)]

    def stop_trial(self, trial: SearchTrial) -> None:
        """End a trial that is paused or waits."""
        if trial.ended:
            return
        values = self.values(trial) if trial.finished_steps else None
        # As in Tune, the scheduler is told first, while the trial has its old status.
        self._scheduler.on_trial_remove(self, trial)
        if not trial.ended:
            self._end(trial, "TERMINATED", values, stopped=True)

    # Proposals.

    def _propose(self) -> None:
        """Make the next proposals, and record those that the journal does not have."""
        new = []
        for _ in range(min(self._at_once, self.unproposed)):
            entry = self._repeated()
            point = dict(entry["point"]) if entry else self._proposer.propose()
            if point is None:
                self._exhausted = True
                break
            trial = self._trial(point)
            if entry is None:
                new.append(self._entry(trial))
            self._proposals += 1
            self.trials.append(trial)
            self._live[trial] = None
            self._scheduler.on_trial_add(self, trial)
        if new:
            self._record(new)

    def _repeated(self) -> Mapping[str, Any] | None:
        """Return the journal's next proposal, if the space and the code still make the same cells of it."""
        entry = self._recorded.get(self._proposals)
        if entry is not None:
            try:
                if self._entry(self._trial(dict(entry["point"]))) == entry:
                    self._proposer.repeat(dict(entry["point"]))
                    return entry
            except (GridtuneError, KeyError, TypeError):
                pass
        # What came after it was chosen by results that are no longer those of this search.
        self._recorded.clear()
        return None

    def _entry(self, trial: SearchTrial) -> dict[str, Any]:
        """Return a proposal as the journal has it."""
        configurations = {cell.configuration_id: None for cell in trial.steps[0]}
        return {
            "search": self._id,
            "number": self._proposals if trial.number is None else trial.number,
            "point": trial.point,
            "configurations": list(configurations),
        }

    def _key(self, point: Mapping[str, Any]) -> str:
        return canonical_json(self._planner.understood(point))

    def _trial(self, point: Point) -> SearchTrial:
        number, names = self._proposals, self._planner.space.dimensions
        point = {name: point[name] for name in names if name in point}
        config = {name: point[name] for name in self._changeable if name in point}
        stoppable = len(self._times) > 1
        return SearchTrial(f"{number:05d}", number, point, self._steps(point), stoppable, config=config)

    def _steps(self, point: Point, done: int = 0) -> list[list[Cell]]:
        """Return the cells of each step but the first ones."""
        if self._resource is not None:
            names, resource = self._planner.space.dimensions, self._resource
            rungs = (names[resource].grid or ())[done:]
            points = [{**point, resource: value} for value in rungs]
            ordered = [{name: full[name] for name in (*names, HISTORY) if name in full} for full in points]
            return [self._planner.cells([full]) for full in ordered]
        cells = self._planner.cells([point])
        if len(self._times) == 1:
            return [cells]
        labels = [replicate.label for replicate in self._planner.replicates]
        return [[cell for cell in cells if cell.replicate.label == label] for label in labels]

    def _baseline_trial(self, point: Point) -> SearchTrial:
        """Return the baseline, which always runs to its end; where trials are stopped it is none of them."""
        number = None
        if len(self._times) == 1:
            number, self._proposals = self._proposals, self._proposals + 1
            self._proposer.give(point)
        return SearchTrial("baseline", number, point, [self._planner.cells([point])], False, "RUNNING")


def _search_id(space: SearchSpace, directions: Sequence[str]) -> str:
    """Return the id of a search: proposals of a search with another id say nothing about this one.

    The number of trials is left out: a search with more of them begins with the same.
    """
    strategy = space.strategy.adaptive
    assert strategy is not None
    return content_id(
        {
            "strategy": {space.strategy.kind: strategy.model_dump(mode="json", exclude={"trials"})},
            "dimensions": {
                name: dimension.model_dump(mode="json", exclude_none=True)
                for name, dimension in space.dimensions.items()
            },
            "objective": [[objective.metric for objective in space.objective], list(directions)],
            "replicates": space.replicates.model_dump(mode="json"),
            "baseline": space.baseline,
            **({"subject_to": space.subject_to} if space.subject_to else {}),
        }
    )


class AdaptiveQueue(BlockQueue):
    """Deals out the cells of a `_LockstepSearch`, those of each step as soon as the search has come to it.

    Parameters
    ----------
    planner
        Makes a configuration's cells.
    finished
        Results there are already, by cell id. Cells without one run, also those of old proposals.
    recorded
        Proposals that the journal has.
    record
        Takes new proposals, before their cells run.
    workers
        Workers at once; proposals do not depend on it.
    timeout
        Seconds a cell may take, or None.
    """

    def __init__(
        self,
        planner: PlannedSpace,
        finished: Mapping[str, CellResult],
        *,
        recorded: Iterable[Mapping[str, Any]] = (),
        record: Record | None = None,
        workers: int,
        timeout: float | None = None,
    ) -> None:
        super().__init__([], workers=workers, timeout=timeout)
        #: The results there are, by cell id.
        self.results: dict[str, CellResult] = dict(finished)
        self.search = _LockstepSearch(planner, self.results, recorded=recorded, record=record)
        #: Ids of the cells that were added to those that wait.
        self._added: set[str] = set()
        self._add_cells()

    def cells(self) -> list[Cell]:
        """Return the cells of every step begun so far, each once."""
        return list({cell.cell_id: cell for trial in self.search.trials for cell in trial.begun}.values())

    @property
    def left(self) -> int:
        """Cells without a result: of the steps begun, and of a first step of each configuration to come."""
        return super().left + self.search.cells_each * self.search.unproposed

    def note(self, results: Sequence[CellResult]) -> None:
        """Take results, and let the search advance as far as it can."""
        self.results.update({result.cell_id: result for result in results})
        self.search.advance()
        self._add_cells()

    def _add_cells(self) -> None:
        """Add the cells of running steps that have no result, those whose turn comes first in front."""
        for trial in self.search.in_turn:
            for cell in trial.cells:
                if cell.cell_id not in self.results and cell.cell_id not in self._added:
                    self._added.add(cell.cell_id)
                    self._waiting.append(cell)
