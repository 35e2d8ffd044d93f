"""`rerun`: a sweep's cell once more, and whether its result is the same to the last bit."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gridtune.core.cells import Cell, CellResult, finite_json
from gridtune.core.system import System, get_system
from gridtune.errors import SweepError
from gridtune.report.facts import FACTS_FILE, SweepFacts
from gridtune.study.stored import StoredSweep, read_sweep
from gridtune.sweep.execution.runner import error_text, run_cell
from gridtune.sweep.journal.earlier import Renaming, find_other_code
from gridtune.sweep.journal.journal import read_journal
from gridtune.sweep.remote.places import Place, view_sweep
from gridtune.sweep.run import JOURNAL_NAME
from gridtune.sweep.space.code import load_plugins, read_plugin
from gridtune.sweep.space.plan import Workloads

__all__ = ["CellAgain", "find_cells", "rerun_cells"]

#: An MLflow run's id; a cell's is shorter.
_RUN_ID = re.compile(r"[0-9a-f]{32}")
#: Characters of a cell's id that a prefix needs.
_SHORTEST_PREFIX = 4


@dataclass(frozen=True)
class CellAgain:
    """A cell that was run again.

    Attributes
    ----------
    before
        Its stored result.
    metrics
        What was measured now; empty if it failed.
    error
        What went wrong now, or None.
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
        return {name: pair for name, pair in pairs.items() if not _same(*pair)}

    @property
    def identical(self) -> bool:
        """Whether every metric has the value that it had; a failed cell has none that could be compared."""
        return self.before.state == "done" and self.error is None and not self.differences

    def as_dict(self) -> dict[str, Any]:
        """Return what `--json` prints of it."""
        before = self.before
        return finite_json(
            {
                "cell_id": before.cell_id,
                "workload": before.workload,
                "replicate": before.replicate,
                "parameters": before.parameters,
                "seed": before.seed,
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


def _same(then: float, now: float) -> bool:
    return then == now or (math.isnan(then) and math.isnan(now))


def find_cells(
    name: str, places: Sequence[Place], *, tracking_uri: str | None = None
) -> tuple[SweepFacts, list[CellResult]]:
    """Return the stored results of the cells that are meant, with the facts of their sweep.

    Parameters
    ----------
    name
        A cell's id or its beginning, or the id of the MLflow run of a configuration.
    places
        Sweeps' folders or URLs to look for a cell in.
    tracking_uri
        The store of the run.

    Raises
    ------
    GridtuneError
        If there is none, or a beginning fits several cells.
    """
    if _RUN_ID.fullmatch(name):
        return _cells_of_run(name, tracking_uri)
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
    return facts, [Renaming(_system_of(facts)).result(result)]


def _system_of(facts: SweepFacts) -> System:
    """Return the system of a sweep, with its plug-ins loaded."""
    load_plugins(read_plugin(Path(path)) for path in facts.plugins)
    return get_system(facts.system)


def _cells_of_run(run_id: str, uri: str | None) -> tuple[SweepFacts, list[CellResult]]:
    from gridtune.tracking.fetching import fetch_sweep  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        configuration = fetch_sweep(run_id, Path(folder), uri=uri)
        sweep = read_sweep(folder)
        return sweep.facts, list(_stored_results(sweep, configuration))


def _stored_results(sweep: StoredSweep, configuration: str) -> Iterator[CellResult]:
    """Yield a configuration's results from the table of cells, with the parameters that it has not."""
    cells = {cell.cell_id: cell for cell in sweep.cells_of(configuration)}
    for row in sweep.table.to_pylist():
        if row["configuration_id"] != configuration:
            continue
        if row["cell_id"] not in cells:
            hint = "its trace, its plug-in or the version of its system differs here"
            raise SweepError(f"the cell {row['cell_id']} is another one on this machine", hint=hint)
        values = {key.removeprefix("metric."): row[key] for key in row if key.startswith("metric.")}
        metrics = {key: value for key, value in values.items() if value is not None}
        cell = cells[row["cell_id"]]
        yield CellResult.of(cell, row["state"], metrics=metrics, error=row["error"])


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
    _system_of(facts)
    base = None if facts.base is None else Path(facts.base)
    workloads = Workloads(base)
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
        changed: tuple[str, ...] = ()
        if run.cell.cell_id != result.cell_id:
            changed = tuple(_changes(result, run.cell))
        yield CellAgain(result, metrics, None, run.seconds, changed, run.outcome.tables)


def _changes(result: CellResult, cell: Cell) -> Iterator[str]:
    """Yield what makes the cell another one than it was."""
    if sorted(cell.traces.values()) != sorted(result.traces.values()):
        yield f"the content of {', '.join(cell.traces)} is not what it was"
        return
    other_code = find_other_code({result.cell_id: result}, [cell])
    yield from other_code.changes if other_code is not None else ["its parameters are understood otherwise"]
