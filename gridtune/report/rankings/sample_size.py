"""Number of replicates that a sweep needs to show a difference, estimated from those that it has."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gridtune.errors import MetricError
from gridtune.report.labels import PARAMETER_PREFIX, percent_text, value_text, varying_parameters
from gridtune.report.rankings.cells import baselines, collect, value_matrix
from gridtune.report.rankings.ranking import LEVEL, plain, ranking_head, window_correlation
from gridtune.statistics.sample_size import (
    MOST_REPLICATES,
    PairedSpread,
    detectable_effect,
    fewest_replicates,
    replicates_needed,
    spread_range,
)

__all__ = ["EFFECTS", "POWER", "SIZES", "power_table", "print_power"]

#: Relative differences that replicates are counted for, beside the observed one.
EFFECTS = (0.01, 0.05, 0.1)
#: Numbers of replicates whose smallest detectable difference is given.
SIZES = (5, 10, 20, 40)
#: Probability with which a difference is to be found.
POWER = 0.8
#: In the metadata: stratum to its number of comparisons, by which the level of each is divided.
_COMPARISONS = b"gridtune.power"


def power_table(
    table: pa.Table,
    ranking: pa.Table,
    *,
    effects: Sequence[float] = EFFECTS,
    sizes: Sequence[int] = SIZES,
) -> pa.Table:
    """Return how many replicates each comparison of a ranking needs.

    The spread between replicates is that of the pairs at hand (`gridtune.statistics.sample_size`), the
    power that of a paired t test whose level, 5 %, is divided by the comparisons of the stratum. The
    joint test of a ranking is milder, so this errs on the side of more replicates.

    Parameters
    ----------
    table
        One row per cell.
    ranking
        Its ranking, as `gridtune.report.rankings.ranking.rank` makes it.
    effects
        Relative improvements on the baseline, each between 0 and 1.
    sizes
        Numbers of replicates.

    Returns
    -------
    pyarrow.Table
        One row per configuration with a baseline and at least two pairs, in the ranking's order: the
        stratum's columns, `configuration_id`, the parameters, `pairs`, `relative`, `deviation` (between
        replicates, see `PairedSpread`), `needed_observed` and `needed_EFFECT` (replicates; null for more
        than a million) and `detectable_N` (the smallest improvement that N replicates show, as a fraction;
        null where they can show none).

    Raises
    ------
    MetricError
        If an effect or a size makes no sense.
    """
    for effect in effects:
        if not 0 < effect < 1:
            raise MetricError(f"an effect lies between 0 and 1, but got {effect}", hint="0.05 is 5 %")
    if any(size < 2 for size in sizes):
        raise MetricError("a paired difference needs 2 replicates or more")
    head = ranking_head(ranking)
    _, parameters, groups = collect(table, head.objective, head.group_by, head.baseline)
    order = {row["configuration_id"]: place for place, row in enumerate(ranking.to_pylist())}
    rows: list[dict[str, Any]] = []
    comparisons: dict[str, int] = {}
    for stratum, configurations in groups.items():
        names = dict(zip(head.group_by, stratum, strict=True))
        values = value_matrix(configurations)
        bases = baselines(configurations, head.baseline, names)
        compared = np.flatnonzero((bases >= 0) & (bases != np.arange(len(configurations))))
        pairs = values[compared], values[bases[compared]]
        correlation = window_correlation(configurations, *pairs) or 0.0
        spread = PairedSpread.of(*pairs, correlation=correlation)
        comparisons[_stratum_text(stratum)] = len(compared)
        statistics = _statistics(spread, head.direction, effects, sizes)
        found = [
            names
            | {PARAMETER_PREFIX + name: value for name, value in configurations[place].parameters.items()}
            | {"configuration_id": configurations[place].configuration_id}
            | {name: plain(column[index]) for name, column in statistics.items()}
            for index, place in enumerate(compared)
            if spread.pairs[index] > 1
        ]
        rows += sorted(found, key=lambda row: order[row["configuration_id"]])
    kept = [*head.group_by, "configuration_id", *(PARAMETER_PREFIX + name for name in parameters)]
    fields = [ranking.schema.field(name) for name in kept]
    fields += [pa.field("pairs", pa.int64()), *(pa.field(n, pa.float64()) for n in ("relative", "deviation"))]
    fields += [pa.field(name, pa.int64()) for name in _needed(effects)]
    fields += [pa.field(f"detectable_{size}", pa.float64()) for size in sizes]
    metadata = {**ranking.schema.metadata, _COMPARISONS: json.dumps(comparisons).encode()}
    schema = pa.schema(fields, metadata=metadata)
    return pa.Table.from_pylist(rows, schema=schema)


def _needed(effects: Sequence[float]) -> list[str]:
    return ["needed_observed", *(f"needed_{effect:g}" for effect in effects)]


def _stratum_text(stratum: Sequence[Any]) -> str:
    return ", ".join(map(value_text, stratum))


def _statistics(
    spread: PairedSpread, direction: str, effects: Sequence[float], sizes: Sequence[int]
) -> dict[str, Any]:
    comparisons = max(1, len(spread.pairs))
    needed = partial(replicates_needed, level=1 - LEVEL, power=POWER, comparisons=comparisons)
    detectable = partial(detectable_effect, level=1 - LEVEL, power=POWER, comparisons=comparisons)
    sign = -1 if direction == "min" else 1
    wanted = [spread.effect, *(spread.on_scale(sign * effect) for effect in effects)]
    counts = [needed(effect, spread.deviation) for effect in wanted]
    least = {f"detectable_{size}": detectable(size, spread.deviation) for size in sizes}
    return {
        "pairs": spread.pairs,
        "relative": spread.as_relative(spread.effect),
        "deviation": spread.deviation,
        **{
            name: [int(n) if math.isfinite(n) else None for n in count]
            for name, count in zip(_needed(effects), counts, strict=True)
        },
        **{
            name: np.where(np.isfinite(effect), spread.as_relative(sign * effect), math.nan)
            for name, effect in least.items()
        },
    }


def print_power(power: pa.Table, console: Console, *, limit: int | None = 30) -> None:
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
    stored = (power.schema.metadata or {}).get(_COMPARISONS)
    if stored is None:
        raise MetricError("this table is not one of replicates needed", hint="make one with power_table")
    comparisons: dict[str, int] = json.loads(stored)
    head = ranking_head(power)
    effects, sizes = (
        [name.removeprefix(kind) for name in power.column_names if name.startswith(kind)]
        for kind in ("needed_", "detectable_")
    )
    varying = varying_parameters(power, without=head.group_by)
    groups: dict[str, list[dict[str, Any]]] = {name: [] for name in comparisons}
    for row in power.to_pylist():
        groups[_stratum_text([row[name] for name in head.group_by])].append(row)
    for name, rows in groups.items():
        title = f"{name + ': ' if name else ''}{head.objective}, {head.replicate}s needed"
        console.print(Text(title, style="bold"))
        if not rows:
            console.print(Text("nothing is compared on two replicates or more", style="dim"))
            continue
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for parameter in varying:
            table.add_column(parameter)
        numbers = ["n", "to baseline", "this", *(_percent(float(effect)) for effect in effects[1:])]
        for title in [*numbers, *(f"with {size}" for size in sizes)]:
            table.add_column(title, justify="right", no_wrap=True)
        for row in rows[:limit]:
            needed = (row[f"needed_{effect}"] for effect in effects)
            cells = [
                *(value_text(row[PARAMETER_PREFIX + name]) for name in varying),
                str(row["pairs"]),
                percent_text(row["relative"]),
                *(f"> {MOST_REPLICATES:,}" if count is None else f"{count:,}" for count in needed),
                *(percent_text(row[f"detectable_{size}"]) for size in sizes),
            ]
            table.add_row(*map(Text, cells))
        console.print(table)
    pairs = min(power["pairs"].to_pylist(), default=0)
    for note in _notes(head.replicate, max(comparisons.values(), default=0), pairs, sizes):
        console.print(Text(note, style="dim"))
    console.print()


def _notes(noun: str, most: int, pairs: int, sizes: Sequence[str]) -> Iterator[str]:
    test = f"a t test at {_percent(1 - LEVEL)}" + (f" over {most} comparisons" if most > 1 else "")
    yield (
        f"this, X %: {noun}s with which the difference found here, or an improvement of X %, is shown in "
        f"{_percent(POWER)} of sweeps; with N: the smallest improvement that N {noun}s show as often ({test})"
    )
    if pairs > 1:
        low, high = spread_range(pairs)
        yield (
            f"the spread is estimated from {pairs} {noun}s: {low:.1f} to {high:.1f} times as many may "
            "be needed, and more where a few of them make most of the mean"
        )
    fewest = fewest_replicates(1 - LEVEL)
    if any(int(size) < fewest for size in sizes):
        yield f"fewer than {fewest} {noun}s cannot show any difference at {_percent(1 - LEVEL)}"


def _percent(share: float) -> str:
    """Write a share as a percentage without a sign."""
    return f"{100 * share:g} %"
