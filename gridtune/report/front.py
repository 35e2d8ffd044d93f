"""Pareto fronts of sweeps with several objectives, and their hypervolumes.

A configuration is on the front if no other one is at least as good in every objective and better in one.
Means are compared; only configurations with every replicate in every objective take part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gridtune.report.labels import PARAMETER_PREFIX, number_text, percent_text, row_parameters
from gridtune.report.ranking import RankingHead, ranking_head, row_key, strata
from gridtune.statistics.pareto import REFERENCE, Scale, hypervolume, nondominated
from gridtune.types import FloatArray

__all__ = ["Front", "front_table", "fronts_of"]

#: Columns of a ranking that hold a value and its interval: within a stratum, and over all strata.
_MEAN, _RELATIVE = ("mean", "ci_low", "ci_high"), ("relative", "relative_low", "relative_high")


@dataclass(frozen=True)
class Front:
    """The Pareto front of one stratum.

    Attributes
    ----------
    stratum
        Its name; "overall" where the points are mean relative differences over all strata.
    heads
        What each objective is.
    rows
        Of each configuration, its row in each objective's ranking; the front's first, by the first objective.
    points
        Shape (configurations, objectives): means, or relative differences, in the objectives' own direction.
    size
        How many of the rows are on the front.
    reference
        The point that hypervolumes are measured from, one value for each objective: a tenth of the range
        beyond the worst mean of any configuration.
    hypervolume
        With 0 the least and 1 the greatest mean of each objective over all configurations; at most `limit`.
    """

    stratum: str
    heads: tuple[RankingHead, ...]
    rows: Sequence[Sequence[Mapping[str, Any]]]
    points: FloatArray
    size: int
    reference: tuple[float, ...]
    hypervolume: float

    @property
    def overall(self) -> bool:
        """True if it is over all strata, by relative differences."""
        return self.heads[0].overall

    @property
    def limit(self) -> float:
        """The hypervolume of a front that reaches the best value of every objective at once."""
        return float(REFERENCE ** len(self.heads))

    @property
    def keys(self) -> tuple[str, str, str]:
        """The columns of a row that hold the point and its interval."""
        return _RELATIVE if self.overall else _MEAN

    def value_text(self, value: float | None) -> str:
        """Write one of its values."""
        return percent_text(value) if self.overall else number_text(value)

    def __str__(self) -> str:
        count = "1 configuration" if len(self.rows) == 1 else f"{len(self.rows)} configurations"
        at = ", ".join(
            f"{head.objective} {self.value_text(value)} {'' if self.overall else head.unit}".rstrip()
            for head, value in zip(self.heads, self.reference, strict=True)
        )
        return (
            f"Pareto front of {self.stratum}: {self.size} of {count}, hypervolume {self.hypervolume:.4f} "
            f"of at most {self.limit:.4g} (reference point {at})"
        )


def fronts_of(rankings: Mapping[str, pa.Table], overall: Mapping[str, pa.Table]) -> list[Front]:
    """Return the front over all strata, if there is one, and that of each stratum; [] for one objective.

    Parameters
    ----------
    rankings, overall
        Objective to its ranking, as in `Summary`.
    """
    if len(rankings) < 2:
        return []
    fronts = []
    for tables in (overall, rankings):
        if len(tables) == len(rankings):
            heads = tuple(ranking_head(table) for table in tables.values())
            by_objective = [dict(strata(table)) for table in tables.values()]
            for name in by_objective[0]:
                rows = [stratum.get(name, []) for stratum in by_objective]
                front = _front("overall" if heads[0].overall else name, heads, rows)
                fronts += [front] if front else []
    return fronts


def _front(
    name: str, heads: tuple[RankingHead, ...], by_objective: Sequence[Sequence[Mapping[str, Any]]]
) -> Front | None:
    """Return the front of one stratum; None where no configuration has a value of every objective."""
    keys = _RELATIVE if heads[0].overall else _MEAN
    found: dict[Any, list[Mapping[str, Any]]] = {}
    for number, rows in enumerate(by_objective):
        for row in rows:
            parts = found.setdefault(row_key(row), [])
            if row["rank"] is not None and math.isfinite(row[keys[0]]) and len(parts) == number:
                parts.append(row)
    complete = [parts for parts in found.values() if len(parts) == len(heads)]
    if not complete:
        return None
    points = np.array([[row[keys[0]] for row in parts] for parts in complete], dtype=np.float64)
    signs = np.array([1.0 if head.direction == "min" else -1.0 for head in heads])
    costs = points * signs
    on_front = nondominated(costs)
    scale = Scale.of([costs])
    least, greatest = np.array(scale.least), np.array(scale.greatest)
    order = np.lexsort((costs[:, 1], costs[:, 0], ~on_front))
    return Front(
        stratum=name,
        heads=heads,
        rows=[complete[index] for index in order],
        points=points[order],
        size=int(on_front.sum()),
        reference=tuple((signs * (least + REFERENCE * (greatest - least))).tolist()),
        hypervolume=hypervolume(costs[on_front], scale),
    )


def front_table(fronts: Sequence[Front]) -> pa.Table:
    """Return the configurations on these fronts, a row each.

    Columns: `stratum`, `configuration_id`, `is_baseline`, `param.*`; for each objective its value and the
    ends of the interval, `OBJECTIVE`, `OBJECTIVE.low`, `OBJECTIVE.high`; last the stratum's `hypervolume`.
    """
    rows = []
    for front in fronts:
        value, low, high = front.keys
        for parts in front.rows[: front.size]:
            row = {"stratum": front.stratum}
            row |= {name: parts[0][name] for name in ("configuration_id", "is_baseline")}
            row |= {PARAMETER_PREFIX + name: item for name, item in row_parameters(parts[0]).items()}
            for head, part in zip(front.heads, parts, strict=True):
                row[head.objective] = part[value]
                row |= {f"{head.objective}.low": part[low], f"{head.objective}.high": part[high]}
            rows.append({**row, "hypervolume": front.hypervolume})
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in names})
