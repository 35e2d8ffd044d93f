"""Every number of the tables of the paper on classifiers that choose machines.

Source: Vladušič, "Using the black-box approach with machine learning methods in order to improve job
scheduling in GRID environments". The paper does not name the unit of mean tardiness in Table 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from gridtune.core.reproduction import PublishedFigure

__all__ = ["PUBLISHED", "TABLE_2", "TABLE_3", "TABLE_5", "TABLE_6"]

#: Table 2: jobs in time with assistance over those without, for each of five batches.
TABLE_2: Mapping[tuple[str, str], Sequence[float]] = {
    ("first_available", "j48"): (1.12, 0.95, 0.99, 1.16, 0.65),
    ("first_available", "lwl"): (1.11, 1.17, 0.86, 1.08, 0.96),
    ("first_available", "naive_bayes"): (0.95, 1.02, 0.94, 1.28, 1.05),
    ("random", "j48"): (1.08, 1.08, 1.03, 1.19, 0.89),
    ("random", "lwl"): (1.2, 0.98, 1.18, 0.74, 1.14),
    ("random", "naive_bayes"): (0.97, 0.89, 1.1, 0.82, 0.75),
    ("round_robin", "j48"): (0.98, 0.99, 1.39, 1.03, 1.04),
    ("round_robin", "lwl"): (1.16, 1.05, 0.92, 1.01, 1.04),
    ("round_robin", "naive_bayes"): (0.92, 0.89, 0.93, 0.97, 0.84),
}
#: Table 3: share of the jobs of each of ten machines, under round robin assisted.
TABLE_3: Mapping[str, Sequence[float]] = {
    "j48": (0.09, 0.07, 0.09, 0.08, 0.1, 0.14, 0.1, 0.09, 0.15, 0.09),
    "lwl": (0.05, 0.06, 0.18, 0.07, 0.15, 0.17, 0.08, 0.03, 0.17, 0.04),
    "naive_bayes": (0.11, 0.12, 0.06, 0.11, 0.1, 0.11, 0.12, 0.12, 0.04, 0.11),
}
#: Table 5: as Table 2; five batches without a change, and the last three with one after the second.
TABLE_5: Mapping[tuple[str, str], tuple[Sequence[float], Sequence[float]]] = {
    ("first_available", "j48"): ((1.73, 0.88, 2.11, 1.76, 1.58), (0.66, 1.24, 0.89)),
    ("first_available", "lwl"): ((1.47, 0.94, 1.17, 0.90, 1.13), (0.81, 1.26, 1.01)),
    ("first_available", "naive_bayes"): ((1.42, 0.70, 1.48, 2.81, 2.61), (0.97, 0.95, 0.94)),
    ("random", "j48"): ((1.09, 1.36, 0.66, 1.35, 1.85), (0.73, 1.48, 1.07)),
    ("random", "lwl"): ((1.74, 0.97, 1.14, 0.85, 1.17), (0.81, 1.39, 1.01)),
    ("random", "naive_bayes"): ((1.03, 0.99, 0.97, 1.33, 0.67), (1.25, 1.10, 1.20)),
    ("round_robin", "j48"): ((0.84, 1.24, 1.08, 0.5, 1.16), (0.98, 1.11, 1.08)),
    ("round_robin", "lwl"): ((1.16, 1.45, 0.75, 1.15, 1.01), (0.80, 1.13, 1.08)),
    ("round_robin", "naive_bayes"): ((1.03, 0.85, 1.13, 0.95, 1.03), (1.11, 1.03, 1.08)),
}
#: Table 6: mean tardiness in each of ten runs of 1,000 jobs.
TABLE_6: Mapping[str, Sequence[float]] = {
    "j48": (6852986, 6975198, 5991922, 4273658, 4956201, 4426126, 4636639, 4194367, 4243210, 4126020),
    "naive_bayes": (
        *(7802715, 8311823, 9450453, 7858624, 8225339),
        *(8187952, 10273174, 7955454, 11394544, 8864409),
    ),
    "edd": (4562290, 4898042, 4629544, 4616085, 5242742, 4805775, 4932950, 4515571, 4421033, 4288354),
    "erd": (3686164, 3946878, 3834669, 3802694, 4485815, 4157972, 4134214, 3879128, 3667836, 4016526),
}


def _figures() -> Iterator[tuple[str, str, Sequence[float], int]]:
    """Yield each row of a table: its name, the quantity of figure i, the figures, the first i."""
    ratio = "jobs in time with {} over without, {}, batch {{}}"
    for (rule, learner), values in TABLE_2.items():
        yield f"table_2_{rule}_{learner}", ratio.format(learner, rule), values, 1
    for learner, values in TABLE_3.items():
        share = f"share of the jobs of machine {{}} under round robin with {learner}"
        yield f"table_3_{learner}", share, values, 1
    for (rule, learner), arms in TABLE_5.items():
        for arm, first, values in zip(("same", "changed"), (1, 3), arms, strict=True):
            quantity = ratio.format(learner, rule) + f", machines {arm}"
            yield f"table_5_{rule}_{learner}_{arm}", quantity, values, first
    for dispatcher, values in TABLE_6.items():
        yield f"table_6_{dispatcher}", f"mean tardiness of 1,000 jobs under {dispatcher}, run {{}}", values, 1


_PAPER = "Vladušič, “Using the black-box approach with machine learning methods”, Table "
#: Every figure of the tables by table, row and column.
PUBLISHED: Mapping[str, PublishedFigure] = MappingProxyType(
    {
        f"{row}_{place}": PublishedFigure(
            _PAPER + row[6], quantity.format(place), value, "unnamed" if row[6] == "6" else "1"
        )
        for row, quantity, values, first in _figures()
        for place, value in enumerate(values, start=first)
    }
)
