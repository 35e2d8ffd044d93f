"""`StoredSweep`: a sweep read from its folder, and its cells run again to compare them bit by bit."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from gridtune.core.cells import Cell, CellResult, finite_json
from gridtune.core.system import SYSTEMS, System, get_system
from gridtune.core.user_code.plugins import load_plugins
from gridtune.errors import GridtuneError, MetricError, SweepError
from gridtune.report.facts import FACTS_FILE, SweepFacts
from gridtune.report.labels import row_parameters
from gridtune.sweep.execution.runner import error_text, run_cell
from gridtune.sweep.journal.journal import JOURNAL_NAME, Journal, read_journal
from gridtune.sweep.journal.results import find_other_code, read_table, results_of, results_table, write_table
from gridtune.sweep.remote.results import Place, SweepView, view_sweep
from gridtune.sweep.run import RESULTS_NAME
from gridtune.sweep.space.plan import Workloads


@dataclass(frozen=True)
class StoredSweep:
    """A sweep as it lies in its folder.

    Attributes
    ----------
    directory
        The folder; of one at a URL a copy of it here.
    place
        Where it lies: the folder in full, or the URL.
    facts
        The facts of the sweep.
    system
        The system; None where it is no longer installed.
    table
        One row per cell, as `gridtune.sweep.results_table` makes it.
    journal
        Every result of the journal by cell id; empty where there is none.
    """

    directory: Path
    place: str
    facts: SweepFacts
    system: System | None
    table: pa.Table
    journal: Mapping[str, CellResult]

    @cached_property
    def results(self) -> list[CellResult]:
        """The results of the table's cells that the journal has, as the table describes them."""
        return results_of(self.table, self.journal)

    def parameters_of(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a row of a ranking, all that the search space set."""
        for result in self.results:
            if result.configuration_id == row["configuration_id"]:
                return dict(result.configuration)
        columns = {name: value for name, value in row_parameters(row).items() if value is not None}
        return {**self.facts.space.get("fixed", {}), **columns}


def read_sweep(results: Place, *wanted: str) -> StoredSweep:
    """Return the sweep in a folder, or at a URL.

    Parameters
    ----------
    results
        The folder, or the `results.parquet` in it; or its URL.
    wanted
        Further files to read, as of `view_sweep`.

    Raises
    ------
    SweepError
        If no sweep has ended there.
    StorageError
        If the storage at the URL cannot be read.
    """
    with view_sweep(results, FACTS_FILE, RESULTS_NAME, *wanted) as view:
        path = _table_path(view)
        folder = path.parent
        own = SweepFacts.read(folder)
        for plugin in own.plugins:
            # The stored results can be ranked without the plug-in that made them.
            with contextlib.suppress(GridtuneError):
                load_plugins([plugin])
        system = get_system(own.system) if own.system in SYSTEMS else None
        place = str(view.place if view.is_copy else folder.resolve())
        journal = read_journal(folder / JOURNAL_NAME)
        return StoredSweep(folder, place, own, system, read_table(path), journal)


def _table_path(view: SweepView) -> Path:
    path = view.folder
    table = path / RESULTS_NAME if path.is_dir() else path
    if table.is_file():
        return table
    if path.is_dir() and (path / JOURNAL_NAME).exists():
        hint = "start the same sweep again: it runs only the missing cells"
        if view.owner is not None and view.owner.alive:
            hint = f"it is running: `gridtune status {view.place}` shows how far it is"
        raise SweepError(f"the sweep has no {RESULTS_NAME} yet", path=path, hint=hint)
    meant = Path("results") / path
    hint = f"did you mean {meant}?" if meant.is_dir() else "give a sweep's folder: results/NAME"
    raise SweepError("no results of a sweep are there", path=path, hint=hint)


#: Characters of a cell's id that a prefix needs.
_SHORTEST_PREFIX = 4


#: Attributes of a result that `as_dict` of a cell begins with.
_IDENTIFYING = ("cell_id", "workload", "replicate", "parameters", "seed")


@dataclass(frozen=True)
class CellAgain:
    """A cell that was run again.

    Attributes
    ----------
    before
        Its stored result.
    metrics
        Its metrics now; empty if it failed.
    error
        Its error now, or None.
    seconds
        Wall-clock seconds it took now.
    changed
        What determines the result and is not as it was: the system's version, a trace, code. Empty if the
        cell's id is the same.
    tables
        The tables that the system makes of the cell, where they were asked for.
    """

    before: CellResult
    metrics: Mapping[str, float]
    error: str | None
    seconds: float
    changed: Sequence[str]
    tables: Mapping[str, pa.Table]

    @property
    def differences(self) -> dict[str, tuple[float, float]]:
        """Metric to its values then and now where they are not the same number; NaN where there is none."""
        names = dict.fromkeys([*self.before.metrics, *self.metrics])
        pairs = {
            name: (self.before.metrics.get(name, math.nan), self.metrics.get(name, math.nan))
            for name in names
        }
        return {
            name: (then, now)
            for name, (then, now) in pairs.items()
            if then != now and not (math.isnan(then) and math.isnan(now))
        }

    @property
    def identical(self) -> bool:
        """True if every metric has the value that it had; a failed cell has none that could be compared."""
        return self.before.state == "done" and self.error is None and not self.differences

    def as_dict(self) -> dict[str, Any]:
        """Return what `--json` prints of it."""
        before = self.before
        return finite_json(
            {
                **{name: getattr(before, name) for name in _IDENTIFYING},
                "identical": self.identical,
                "changed": list(self.changed),
                "differences": {
                    name: {"then": then, "now": now} for name, (then, now) in self.differences.items()
                },
                "metrics": self.metrics,
                "state": before.state,
                "error": self.error,
                "seconds": self.seconds,
            }
        )


def find_cell(name: str, places: Sequence[Place]) -> tuple[SweepFacts, CellResult]:
    """Return the stored result of the cell that is meant, with the facts of its sweep.

    Parameters
    ----------
    name
        A cell's id or its beginning.
    places
        Sweeps' folders or URLs to look in.

    Raises
    ------
    GridtuneError
        If there is none, or a beginning fits several cells.
    """
    if len(name) < _SHORTEST_PREFIX:
        raise SweepError(f"{name!r} is too short for the beginning of a cell's id", hint="give 4 characters")
    found: dict[str, tuple[Place, CellResult]] = {}
    for place in places:
        with view_sweep(place) as view:
            for cell_id, result in read_journal(view.folder / JOURNAL_NAME).items():
                if cell_id.startswith(name):
                    found.setdefault(cell_id, (place, result))
    if not found:
        where = ", ".join(map(str, places)) or "results/"
        hint = "`results.csv` in a sweep's folder has the ids; give the folder if it is elsewhere"
        raise SweepError(f"no cell's id begins with {name!r} in {where}", hint=hint)
    if len(found) > 1:
        ids = ", ".join(list(found)[:5]) + (", …" if len(found) > 5 else "")
        raise SweepError(f"{len(found)} cells' ids begin with {name!r}: {ids}", hint="give more of the id")
    place, result = next(iter(found.values()))
    with view_sweep(place, FACTS_FILE) as view:
        facts = SweepFacts.read(view.folder)
    return facts, result


def _loaded_system(facts: SweepFacts) -> System:
    """Return the system of a sweep, with its plug-ins loaded."""
    load_plugins(facts.plugins)
    return get_system(facts.system)


def rerun_cells(facts: SweepFacts, results: Sequence[CellResult], *, tables: bool) -> Iterator[CellAgain]:
    """Run cells again in this process, and yield each with its stored result.

    Parameters
    ----------
    facts
        Of their sweep: the system, plug-ins, the folder that relative paths are relative to.
    results
        The stored results.
    tables
        Make the system's tables (the schedule) too.

    Raises
    ------
    GridtuneError
        If the system, a plug-in or a trace is not there. A cell that fails is yielded with its error.
    """
    _loaded_system(facts)
    workloads = Workloads(facts.base_folder)
    for result in results:
        for reference in result.traces:
            workloads.load(reference)
        try:
            run = run_cell(
                facts.system, result.parameters, seed=result.seed, tables=tables, workloads=workloads
            )
        except Exception as fault:
            yield CellAgain(result, {}, error_text(fault), math.nan, (), {})
            continue
        metrics = {name: float(value) for name, value in run.outcome.metrics.items()}
        changed = () if run.cell.cell_id == result.cell_id else _changes(result, run.cell)
        yield CellAgain(result, metrics, None, run.seconds, changed, run.outcome.tables)


def add_metrics(folder: Path, names: Sequence[str], plugins: Sequence[Path] = ()) -> Iterator[CellResult]:
    """Add metrics to the cells of a finished sweep, which keep their ids and all values they have.

    Every cell that lacks one of them is run again and must give the values it has, to the last bit. Each is
    written to the journal as soon as it is done: after a kill the same call goes on with the rest.

    Parameters
    ----------
    folder
        The sweep's folder.
    names
        Metrics of its system.
    plugins
        Files that define them.

    Yields
    ------
    CellResult
        Each cell with its new metrics.

    Raises
    ------
    GridtuneError
        If the system has no such metric, or a cell is not what it was; no other value is touched.
    """
    sweep = read_sweep(folder)
    load_plugins(plugins)
    system = _loaded_system(sweep.facts)
    for name in names:
        if name not in system.metrics:
            message = f"the system {sweep.facts.system!r} has no metric {name!r}"
            raise MetricError(message, hint=system.metric_hint(name))
    path = sweep.directory / JOURNAL_NAME
    with Journal(path) as journal:
        stored = read_journal(path)
        lacking = [
            result
            for result in sweep.results
            if result.state == "done" and not set(names) <= stored[result.cell_id].metrics.keys()
        ]
        for again in rerun_cells(sweep.facts, lacking, tables=False):
            before = stored[again.before.cell_id]
            if again.error is not None or not again.differences.keys().isdisjoint(again.before.metrics):
                changes = "; ".join(again.changed) or "its values differ"
                raise SweepError(
                    f"the cell {before.cell_id} is not what it was: {again.error or changes}",
                    path=sweep.directory,
                    hint="run the sweep again: it computes what has changed",
                )
            added = {name: again.metrics.get(name, math.nan) for name in names}
            stored[before.cell_id] = replace(before, metrics={**added, **before.metrics})
            journal.append([stored[before.cell_id]])
            yield stored[before.cell_id]
        results = [stored[result.cell_id] for result in sweep.results]
        write_table(results_table(results), sweep.directory / RESULTS_NAME)
        kept = dict.fromkeys([*sweep.facts.plugins, *(str(plugin.resolve()) for plugin in plugins)])
        replace(sweep.facts, plugins=tuple(kept)).write(sweep.directory)


def _changes(result: CellResult, cell: Cell) -> Sequence[str]:
    """Return what makes the cell another one than it was."""
    if sorted(cell.traces.values()) != sorted(result.traces.values()):
        return [f"the content of {', '.join(cell.traces)} is not what it was"]
    other_code = find_other_code({result.cell_id: result}, [cell])
    return other_code.changes if other_code is not None else ["its parameters are understood otherwise"]
