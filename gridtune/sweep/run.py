"""`run_space`: runs a search space, and goes on after a kill at any moment."""

from __future__ import annotations

import contextlib
import math
import random
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gridtune.arguments import require_number
from gridtune.core.cells import Cell, CellResult
from gridtune.core.system import System
from gridtune.errors import GridtuneWarning, SweepError
from gridtune.sweep.execution.blocks import BlockQueue
from gridtune.sweep.execution.cluster import ONE_THREAD, environment
from gridtune.sweep.execution.executors import Executor, Stage, SweepExecutor, Work, check_executor
from gridtune.sweep.execution.observing import SweepObserver, SweepPlan, SweepResult, WorkloadFacts
from gridtune.sweep.execution.runner import representatives
from gridtune.sweep.journal.disk import when_there_is_room
from gridtune.sweep.journal.earlier import OtherCode, Renaming, find_other_code
from gridtune.sweep.journal.journal import Journal, check_writable
from gridtune.sweep.journal.results import results_table, write_table
from gridtune.sweep.search.adaptive import AdaptiveQueue, differing_text, directions_of
from gridtune.sweep.search.racing import RaceQueue
from gridtune.sweep.shards import Shard, ShardFacts, check_divisible
from gridtune.sweep.space.checks import as_space, check_space
from gridtune.sweep.space.code import SweepCode
from gridtune.sweep.space.plan import Planner, Workloads, most_cells
from gridtune.sweep.space.preflight import cell_needs, check_address, check_room, preflight
from gridtune.sweep.space.schema import SearchSpace

__all__ = ["JOURNAL_NAME", "RESULTS_NAME", "default_directory", "run_space", "space_cells"]

JOURNAL_NAME = "journal.jsonl"
RESULTS_NAME = "results.parquet"


def default_directory(space: SearchSpace, shard: Shard | None = None) -> Path:
    """Return where a sweep of this space, or one shard of it, keeps its journal and results by default."""
    folder = Path("results") / space.name
    return folder if shard is None else folder / "shards" / f"{shard.number}-of-{shard.count}"


def space_cells(space: SearchSpace | Mapping[str, Any] | str | Path) -> list[Cell]:
    """Return the cells of a space that are known up front, without running anything."""
    checked = as_space(space)
    planner = Planner(checked, check_space(checked), Workloads(checked.base))
    cells = planner.cells()
    preflight(planner)
    return cells


