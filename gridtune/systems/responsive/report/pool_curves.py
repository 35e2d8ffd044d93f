"""The pool of an event-driven site over time, and what has been paid and waited for so far."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gridtune.core.style import figure, group_thousands, head, save, series_colours
from gridtune.systems.responsive.report.alike import groups_alike, span, wrapped
from gridtune.types import FloatArray, IntArray

__all__ = ["draw_pools"]

HOUR, DAY = 3_600, 86_400
_EXPLAINED = "policies joined by = coincide in both sums"
#: Instants at which sums are compared.
_INSTANTS = 500


class _Curves(NamedTuple):
    """A run, at each instant at which something changes: days, cores, core-hours and job-hours so far."""

    days: FloatArray
    cores: IntArray
    paid: FloatArray
    waited: FloatArray


def draw_pools(pools: Mapping[str, pa.Table], where: str, shared: str, path: Path) -> Path:
    """Draw the pool of each run over time, and under it core-hours and waits added up.

    Pools and queues jump so often that the lines of several hide each other; their sums do not.

    Parameters
    ----------
    pools
        The table `pool` of each run, by the name of its policy.
    where
        The site, for the title.
    shared
        What all policies have in common, for the small print.
    path
        The file to write.
    """
    curves = {name: _curves(table) for name, table in pools.items()}
    groups = _groups(curves)
    colours = series_colours(list(groups))
    widths = np.linspace(2.2, 1.0, len(groups)) if len(groups) > 1 else [1.6]
    with figure(10.5, 8.4, 3, sharex=True) as (drawing, (cores, paid, waited)):
        for (name, alike), width in zip(groups.items(), widths, strict=True):
            mine, look = curves[name], {"color": colours[name], "linewidth": width}
            cores.step(mine.days, mine.cores, where="post", label=wrapped(alike), alpha=0.8, **look)
            paid.plot(mine.days, mine.paid, **look)
            waited.plot(mine.days, mine.waited, **look)
        head(
            cores,
            f"Cores paid for: {where}",
            "; ".join(filter(None, ["booting cores included", shared, _EXPLAINED])),
        )
        head(paid, "Core-hours paid for so far")
        head(waited, "Hours that jobs have waited so far")
        for panel, unit in zip((cores, paid, waited), ("cores", "core-hours", "job-hours"), strict=True):
            panel.set_ylabel(unit)
            group_thousands(panel.yaxis)
        waited.set_xlabel("days since the first submission")
        cores.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
        return save(drawing, path)


def _curves(table: pa.Table) -> _Curves:
    time, pool, waiting = (table[name].to_numpy() for name in ("time", "pool", "waiting"))
    return _Curves((time - time[0]) / DAY, pool, _hours_so_far(time, pool), _hours_so_far(time, waiting))


def _groups(curves: Mapping[str, _Curves]) -> dict[str, list[str]]:
    """Return the runs whose two sums coincide, by the first of each group."""
    instants = np.linspace(0, max(run.days[-1] for run in curves.values()), _INSTANTS)
    shapes = {
        name: np.stack([np.interp(instants, run.days, hours) for hours in (run.paid, run.waited)], axis=1)
        for name, run in curves.items()
    }
    return groups_alike(shapes, span(shapes))


def _hours_so_far(time: IntArray, level: IntArray) -> FloatArray:
    """Return the integral of a step function up to each instant, in hours: shape (n,)."""
    return np.concatenate([[0.0], np.cumsum(np.diff(time) * level[:-1])]) / HOUR
