"""`run_space`: run a search space, and go on with it after a kill at any moment."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gridtune.arguments import require_number
from gridtune.core.cells import Cell, CellResult
from gridtune.core.remarks import READ_FILES
from gridtune.core.user_code.plugins import content_of
from gridtune.errors import GridtuneWarning, SpaceError, SweepError
from gridtune.sweep.execution.blocks import BlockQueue
from gridtune.sweep.execution.cluster import ONE_THREAD, environment
from gridtune.sweep.execution.executors import Executor, Stage, SweepExecutor, check_executor
from gridtune.sweep.execution.observing import SweepObserver, SweepPlan, SweepResult
from gridtune.sweep.journal.disk import check_writable, when_there_is_room
from gridtune.sweep.journal.journal import JOURNAL_NAME, Journal
from gridtune.sweep.journal.results import find_other_code, results_table, write_table
from gridtune.sweep.search.adaptive import AdaptiveQueue
from gridtune.sweep.shards import Shard, ShardFacts
from gridtune.sweep.space.plan import PlannedSpace, SpaceSource, plan_space
from gridtune.sweep.space.schema import SearchSpace

RESULTS_NAME = "results.parquet"
#: Bytes free below which a sweep is not started: journal, tables, figures and Tune's scratch need some.
_LEAST_FREE = 50 * 2**20
#: Fresh replicates that confirm the best of a search, at least.
_FRESH = 10
#: Configurations that kernels are compiled for beforehand.
_LARGEST_SAMPLE = 200


def default_directory(space: SearchSpace, shard: Shard | None = None) -> Path:
    """Return where a sweep of this space, or one shard of it, keeps its journal and results by default."""
    folder = Path("results") / space.name
    return folder if shard is None else folder / "shards" / f"{shard.number}-of-{shard.count}"


def space_cells(space: SpaceSource) -> list[Cell]:
    """Return the cells of a space that are known up front, without running anything."""
    plan = plan_space(space)
    cells = plan.cells()
    plan.preflight()
    return cells


def run_space(
    space: SpaceSource,
    *,
    directory: str | Path | None = None,
    address: str | None = None,
    workers: int | None = None,
    observers: Sequence[SweepObserver] = (),
    stage: Stage | None = None,
    retry_failed: bool | Collection[str] = False,
    executor: Executor | None = None,
    shard: Shard | None = None,
    mirror: Callable[[bytes], None] | None = None,
    until: contextlib.ExitStack | None = None,
) -> SweepResult:
    """Run what is left to run of a search space; write `results.parquet`.

    Cells that the journal in `directory` has are not run again, so the same call after a kill at any
    moment runs exactly the missing ones, and a call with a larger space runs the new ones.

    Parameters
    ----------
    space
        A path to a YAML file, a mapping of the same keys, a space, or one that `plan_space` has planned.
    directory
        Where journal and results are; by default `results/NAME`.
    address
        A running Ray cluster to join; by default the one `RAY_ADDRESS` names, else a local one that is
        started for this sweep and ended with it.
    workers
        Cells at once; by default what the space says, else as many as there are processors.
    observers
        Hear of the plan, the results and the end.
    stage
        Hears what the sweep is busy with and how many workers are.
    retry_failed
        Run cells again that failed, timed out or were lost; or only those of some of the states `failed`,
        `timed_out` and `lost`.
    executor
        Where cells run; by default what the space's `resources` say. "ray": in workers. "inline": one after
        another in this process, without Ray. "auto": in this process while there are a few seconds of work,
        else on Ray; on Ray also with an address, with workers, or with a timeout. Results do not depend on
        it.
    shard
        Run only this part of the cells, by default in a folder of its own: `results/NAME/shards/3-of-16`.
    mirror
        Takes what is appended to the journal; see `Journal`.
    until
        Keeps the journal, so that no other process begins this sweep, until it is closed; by default until
        this returns.

    Returns
    -------
    SweepResult
        All cells of the space, or of its shard, with their results.

    Raises
    ------
    SpaceError
        If the space is malformed, or the system refuses a configuration.
    SweepError
        If nothing can be written into the folder, another process runs the same sweep, Ray cannot be
        started or reached, or workers keep dying.
    """
    began = time.monotonic()
    if workers is not None:
        require_number(workers, "workers", whole=True, least=1, error=SweepError)
    plan = plan_space(space)
    chosen = check_executor(plan, executor, address=address, workers=workers)
    if shard is not None:
        shard.check(plan.space)
    folder = Path(directory) if directory is not None else default_directory(plan.space, shard)
    check_writable(folder, free=_LEAST_FREE)
    number = workers or plan.space.resources.workers or 0
    runner = SweepExecutor(plan, chosen, address, number, folder, stage or (lambda what, busy: None))
    with contextlib.ExitStack() as own, environment(ONE_THREAD), contextlib.closing(runner):
        if chosen == "ray" and not (folder / JOURNAL_NAME).exists():
            # It starts while the traces are read; a sweep that goes on may have nothing left to run.
            runner.start_ray()
        runner.stage("reading traces", 0)
        cells = plan.cells()
        plan.preflight()

        def on_full(message: str) -> None:
            warnings.warn(message, GridtuneWarning, stacklevel=2)
            runner.stage(message, 0)

        journal = (until or own).enter_context(Journal(folder / JOURNAL_NAME, on_full, mirror))
        if shard is not None:
            ShardFacts.of(shard, cells).write(folder)
            cells = shard.cells(cells)
        sweep = _Sweep(plan, cells, journal, observers, retry_failed)
        sweep.run(runner)
        if not (folder / JOURNAL_NAME).exists():
            warnings.warn(
                f"{folder} was moved or removed during the run, and its journal with it: tables and report "
                f"go into a new {folder}; move {JOURNAL_NAME} there before you extend the sweep",
                GridtuneWarning,
                stacklevel=2,
            )
        runner.stage("writing results", 0)
        return sweep.end(folder / RESULTS_NAME, on_full, began)


def run_fresh(
    plan: PlannedSpace, sweep: SweepResult, configurations: Collection[str], **options: Any
) -> SweepResult:
    """Replay configurations of a sweep on replicates that it did not see, in its folder `confirmation`."""
    points = {one.configuration_id: one.parameters for one in sweep.results}
    fresh = plan.fresh([points[one] for one in configurations], least=_FRESH)
    return run_space(fresh, **{**options, "directory": sweep.path.parent / "confirmation"})


def _edited_since(results: Iterable[CellResult]) -> dict[str, set[str]]:
    """Return the files that code of users read in a call and that have changed since, by id of the cell.

    A file that is not here, as on another machine, is taken to be the same.
    """
    now = cache(lambda file: content_of(Path(file)))
    edited = {}
    for result in results:
        read = result.notes.get(READ_FILES)
        if read and (changed := {file for file, content in read.items() if now(file) not in {"", content}}):
            edited[result.cell_id] = changed
    return edited


class _Sweep:
    """The cells of a sweep, with their results so far."""

    def __init__(
        self,
        plan: PlannedSpace,
        cells: Sequence[Cell],
        journal: Journal,
        observers: Sequence[SweepObserver],
        retry_failed: bool | Collection[str],
    ) -> None:
        retried = {"failed", "timed_out", "lost"} if retry_failed is True else retry_failed or ()
        self._plan, self._cells, self._journal, self._observers = plan, cells, journal, observers
        self._stored = dict(journal.results)
        self._finished = {key: one for key, one in self._stored.items() if one.state not in retried}
        edited = _edited_since(self._finished.values())
        for key in edited:
            del self._finished[key]
        self._edited = Counter(file for files in edited.values() for file in files)
        # Cells of a log that has changed have other ids.
        now = {name: log.checksum for name, log in plan.workloads.loaded.items()}
        read = (pair for result in self._stored.values() for pair in result.traces.items())
        self._edited.update(name for name, checksum in read if now.get(name, checksum) != checksum)
        self._ran = 0

    def run(self, runner: SweepExecutor) -> None:
        """Run the cells that have no result."""
        self._queue = queue = self._new_queue(runner.workers)
        if isinstance(queue, AdaptiveQueue) and queue.search.warning:
            warnings.warn(queue.search.warning, GridtuneWarning, stacklevel=2)
        cells = queue.cells() if isinstance(queue, AdaptiveQueue) else self._cells
        before = self._results_of(cells)
        self._facts = self._sweep_plan(runner.folder, before)
        for observer in self._observers:
            observer.started(self._facts)
        for file, cells_of in sorted(self._edited.items()) if queue.left else ():
            text = f"{file} has changed since {cells_of:,} cells read it: they run again"
            warnings.warn(text, GridtuneWarning, stacklevel=2)
        if queue.left and self._journal.mixes is not None:
            warnings.warn(self._journal.mixes, GridtuneWarning, stacklevel=2)
        if queue.left:
            seconds = [result.seconds for result in before if math.isfinite(result.seconds)]
            typical = sum(seconds) / len(seconds) if seconds else None
            runner.run(queue, self._sample(), typical, sink=self._sink)

    def _sample(self) -> list[Mapping[str, Any]]:
        """Return configurations to compile for, up to a limit; the others compile when first met."""
        cells = list(self._cells)
        if self._plan.space.strategy.adaptive is not None:
            for point in self._plan.corners():
                # A strategy may never come to a point that the system refuses.
                with contextlib.suppress(SpaceError):
                    cells += self._plan.cells([point])
        distinct = {cell.configuration_id: cell.configuration for cell in cells}
        return list(distinct.values())[:_LARGEST_SAMPLE]

    def end(self, path: Path, on_full: Callable[[str], None], began: float) -> SweepResult:
        """Write the table of results, and return them."""
        results = self._in_order()
        other_code = find_other_code(self._stored, results)
        earlier = len(self._journal.results.keys() - {result.cell_id for result in results})
        earlier -= 0 if other_code is None else other_code.cells
        table = results_table(results)
        when_there_is_room(lambda: write_table(table, path), path, on_full)
        seconds = time.monotonic() - began
        result = SweepResult(self._facts, results, table, path, self._ran, seconds, earlier, other_code)
        for observer in self._observers:
            observer.ended(result)
        return result

    def _new_queue(self, workers: int) -> BlockQueue:
        plan, finished, strategy = self._plan, self._finished, self._plan.space.strategy
        options: dict[str, Any] = {"workers": workers, "timeout": plan.space.timeout}
        if strategy.adaptive is not None:
            journal = self._journal
            return AdaptiveQueue(
                plan, finished, recorded=journal.proposals, record=journal.append_proposals, **options
            )
        missing = [cell for cell in self._cells if cell.cell_id not in finished]
        places = plan.run_order(missing)
        missing.sort(key=lambda cell: places[cell.cell_id])
        return BlockQueue(missing, **options)

    def _sweep_plan(self, folder: Path, before: Sequence[CellResult]) -> SweepPlan:
        plan, queue = self._plan, self._queue
        total, strategy = queue.left + len(before), plan.space.strategy
        stops = strategy.stopping is not None
        if stops:
            # Those that have been stopped already leave less; how much is not worth a count.
            total = max(total, plan.most)
        other_code = find_other_code(self._stored, self._cells)
        workloads = plan.workloads.loaded
        return SweepPlan(plan.space, folder, plan.directions, total, before, workloads, other_code, stops)

    def _sink(self, results: Sequence[CellResult]) -> None:
        self._journal.append(results)
        self._finished.update({result.cell_id: result for result in results})
        self._ran += len(results)
        for observer in self._observers:
            observer.finished(results)

    def _in_order(self) -> list[CellResult]:
        """Return the space's results by workload, configuration, replicate, however they came in."""
        queue = self._queue
        if not isinstance(queue, AdaptiveQueue):
            return self._results_of(self._cells)
        # Which point came when depends on the workers' speed; the points' own order does not.
        order = self._plan.run_order(queue.cells())

        def place(cell: Cell) -> tuple[int, str, int]:
            workload, replicate = order[cell.cell_id]
            return workload, cell.configuration_id, replicate

        return self._results_of(sorted(queue.cells(), key=place))

    def _results_of(self, cells: Iterable[Cell]) -> list[CellResult]:
        """Return the results there are of these cells, in their order and as this space describes them."""
        found = self._finished
        return [found[cell.cell_id].of_cell(cell) for cell in cells if cell.cell_id in found]
