"""`StoredSweep`: a sweep as it lies in its folder, read without running anything."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from gridtune.core.cells import Cell, CellResult
from gridtune.core.system import System, get_system, system_names
from gridtune.errors import GridtuneError, SweepError
from gridtune.report.facts import FACTS_FILE, SweepFacts
from gridtune.report.labels import PARAMETER_PREFIX
from gridtune.sweep.journal.earlier import Renaming
from gridtune.sweep.journal.journal import read_journal
from gridtune.sweep.journal.results import read_table, results_of
from gridtune.sweep.remote.places import Place, SweepView, view_sweep
from gridtune.sweep.run import JOURNAL_NAME, RESULTS_NAME
from gridtune.sweep.space.code import load_plugins, read_plugin
from gridtune.sweep.space.plan import Planner, Workloads
from gridtune.sweep.space.schema import parse_space

__all__ = ["StoredSweep", "read_sweep"]


@dataclass(frozen=True)
class StoredSweep:
    """A sweep as it lies in its folder, under the names that metrics and parameters have now.

    Attributes
    ----------
    directory
        The folder; of one at a URL a copy of it here.
    place
        Where it lies: the folder in full, or the URL.
    facts
        What the sweep is about.
    system
        The system; None where it is no longer installed.
    table
        One row per cell, as `gridtune.sweep.results_table` makes it.
    journal
        Every result of the journal by cell id; empty where there is none.
    renaming
        The old names that were met.
    """

    directory: Path
    place: str
    facts: SweepFacts
    system: System | None
    table: pa.Table
    journal: Mapping[str, CellResult]
    renaming: Renaming

    @cached_property
    def results(self) -> list[CellResult]:
        """The results of the table's cells that the journal has, as the table describes them."""
        return results_of(self.table, self.journal)

    @property
    def base(self) -> Path | None:
        """The folder that relative trace paths are relative to."""
        return None if self.facts.base is None else Path(self.facts.base)

    def cells_of(self, configuration_id: str) -> list[Cell]:
        """Return the cells of one of the table's configurations, planned again from the search space.

        It needs no journal: the parameters that a replicate adds (its window) are not in the table.

        Raises
        ------
        GridtuneError
            If the space cannot be planned here: a trace or a plug-in is missing, say.
        """
        rows = self.table.filter(pc.equal(self.table["configuration_id"], configuration_id))
        if self.system is None or not rows.num_rows:
            raise SweepError("the configuration cannot be planned again", path=self.directory)
        space = parse_space(self.facts.space, path=None if self.base is None else self.base / "space.yaml")
        planner = Planner(space, self.system, Workloads(self.base))
        row = rows.slice(0, 1).to_pylist()[0]
        names = (name for name in space.dimensions if row.get(PARAMETER_PREFIX + name) is not None)
        cells = planner.cells([{name: row[PARAMETER_PREFIX + name] for name in names}])
        wanted = set(rows["cell_id"].to_pylist())
        return [cell for cell in cells if cell.cell_id in wanted]


def read_sweep(results: Place, *wanted: str) -> StoredSweep:
    """Return the sweep in a folder, or at a URL.

    Parameters
    ----------
    results
        The folder, or the `results.parquet` in it; or its URL.
    wanted
        As of `view_sweep`: what else is to be read.

    Raises
    ------
    SweepError
        If no sweep has ended there.
    StorageError
        If the storage at the URL cannot be read.
    """
    with view_sweep(results, FACTS_FILE, RESULTS_NAME, *wanted) as view:
        return _read(view)


def _read(view: SweepView) -> StoredSweep:
    path = _table_path(view)
    folder = path.parent
    own = SweepFacts.read(folder)
    system = _system_of(own)
    renaming = Renaming(system)
    facts = own.renamed(renaming)
    table = renaming.table(read_table(path), own.system_version)
    journal = {key: renaming.result(result) for key, result in read_journal(folder / JOURNAL_NAME).items()}
    place = str(view.place if view.is_copy else folder.resolve())
    return StoredSweep(folder, place, facts, system, table, journal, renaming)


def _table_path(view: SweepView) -> Path:
    path = view.folder
    table = path / RESULTS_NAME if path.is_dir() else path
    if table.is_file():
        return table
    if path.is_dir() and (path / JOURNAL_NAME).exists():
        hint = "start the same sweep again: it runs only the missing cells"
        if view.owner is not None and view.owner.alive:
            hint = f"it is running: `gridtune status {view.place}` shows how far it is, and what leads"
        raise SweepError(f"the sweep has no {RESULTS_NAME} yet", path=path, hint=hint)
    meant = Path("results") / path
    hint = f"did you mean {meant}?" if meant.is_dir() else "give a sweep's folder: results/NAME"
    raise SweepError("no results of a sweep are there", path=path, hint=hint)


def _system_of(facts: SweepFacts) -> System | None:
    """Return the system of a sweep, with its plug-ins loaded; None where it is no longer there."""
    for path in facts.plugins:
        # The stored results can be ranked without the plug-in that made them.
        with contextlib.suppress(GridtuneError):
            load_plugins([read_plugin(Path(path))])
    return get_system(facts.system) if facts.system in system_names() else None
