"""What the papers report of the site LAL of the grid EGEE, with the table each figure comes from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from gridtune.core.system import PublishedFigure
from gridtune.systems.responsive.metrics import PEREZ_2009, PEREZ_2010, RESPONSIVE_METRICS

__all__ = ["PUBLISHED", "PUBLISHED_FIGURES", "PUBLISHED_ON", "Published"]

#: The log behind all of them; it is not public.
PUBLISHED_ON = "EGEE, site LAL, 2006"


class Published(NamedTuple):
    """One row of the published tables.

    Attributes
    ----------
    site
        `rigid` or `elastic`.
    label
        The row's name in the paper.
    paper, tables
        The publication, and its tables of W and of waits.
    figures
        Metric name to value.
    """

    site: str
    label: str
    paper: str
    tables: tuple[int, int]
    figures: Mapping[str, float]

    @property
    def source(self) -> str:
        """The publication and both tables."""
        return f"{self.paper}, tables {self.tables[0]}, {self.tables[1]}"


def _columns(*quantities: str) -> list[str]:
    return [f"{quantity}_{statistic}" for quantity in quantities for statistic in ("mean", "std")]


#: The columns of both tables of the paper of 2009, and of the one of 2010.
_COLUMNS_2009 = _columns("interactive_responsiveness", "batch_responsiveness", "interactive_wait")
_COLUMNS_2010 = _columns(
    "batch_responsiveness", "interactive_responsiveness", "responsiveness", "batch_wait", "interactive_wait"
)


def _of_2009(site: str, label: str, *values: float) -> Published:
    tables = (2, 3) if site == "rigid" else (4, 5)
    figures = dict(zip(_COLUMNS_2009, values, strict=True))
    return Published(site, label, PEREZ_2009, tables, figures)


def _of_2010(label: str, *values: float) -> Published:
    figures = dict(zip(_COLUMNS_2010, values, strict=True))
    # No metric of ours is the deviation of W over all jobs.
    del figures["responsiveness_std"]
    return Published("rigid", label, PEREZ_2010, (2, 3), figures)


#: Every row of tables 2–5 of the first paper and 2–3 of the second.
PUBLISHED: tuple[Published, ...] = (
    _of_2009("rigid", "NAT", 0.628, 0.418, 0.830, 0.265, 2756, 8844),
    _of_2009("rigid", "RIG-ORA-0.5", 0.866, 0.314, 0.892, 0.228, 1096, 5137),
    _of_2009("rigid", "RIG-ORA-1", 0.869, 0.308, 0.893, 0.226, 862, 3505),
    _of_2009("rigid", "RIG-EST-0.5", 0.864, 0.319, 0.894, 0.223, 1087, 4838),
    _of_2009("rigid", "RIG-EST-1", 0.867, 0.311, 0.899, 0.216, 1152, 5417),
    _of_2010("EGEE", 0.82, 0.26, 0.62, 0.41, 0.73, 0.36, 13041, 26726, 2756, 8844),
    _of_2010("RL-NN-ORA", 0.93, 0.18, 0.94, 0.22, 0.93, 0.20, 3777, 12168, 1366, 7989),
    _of_2010("RL-NN-EST", 0.92, 0.18, 0.94, 0.22, 0.93, 0.20, 3803, 12232, 1382, 8076),
    _of_2010("RL-ESN-ORA", 0.93, 0.19, 0.94, 0.20, 0.93, 0.19, 3962, 13014, 1085, 8491),
    _of_2010("RL-ESN-EST", 0.93, 0.17, 0.95, 0.19, 0.94, 0.18, 3492, 12175, 495, 3589),
    _of_2009("elastic", "ELA-ORA-0.5", 0.965, 0.177, 0.966, 0.116, 606, 4245),
    _of_2009("elastic", "ELA-ORA-1", 0.971, 0.160, 0.966, 0.121, 236, 2200),
    _of_2009("elastic", "ELA-EST-0.5", 0.958, 0.184, 0.960, 0.123, 458, 3771),
    _of_2009("elastic", "ELA-EST-1", 0.968, 0.167, 0.968, 0.113, 414, 3584),
)


def _figure(row: Published, metric: str, value: float) -> PublishedFigure:
    measure = RESPONSIVE_METRICS[metric]
    table = row.tables["wait" in metric]
    quantity = f"{measure.formula}: {row.label}, {row.site} site"
    return PublishedFigure(f"{row.paper}, table {table}", quantity, value, measure.unit)


#: The same figures one by one, as `label/metric`.
PUBLISHED_FIGURES: Mapping[str, PublishedFigure] = MappingProxyType(
    {
        f"{row.label}/{metric}": _figure(row, metric, value)
        for row in PUBLISHED
        for metric, value in row.figures.items()
    }
)
