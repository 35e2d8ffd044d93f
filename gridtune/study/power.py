"""How many replicates a study needs: tables beside its rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv

from gridtune.report.derived import add_derived
from gridtune.report.power import EFFECTS, SIZES, power_table
from gridtune.study.study import Study

__all__ = ["study_power", "write_power"]


def study_power(
    study: Study, *, effects: Sequence[float] = EFFECTS, sizes: Sequence[int] = SIZES
) -> dict[str, pa.Table]:
    """Return objective to the replicates that each of its comparisons needs.

    Parameters
    ----------
    study
        The study.
    effects, sizes
        As in `gridtune.report.power.power_table`, which says what the columns are.
    """
    rankings = study.summary.rankings
    return {
        name: power_table(study.table, ranking, effects=effects, sizes=sizes)
        for name, ranking in rankings.items()
    }


def write_power(study: Study, tables: Mapping[str, pa.Table]) -> Study:
    """Write tables of replicates needed beside the study's rankings; return it with their files."""
    files = [_written(study.report_folder / f"power-{name}.csv", table) for name, table in tables.items()]
    add_derived(study.directory, files)
    return replace(study, files=[*study.files, *files])


def _written(path: Path, table: pa.Table) -> Path:
    pa_csv.write_csv(table, path)
    return path
