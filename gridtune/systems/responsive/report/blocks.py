"""Intervals over blocks of time and over sites, of results that note them (`blocks=16`).

Replicates of one log share its weeks, so their spread says nothing of other weeks. Here each site is
simulated as a whole and cut into blocks of equal time; a resample draws blocks, the same ones for both
policies of a difference. Over several sites, a resample draws sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gridtune.statistics.inference import bootstrap_interval
from gridtune.systems.responsive.report.rows import Row, native_of, rows_of

if TYPE_CHECKING:
    from gridtune.core.system import FinishedSweep

__all__ = ["blocks_markdown", "write_blocks"]

Floats = npt.NDArray[np.float64]
#: The rule that all are compared with; without it, the site's own scheduler.
_REFERENCE = "fair_index"


def write_blocks(sweep: FinishedSweep) -> list[Path]:
    """Write `blocks.md` into the sweep's folder, if its results note blocks."""
    rows = [
        row for row in rows_of(sweep.results) if row.site == "rigid" and row.results[0].notes.get("blocks")
    ]
    if not rows:
        return []
    path = sweep.directory / "blocks.md"
    path.write_text(blocks_markdown(rows), encoding="utf-8")
    return [path]


def blocks_markdown(rows: Sequence[Row]) -> str:
    """Return a table for each workload, and one over all of them where there are several."""
    parts = [
        "# Intervals over blocks of time\n\nMean R_s, and the difference to a rule, with 95 % bootstrap "
        "intervals over blocks of equal time; over all sites, over sites, each with the same weight."
    ]
    workloads = list(dict.fromkeys(row.workload for row in rows))
    for workload in workloads:
        mine = [row for row in rows if row.workload == workload]
        parts.append(_table(workload, {_name(row): _rewards(row) for row in mine}, _reference(mine)))
    if len(workloads) > 1:
        means: dict[str, list[float]] = {}
        for row in rows:
            means.setdefault(_name(row), []).append(float(_rewards(row).mean()))
        everywhere = {
            name: np.array(values) for name, values in means.items() if len(values) == len(workloads)
        }
        parts.append(_table(f"All {len(workloads)} sites", everywhere, _reference(rows)))
    return "\n\n".join(parts) + "\n"


def _name(row: Row) -> str:
    return f"{row.label}, {row.estimates}"


def _reference(rows: Sequence[Row]) -> str | None:
    policy = _REFERENCE if any(row.policy == _REFERENCE for row in rows) else native_of(rows)
    return next((_name(row) for row in rows if row.policy == policy), None)


def _rewards(row: Row) -> Floats:
    """Return a value for each block whose plain mean is the mean R_s over all jobs: shape (blocks,)."""
    noted = [result.notes["blocks"] for result in row.results]
    reward = np.sum([blocks["reward"] for blocks in noted], axis=0)
    jobs = np.sum([blocks["jobs"] for blocks in noted], axis=0)
    return np.asarray(len(jobs) * reward / jobs.sum())


def _table(title: str, values: dict[str, Floats], reference: str | None) -> str:
    lines = [f"| | R_s | 95 % | less {reference} | 95 % |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, mine in sorted(values.items(), key=lambda item: -float(item[1].mean())):
        cells = [name, f"{mine.mean():.4f}", _interval(mine, ".4f")]
        if reference is not None and name != reference:
            difference = mine - values[reference]
            cells += [f"{difference.mean():+.4f}", _interval(difference, "+.4f")]
        else:
            cells += ["", ""]
        lines.append("| " + " | ".join(cells) + " |")
    return f"## {title}\n\n" + "\n".join(lines)


def _interval(values: Floats, form: str) -> str:
    ends = bootstrap_interval(values, rng=np.random.default_rng(0))
    return f"[{ends.low:{form}}, {ends.high:{form}}]"
