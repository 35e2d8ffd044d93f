"""The pool of an event-driven site over time: cores that are paid for and in use, and the queue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from gridtune.core.style import figure, group_thousands, head, save, series_colours
from gridtune.systems.responsive.report.alike import wrapped

__all__ = ["draw_pools"]

DAY = 86_400


def draw_pools(pools: Mapping[str, pa.Table], where: str, shared: str, path: Path) -> Path:
    """Draw the pool and the queue of each run over time.

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
    colours = series_colours(list(pools))
    widths = np.linspace(2.2, 1.0, len(pools)) if len(pools) > 1 else [1.6]
    with figure(9.5, 6.2, 2, sharex=True) as (drawing, (above, below)):
        for (name, table), width in zip(pools.items(), widths, strict=True):
            columns = {column: table[column].to_numpy() for column in table.column_names}
            days = (columns["time"] - columns["time"][0]) / DAY
            look = {"color": colours[name], "linewidth": width, "where": "post", "alpha": 0.8}
            above.step(days, columns["pool"], label=wrapped([name]), **look)
            below.step(days, columns["waiting"], **look)
        head(above, f"Cores paid for: {where}", "; ".join(filter(None, ["booting cores included", shared])))
        head(below, "Waiting jobs")
        above.set_ylabel("cores")
        below.set_ylabel("jobs")
        below.set_yscale("symlog", linthresh=10)
        below.set_ylim(bottom=0)
        group_thousands(below.yaxis)
        below.set_xlabel("days since the first submission")
        group_thousands(above.yaxis)
        above.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
        return save(drawing, path)
