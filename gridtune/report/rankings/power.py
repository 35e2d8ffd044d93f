"""Number of replicates that a sweep needs to show a difference, estimated from those that it has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gridtune.errors import MetricError
from gridtune.report.labels import PARAMETER_PREFIX, percent_text, value_text
from gridtune.report.rankings.cells import Cells, Stratum
from gridtune.report.rankings.ranking import LEVEL, Ranking, RankingHead, Row, plain
from gridtune.statistics.sample_size import (
    MOST_REPLICATES,
    PairedSpread,
    fewest_replicates,
    replicates_needed,
)

#: Relative differences that replicates are counted for, beside the observed one.
EFFECTS = (0.01, 0.05, 0.1)
#: Probability with which a difference is to be found.
POWER = 0.8


def power_table(cells: Cells, ranking: Ranking, *, effects: Sequence[float] = EFFECTS) -> Ranking:
    """Return how many replicates each comparison of a ranking needs.

    The spread between replicates is that of the pairs at hand (`gridtune.statistics.sample_size`), the
    power that of a paired t test whose level, 5 %, is divided by the comparisons of the stratum. The
    joint test of a ranking is milder, so this errs on the side of more replicates.

    Parameters
    ----------
    cells
        The cells.
    ranking
        Their ranking.
    effects
        Relative improvements on the baseline, each between 0 and 1.

    Returns
    -------
    Ranking
        One row per configuration with a baseline and at least two pairs, in the ranking's order: the
        stratum's columns, `configuration_id`, the parameters, `pairs`, `relative`, `deviation` (between
        replicates, see `PairedSpread`), `needed_observed` and `needed_EFFECT` (replicates; null for more
        than a million) and `comparisons` (of the stratum, which share the level).

    Raises
    ------
    MetricError
        If an effect is not between 0 and 1.
    """
    for effect in effects:
        if not 0 < effect < 1:
            raise MetricError(f"an effect lies between 0 and 1, but got {effect}", hint="0.05 is 5 %")
    split = [one for one in cells.fields if not one.name.startswith(PARAMETER_PREFIX)]
    schema = pa.schema(
        [
            *split,
            pa.field("configuration_id", pa.string()),
            *(one for one in cells.fields if one not in split),
            pa.field("pairs", pa.int64()),
            *(pa.field(name, pa.float64()) for name in ("relative", "deviation")),
            *(pa.field(name, pa.int64()) for name in _needed(effects)),
            pa.field("comparisons", pa.int64()),
        ]
    )
    strata: dict[str, list[Row]] = {}
    for stratum in cells.strata:
        order = {row["configuration_id"]: place for place, row in enumerate(ranking.strata[stratum.name])}
        rows = _power_of(stratum, ranking.head, effects)
        strata[stratum.name] = sorted(rows, key=lambda row: order[row["configuration_id"]])
    return Ranking(ranking.head, strata, schema)


def _needed(effects: Sequence[float]) -> list[str]:
    return ["needed_observed", *(f"needed_{effect:g}" for effect in effects)]


def _power_of(stratum: Stratum, head: RankingHead, effects: Sequence[float]) -> Iterator[Row]:
    """Yield the rows of one stratum."""
    values = stratum.values(head.objective)
    places = np.flatnonzero((stratum.bases >= 0) & (stratum.bases != np.arange(len(values))))
    pairs = values[places], values[stratum.bases[places]]
    spread = PairedSpread.of(*pairs, correlation=stratum.correlation(*pairs) or 0.0)
    comparisons = max(1, len(places))
    wanted = [spread.effect, *(spread.on_scale(-head.sign * effect) for effect in effects)]
    columns: dict[str, Any] = {
        "pairs": spread.pairs,
        "relative": spread.as_relative(spread.effect),
        "deviation": spread.deviation,
        "comparisons": np.full(len(places), comparisons),
    }
    for name, effect in zip(_needed(effects), wanted, strict=True):
        counts = replicates_needed(
            effect, spread.deviation, level=1 - LEVEL, power=POWER, comparisons=comparisons
        )
        columns[name] = [int(count) if math.isfinite(count) else None for count in counts]
    for index, place in enumerate(places.tolist()):
        if spread.pairs[index] > 1:
            parameters = stratum.parameters[place].items()
            yield {
                **stratum.key,
                "configuration_id": stratum.ids[place],
                **{PARAMETER_PREFIX + name: value for name, value in parameters},
                **{name: plain(column[index]) for name, column in columns.items()},
            }


def print_power(power: Ranking, console: Console, *, limit: int | None = 30) -> None:
    """Print a table of replicates needed, a part for each stratum.

    Parameters
    ----------
    power
        As `power_table` makes it.
    console
        Where to.
    limit
        Rows of a stratum at most; None for all.
    """
    head = power.head
    effects = [name.removeprefix("needed_") for name in power.schema.names if name.startswith("needed_")]
    for name, rows in power.strata.items():
        title = f"{name + ': ' if name else ''}{head.objective}, {head.replicate}s needed"
        console.print(Text(title, style="bold"))
        if not rows:
            console.print(Text("nothing is compared on two replicates or more", style="dim"))
            continue
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for parameter in power.varying:
            table.add_column(parameter)
        for title in ["n", "to baseline", "this", *(_percent(float(effect)) for effect in effects[1:])]:
            table.add_column(title, justify="right", no_wrap=True)
        for row in rows[:limit]:
            needed = (row[f"needed_{effect}"] for effect in effects)
            cells = [
                *(value_text(row[PARAMETER_PREFIX + name]) for name in power.varying),
                str(row["pairs"]),
                percent_text(row["relative"]),
                *(f"> {MOST_REPLICATES:,}" if count is None else f"{count:,}" for count in needed),
            ]
            table.add_row(*map(Text, cells))
        console.print(table)
    for note in _notes(power):
        console.print(Text(note, style="dim"))
    console.print()


def _notes(power: Ranking) -> Iterator[str]:
    noun = power.head.replicate
    most = max((row["comparisons"] for row in power.rows), default=0)
    test = f"a t test at {_percent(1 - LEVEL)}" + (f" over {most} comparisons" if most > 1 else "")
    yield (
        f"this, X %: {noun}s needed to show the difference found here, or an improvement of X %, in "
        f"{_percent(POWER)} of sweeps ({test}); fewer than {fewest_replicates(1 - LEVEL)} cannot show any"
    )
    pairs = min((row["pairs"] for row in power.rows), default=0)
    if pairs > 1:
        low, high = _spread_range(pairs)
        yield (
            f"the spread is estimated from {pairs} {noun}s: {low:.1f} to {high:.1f} times as many may "
            "be needed, and more where a few of them make most of the mean"
        )


def _spread_range(pairs: int) -> tuple[float, float]:
    """Return the factors between which the number of replicates needed lies, as the deviation is estimated.

    For normal differences, the variance of `pairs` of them is between these shares of the true one with
    this confidence; the number of replicates needed is about in proportion to it.
    """
    from scipy.special import chdtri  # noqa: PLC0415 (heavy, and only needed here)

    tail = 0.1
    return (pairs - 1) / float(chdtri(pairs - 1, tail)), (pairs - 1) / float(chdtri(pairs - 1, 1 - tail))


def _percent(share: float) -> str:
    """Write a share as a percentage without a sign."""
    return f"{100 * share:g} %"