def run_space(
    space: SearchSpace | Mapping[str, Any] | str | Path,
    *,
    directory: str | Path | None = None,
    address: str | None = None,
    workers: int | None = None,
    observers: Sequence[SweepObserver] = (),
    stage: Stage | None = None,
    retry_failed: bool | Collection[str] = False,
    shuffle: int | None = None,
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
        A path to a YAML file, a mapping of the same keys, or a space.
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
    shuffle
        Seed of a random order of the cells; results do not depend on it, which is what it is for.
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
    checked = as_space(space)
    system = check_space(checked)
    check_address(address, system)
    if shard is not None:
        check_divisible(checked)
    folder = Path(directory) if directory is not None else default_directory(checked, shard)
    check_writable(folder)
    runner = SweepExecutor(
        checked,
        check_executor(checked, executor, address=address, workers=workers, system=system),
        address=address,
        workers=workers or checked.resources.workers or 0,
        needs=cell_needs(Planner(checked, system, Workloads(checked.base))),
        folder=folder,
        stage=stage or (lambda what, busy: None),
    )
    code = SweepCode(checked, system)
    if runner.executor == "ray":
        # What cannot be sent to workers is refused before Ray starts.
        _ = code.sent
    with contextlib.ExitStack() as own, environment(ONE_THREAD), contextlib.closing(runner):
        if runner.executor == "ray" and not (folder / JOURNAL_NAME).exists():
            # It starts while the traces are read; a sweep that goes on may have nothing left to run.
            runner.start_ray()
        return _run(
            checked,
            system,
            code,
            runner,
            observers,
            retry_failed,
            shuffle,
            began,
            shard,
            mirror,
            until or own,
        )


def _run(
    space: SearchSpace,
    system: System,
    code: SweepCode,
    runner: SweepExecutor,
    observers: Sequence[SweepObserver],
    retry_failed: bool | Collection[str],
    shuffle: int | None,
    began: float,
    shard: Shard | None,
    mirror: Callable[[bytes], None] | None,
    kept: contextlib.ExitStack,
) -> SweepResult:
    runner.stage("reading traces", 0)
    folder = runner.folder
    planner = Planner(space, system, Workloads(space.base))
    cells = planner.cells()
    preflight(planner)
    check_room(folder)

    def on_full(message: str) -> None:
        warnings.warn(message, GridtuneWarning, stacklevel=2)
        runner.stage(message, 0)

    journal = kept.enter_context(Journal(folder / JOURNAL_NAME, on_full, mirror))
    if shard is not None:
        ShardFacts.of(shard, cells).write(folder)
        cells = shard.cells(cells)
    renaming = Renaming(system)
    stored = {cell_id: renaming.result(result) for cell_id, result in journal.results.items()}
    finished = {
        cell_id: result
        for cell_id, result in stored.items()
        if result.state == "done" or not _is_retried(result, retry_failed)
    }
    queue, before = _queue(planner, cells, finished, journal, runner.workers, shuffle)
    if isinstance(queue, AdaptiveQueue) and queue.search.differing:
        warnings.warn(differing_text(queue.search.differing), GridtuneWarning, stacklevel=2)
    plan = _plan(planner, folder, queue, before, find_other_code(stored, cells))
    for observer in observers:
        observer.started(plan)
    ran = 0

    def sink(results: Sequence[CellResult]) -> None:
        nonlocal ran
        journal.append(results)
        finished.update({result.cell_id: result for result in results})
        ran += len(results)
        for observer in observers:
            observer.finished(results)

    if queue.left:
        runner.run(queue, _work(planner, cells, before, code), sink=sink)
    runner.stage("writing results", 0)
    results = _in_order(planner, cells, queue, finished)
    other_code = find_other_code(stored, results)
    earlier = len(journal.results.keys() - {result.cell_id for result in results})
    earlier -= 0 if other_code is None else other_code.cells
    table = results_table(results)
    path = folder / RESULTS_NAME
    when_there_is_room(lambda: write_table(table, path), path, on_full)
    seconds = time.monotonic() - began
    result = SweepResult(plan, results, table, path, ran, seconds, earlier, renaming.message, other_code)
    for observer in observers:
        observer.ended(result)
    return result


def _is_retried(result: CellResult, retry: bool | Collection[str]) -> bool:
    return retry if isinstance(retry, bool) else result.state in retry


def _queue(
    planner: Planner,
    cells: Sequence[Cell],
    finished: Mapping[str, CellResult],
    journal: Journal,
    workers: int,
    shuffle: int | None,
) -> tuple[BlockQueue, list[CellResult]]:
    """Return what is to be run, and the results there are already."""
    timeout = planner.space.timeout
    if planner.space.strategy.adaptive is not None:
        adaptive = AdaptiveQueue(
            planner,
            finished,
            recorded=journal.proposals,
            record=journal.append_proposals,
            workers=workers,
            timeout=timeout,
        )
        return adaptive, _results_of(adaptive.cells(), finished)
    if planner.space.strategy.race is not None:
        race = RaceQueue(planner, cells, finished, workers=workers, timeout=timeout)
        return race, _results_of(race.cells(), finished)
    missing = [cell for cell in cells if cell.cell_id not in finished]
    if shuffle is None:
        places = planner.run_order(missing)
        missing.sort(key=lambda cell: places[cell.cell_id])
    else:
        random.Random(shuffle).shuffle(missing)
    queue = BlockQueue(missing, workers=workers, timeout=timeout)
    return queue, _results_of(cells, finished)


def _plan(
    planner: Planner,
    folder: Path,
    queue: BlockQueue,
    before: Sequence[CellResult],
    other_code: OtherCode | None,
) -> SweepPlan:
    facts = [
        WorkloadFacts(
            reference=reference,
            name=workload.name,
            checksum=workload.checksum,
            jobs=len(workload),
            processors=workload.machine_processors,
            source=workload.source,
        )
        for reference, workload in planner.workloads.loaded.items()
    ]
    directions = directions_of(planner.space, planner.system)
    total, stops = queue.left + len(before), True
    if isinstance(queue, RaceQueue):
        total = queue.most
    elif planner.space.strategy.stopping is not None:
        # Those that have been stopped already leave less; how much is not worth a count.
        total = max(total, most_cells(planner.space))
    else:
        stops = False
    return SweepPlan(planner.space, folder, directions, total, before, facts, other_code, stops)


def _work(planner: Planner, cells: Sequence[Cell], before: Sequence[CellResult], code: SweepCode) -> Work:
    seconds = [result.seconds for result in before if math.isfinite(result.seconds)]
    return Work(
        system=planner.system,
        code=code,
        workloads=planner.workloads,
        configurations=representatives(cells or planner.cells(planner.corners())),
        typical=sum(seconds) / len(seconds) if seconds else None,
    )


def _in_order(
    planner: Planner, cells: Sequence[Cell], queue: BlockQueue, finished: Mapping[str, CellResult]
) -> list[CellResult]:
    """Return the space's results by workload, configuration, replicate, however they came in."""
    ordered: Iterable[Cell] = queue.cells() if isinstance(queue, RaceQueue) else cells
    if isinstance(queue, AdaptiveQueue):
        # Which point came when depends on the workers' speed; the points' own order does not.
        order = planner.run_order(queue.cells())
        ordered = sorted(
            queue.cells(),
            key=lambda cell: (order[cell.cell_id][0], cell.configuration_id, order[cell.cell_id][1]),
        )
    return _results_of(ordered, finished)


def _results_of(cells: Iterable[Cell], finished: Mapping[str, CellResult]) -> list[CellResult]:
    """Return the results there are of these cells, in their order and as this space describes them."""
    return [finished[cell.cell_id].of_cell(cell) for cell in cells if cell.cell_id in finished]
