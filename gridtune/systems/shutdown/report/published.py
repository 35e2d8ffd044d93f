"""The paper's tables as data: section 2 (table 1), section 5.2 (table 2) and section 5.4 (table 3).

Energy is in its J, which are watt minutes with a node counted once. Each value of table 3 is a mean over
days; its days are those of table 2, of which the public archive of Taurus days holds 1,511.
"""

from __future__ import annotations

from typing import NamedTuple

from gridtune.core.system import PublishedFigure

__all__ = ["DAYS", "OVERALL", "PAPER", "TRACES", "Overall", "TraceFacts", "published_figures"]

#: The publication.
PAPER = (
    "Casagrande, Koslovski, Miers, Pillon and Gonzalez, “Don't hurry be green: scheduling servers shutdown "
    "in grid computing with deep reinforcement learning”, International Journal of Grid and Utility "
    "Computing 13, 2022, doi 10.1504/IJGUC.2022.128303"
)


class TraceFacts(NamedTuple):
    """A row of table 1: cores, jobs, sequential submissions and utilisation, both in per cent."""

    cores: int
    jobs: int
    sequential: float
    utilisation: float


class Overall(NamedTuple):
    """A row of table 3, means over days: delay in minutes, energy waste, switches, stretch."""

    delay: float
    waste: float
    switches: float
    stretch: float


#: Table 1, the four clusters of the study.
TRACES = {
    "taurus": TraceFacts(168, 81_925, 54.1, 51.7),
    "orion": TraceFacts(48, 66_005, 39.7, 62.7),
    "graphite": TraceFacts(64, 60_786, 56.0, 47.3),
    "econome": TraceFacts(352, 66_557, 66.8, 57.6),
}
#: Table 2: days in each group by their share of sequential submissions.
DAYS = {
    "econome": (259, 520, 504, 271, 39),
    "graphite": (487, 705, 427, 149, 24),
    "orion": (659, 777, 496, 129, 28),
    "taurus": (441, 947, 612, 130, 22),
}
#: Table 3, columns "avg"; DS is the paper's own agent.
OVERALL = {
    "econome": {
        "DS": Overall(48.50, 21738.40, 93.50, 0.22),
        "OR*": Overall(53.16, 18076.86, 84.96, 0.21),
        "T(0)": Overall(49.69, 22392.20, 106.12, 0.15),
        "T(1)": Overall(49.54, 25483.59, 100.21, 0.15),
        "T(5)": Overall(49.48, 36624.22, 85.35, 0.14),
    },
    "graphite": {
        "DS": Overall(50.92, 6712.60, 30.63, 0.41),
        "OR*": Overall(54.27, 7216.18, 33.92, 0.30),
        "T(0)": Overall(52.81, 8950.24, 42.20, 0.26),
        "T(1)": Overall(52.99, 10401.94, 40.35, 0.26),
        "T(5)": Overall(52.91, 15434.66, 34.48, 0.25),
    },
    "orion": {
        "DS": Overall(72.27, 6284.59, 28.07, 0.54),
        "OR*": Overall(70.34, 6763.39, 31.84, 0.41),
        "T(0)": Overall(67.23, 8996.35, 42.41, 0.30),
        "T(1)": Overall(67.14, 10081.97, 38.95, 0.30),
        "T(5)": Overall(67.39, 14104.64, 30.69, 0.30),
    },
    "taurus": {
        "DS": Overall(48.31, 16513.70, 72.53, 0.30),
        "OR*": Overall(53.60, 13747.39, 62.43, 0.29),
        "T(0)": Overall(49.99, 17441.70, 82.10, 0.22),
        "T(1)": Overall(50.02, 19664.81, 76.56, 0.22),
        "T(5)": Overall(50.23, 28714.38, 65.29, 0.22),
    },
}

#: Columns of the tables: what they measure, and the unit.
_QUANTITIES = {
    "cores": ("cores of the cluster", "cores"),
    "jobs": ("jobs of the trace", "jobs"),
    "sequential": ("share of sequential submissions", "%"),
    "utilisation": ("utilisation of the cluster", "%"),
    "delay": ("mean wait beyond τ of late jobs", "min"),
    "waste": ("energy waste per day", "W·min"),
    "switches": ("nodes switched on or off per day", "switches"),
    "stretch": ("mean of wait/walltime", "1"),
}


def published_figures() -> dict[str, PublishedFigure]:
    """Return every number of the three tables by a name such as `taurus T(0) waste`."""
    figures = {}
    for cluster, facts in TRACES.items():
        for column, value in facts._asdict().items():
            figures[f"{cluster} {column}"] = _figure(1, column, value)
    for cluster, days in DAYS.items():
        for group, count in enumerate(days, start=1):
            figures[f"{cluster} days of group {group}"] = PublishedFigure(
                f"{PAPER}, table 2", "days in the group by share of sequential submissions", count, "days"
            )
    for cluster, policies in OVERALL.items():
        for policy, row in policies.items():
            for column, value in row._asdict().items():
                figures[f"{cluster} {policy} {column}"] = _figure(3, column, value)
    return figures


def _figure(table: int, column: str, value: float) -> PublishedFigure:
    quantity, unit = _QUANTITIES[column]
    return PublishedFigure(f"{PAPER}, table {table}", quantity, value, unit)
