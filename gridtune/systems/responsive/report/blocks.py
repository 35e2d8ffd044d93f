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

from gridtune.statistics.inference import bootstrap_interval
from gridtune.systems.responsive.report.rows import Row, native_of, rows_of
from gridtune.types import FloatArray

if TYPE_CHECKING:
    from gridtune.core.system import FinishedSweep

__all__ = ["blocks_markdown", "write_blocks"]

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
        parts.append(_table(workload, {_name(row): _sums(row) for row in mine}, _reference(mine)))
    if len(workloads) > 1:
        means: dict[str, list[float]] = {}
        for row in rows:
            reward, jobs = _sums(row)
            means.setdefault(_name(row), []).append(float(reward.sum() / jobs.sum()))
        everywhere = {
            name: (np.array(values), np.ones(len(values)))
            for name, values in means.items()
            if len(values) == len(workloads)
        }
        parts.append(_table(f"All {len(workloads)} sites", everywhere, _reference(rows)))
    return "\n\n".join(parts) + "\n"


def _name(row: Row) -> str:
    return f"{row.label}, {row.estimates}"


def _reference(rows: Sequence[Row]) -> str | None:
    policy = _REFERENCE if any(row.policy == _REFERENCE for row in rows) else native_of(rows)
    return next((_name(row) for row in rows if row.policy == policy), None)


def _sums(row: Row) -> tuple[FloatArray, FloatArray]:
    """Return Σ R_s and the number of jobs of each block, over the replicates: shapes (blocks,)."""
    noted = [result.notes["blocks"] for result in row.results]
    reward = np.sum([blocks["reward"] for blocks in noted], axis=0)
    return np.asarray(reward), np.asarray(np.sum([blocks["jobs"] for blocks in noted], axis=0))


def _table(title: str, sums: dict[str, tuple[FloatArray, FloatArray]], reference: str | None) -> str:
    lines = [f"| | R_s | 95 % | less {reference} | 95 % |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, (reward, jobs) in sorted(sums.items(), key=lambda item: -item[1][0].sum() / item[1][1].sum()):
        cells = [name, *_mean_and_interval(reward, jobs, ".4f")]
        if reference is not None and name != reference:
            cells += _mean_and_interval(reward - sums[reference][0], jobs, "+.4f")
        else:
            cells += ["", ""]
        lines.append("| " + " | ".join(cells) + " |")
    return f"## {title}\n\n" + "\n".join(lines)


def _mean_and_interval(total: FloatArray, jobs: FloatArray, form: str) -> tuple[str, str]:
    """Return Σ total / Σ jobs and its interval over blocks, that of the ratio's linear approximation."""
    mean = total.sum() / jobs.sum()
    ends = bootstrap_interval(
        mean + len(jobs) * (total - mean * jobs) / jobs.sum(), rng=np.random.default_rng(0)
    )
    return f"{mean:{form}}", f"[{ends.low:{form}}, {ends.high:{form}}]"
