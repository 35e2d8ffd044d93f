"""`gridtune compare`: two sweeps, or two configurations of one, replicate by replicate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.parameters import FILE, complete_sweeps, read_parameters, read_place
from gridtune.cli.tables import new_table, print_json, print_tables

if TYPE_CHECKING:
    from rich.table import Table

    from gridtune.report.comparison import Comparison, Side

__all__ = ["compare"]


@click.command()
@click.argument(
    "folders",
    nargs=-1,
    required=True,
    type=read_place,
    metavar="A [B]",
    shell_complete=complete_sweeps,
)
@click.option(
    "--configuration",
    "configurations",
    multiple=True,
    metavar="NAME=VALUE[,NAME=VALUE]",
    help="Parameters of the configurations to compare: the first time for A, the second for B (or for the "
    "other side of A).",
)
@click.option("--objective", metavar="METRIC", help="Compare by another metric than the first sweep's own.")
@click.option("--csv", "csv_path", type=FILE, help="Write the rows as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def compare(
    folders: tuple[str | Path, ...],
    configurations: tuple[str, ...],
    objective: str | None,
    csv_path: Path | None,
    as_json: bool,
) -> None:
    """Compare the sweep B with the sweep A, or two configurations of the sweep A with each other.

    A and B are sweeps' folders, such as results/quickstart, or their URLs. Compared are the configurations
    that both have, on the replicates that both have, pair by pair, for each workload: the difference (second
    minus first) with its interval, p-value and verdict. "better" means that the second is. p-values and
    verdicts are of all comparisons of a workload together.

    \b
    With --configuration given twice, the first names one side and the second the other. Parameters that
    are not named are the same on both sides, and each of their values makes a comparison of its own.
    Given once with two sweeps, it narrows both.

    Refused are other logs, other replicates and other systems: their values are not paired.

    \b
    Examples:
      gridtune compare results/before results/after
      gridtune compare results/quickstart --configuration order=fcfs --configuration order=saf
      gridtune compare results/a results/b --configuration order=sjf,backfill=easy --objective utilisation
      gridtune compare results/a results/b --csv differences.csv
    """
    from gridtune.report.comparison import compare as compare_sides

    first, second, system = _sides(folders, configurations)
    comparison = compare_sides(first, second, system, objective=objective)
    if csv_path is not None:
        import pyarrow.csv as pa_csv

        pa_csv.write_csv(comparison.table(), csv_path)
    if as_json:
        print_json(comparison.as_dict())
        return
    _print(comparison)
    if csv_path is not None:
        click.echo(f"rows: {csv_path}")


def _sides(folders: Sequence[str | Path], configurations: Sequence[str]) -> tuple[Side, Side, Any]:
    from gridtune.report.comparison import Side
    from gridtune.study.stored import read_sweep

    if len(folders) > 2 or len(configurations) > 2:
        raise click.UsageError("Two are compared: give at most two folders and two --configuration.")
    if len(folders) == 1 and len(configurations) != 2:
        raise click.UsageError(
            "Give a second folder, or --configuration twice to compare two configurations of this sweep."
        )
    # A comma separates where a name follows.
    parts = [re.split(r",(?=[A-Za-z_]\w*=)", text) for text in configurations]
    selections = [read_parameters(part, "--configuration") for part in parts]
    # One selection is for both sides.
    selections = (selections * 2)[:2] if selections else [{}, {}]
    sweeps = [read_sweep(folder) for folder in folders]
    names = [str(folder) for folder in folders] if len(folders) == 2 else list(configurations)
    if names[0] == names[1]:
        raise click.UsageError(f"Both sides are {names[0]}.")
    sides = [
        Side(name, sweep.facts, sweep.table, selection, sweep.results)
        for name, sweep, selection in zip(names, (sweeps * 2)[:2], selections, strict=True)
    ]
    return sides[0], sides[1], sweeps[0].system


def _print(comparison: Comparison) -> None:
    from gridtune.report.labels import value_text

    objective = comparison.objective
    unit = f" ({objective.unit})" if objective.unit else ""
    better = "smaller" if objective.direction == "min" else "larger"
    click.echo(
        f"{comparison.second} compared with {comparison.first}: {objective.metric}{unit}, {better} is better"
    )
    for name, (first, second) in comparison.differs.items():
        click.echo(f"  {name}: {value_text(first)} in the first, {value_text(second)} in the second")
    click.echo()
    by_workload: dict[str, list[Mapping[str, Any]]] = {}
    for row in comparison.rows:
        by_workload.setdefault(row["workload"], []).append(row)
    tables = [
        _table(workload, rows, comparison.parameters, means=True) for workload, rows in by_workload.items()
    ]
    if comparison.overall:
        title = "all workloads: mean of the relative differences"
        tables.append(_table(title, comparison.overall, comparison.parameters, means=False))
    print_tables(tables)
    for note in comparison.notes:
        click.echo(f"note: {note}")
    for rows, where in ((comparison.rows, ""), (comparison.overall, " over all workloads")):
        if rows:
            click.echo(_conclusion(rows, where))


def _conclusion(rows: Sequence[Mapping[str, Any]], where: str) -> str:
    verdicts = Counter(row["verdict"] or "without a common value" for row in rows)
    counts = ", ".join(
        f"{word} in {verdicts[word]}" for word in ("better", "worse", "equal", "not sure") if verdicts[word]
    )
    number = f"{len(rows)} comparison{'s' if len(rows) > 1 else ''}"
    return f"verdicts on the second: {counts or 'not comparable'} of {number}{where}"


def _table(title: str, rows: Sequence[Mapping[str, Any]], parameters: Sequence[str], *, means: bool) -> Table:
    from gridtune.report.labels import number_text, percent_text, value_text

    numbers = ["n", *(["first", "second", "difference", "95 %"] if means else []), "relative", "95 % ", "p"]
    table = new_table(title, *parameters, *numbers, "verdict", right=numbers)
    for row in rows:
        cells = [value_text(row[name]) for name in parameters]
        cells.append(str(row["n"]))
        if means:
            cells += [number_text(row[name]) for name in ("first_mean", "second_mean", "diff")]
            cells.append(_interval(row, "diff", number_text))
        cells += [
            percent_text(row["relative"]),
            _interval(row, "relative", percent_text),
            "–" if row["p_value"] is None else f"{row['p_value']:.2g}",
        ]
        table.add_row(*cells, row["verdict"])
    return table


def _interval(row: Mapping[str, Any], name: str, write: Any) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return "–" if low is None else f"{write(low)} … {write(high)}"
