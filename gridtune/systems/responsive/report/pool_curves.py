"""The pool of an event-driven site over time, and what has been paid and waited for so far."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gridtune.core.style import figure, group_thousands, head, save, series_colours
from gridtune.systems.responsive.report.alike import groups_alike, wrapped

__all__ = ["draw_pools"]

HOUR, DAY = 3_600, 86_400
_EXPLAINED = "policies joined by = coincide in both sums"
#: Instants at which sums are compared.
_INSTANTS = 500


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
    columns = {
        name: {key: table[key].to_numpy() for key in table.column_names} for name, table in pools.items()
    }
    days = {name: (table["time"] - table["time"][0]) / DAY for name, table in columns.items()}
    sums = {
        name: [_hours_so_far(table["time"], table[level]) for level in ("pool", "waiting")]
        for name, table in columns.items()
    }
    instants = np.linspace(0, max(mine[-1] for mine in days.values()), _INSTANTS)
    shapes = {
        name: np.stack([np.interp(instants, days[name], hours) for hours in sums[name]], axis=1)
        for name in pools
    }
    groups = groups_alike(shapes, np.ptp(np.concatenate(list(shapes.values())), axis=0))
    colours = series_colours(list(groups))
    widths = np.linspace(2.2, 1.0, len(groups)) if len(groups) > 1 else [1.6]
    with figure(10.5, 8.4, 3, sharex=True) as (drawing, (cores, paid, waited)):
        for (name, alike), width in zip(groups.items(), widths, strict=True):
            look = {"color": colours[name], "linewidth": width}
            cores.step(
                days[name], columns[name]["pool"], where="post", label=wrapped(alike), alpha=0.8, **look
            )
            for panel, hours in zip((paid, waited), sums[name], strict=True):
                panel.plot(days[name], hours, **look)
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


def _hours_so_far(time: npt.NDArray[np.int64], level: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the integral of a step function up to each instant, in hours: shape (n,)."""
    return np.concatenate([[0.0], np.cumsum(np.diff(time) * level[:-1])]) / HOUR
