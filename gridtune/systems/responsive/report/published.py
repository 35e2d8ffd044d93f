"""What the papers report of the site LAL of the grid EGEE, as data with the table each figure stands in.

NaN where a paper does not say. The names of the columns are those of the metrics.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PUBLISHED", "PUBLISHED_ON", "Published"]

#: The log behind all of them; it is not public.
PUBLISHED_ON = "EGEE, site LAL, 2006"
PEREZ_2009 = "Perez et al., “Responsive Elastic Computing”, GMAC 2009"
PEREZ_2010 = "Perez et al., ESN-FQ for grid scheduling, 2010"

NAN = float("nan")


class Published(NamedTuple):
    """One row of a published table.

    Attributes
    ----------
    site
        `rigid` or `elastic`.
    label
        What the paper calls it.
    source
        Paper and tables.
    interactive, batch
        Mean and standard deviation of W; of the wait, seconds.
    everyone
        Mean and standard deviation of W over all jobs.
    """

    site: str
    label: str
    source: str
    interactive: tuple[float, float, float, float]
    batch: tuple[float, float, float, float]
    everyone: tuple[float, float] = (NAN, NAN)


def _of_2009(site: str, label: str, *figures: float) -> Published:
    """Tables 2 and 3, rigid, or 4 and 5, elastic: W interactive, W batch, interactive delay."""
    tables = "tables 2, 3" if site == "rigid" else "tables 4, 5"
    return Published(
        site,
        label,
        f"{PEREZ_2009}, {tables}",
        (figures[0], figures[1], figures[4], figures[5]),
        (figures[2], figures[3], NAN, NAN),
    )


def _of_2010(label: str, *figures: float) -> Published:
    """Tables 2 and 3: W batch, interactive, all; delays batch, interactive."""
    batch, interactive, everyone = figures[0:2], figures[2:4], figures[4:6]
    return Published(
        "rigid",
        label,
        f"{PEREZ_2010}, tables 2, 3",
        (interactive[0], interactive[1], figures[8], figures[9]),
        (batch[0], batch[1], figures[6], figures[7]),
        (everyone[0], everyone[1]),
    )


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
