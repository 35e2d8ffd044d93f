"""`gridtune report`, and `compare` and `export` of `gridtune results`."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import FILE, FORCE, JSON, check_new, complete_sweeps, read_parameters, read_place
from gridtune.cli.tables import new_table, print_json, print_tables

if TYPE_CHECKING:
    from rich.table import Table

    from gridtune.report.rankings.comparison import Comparison, Side

__all__ = ["compare", "export", "report"]


@click.command()
@click.argument("results", type=read_place, shell_complete=complete_sweeps)
@click.option(
    "--objective",
    multiple=True,
    metavar="METRIC",
    help="Rank by another metric than the sweep's own; may be repeated.",
)
@click.option(
    "--baseline",
    "baseline",
    multiple=True,
    metavar="NAME=VALUE",
    help="Compare with the configuration of these parameters; may be given several times.",
)
@click.option(
    "--power", is_flag=True, help="Say how many replicates each comparison needs, and what more would show."
)
@click.option(
    "--effect",
    "effects",
    multiple=True,
    type=click.FloatRange(0, 100, min_open=True, max_open=True),
    metavar="PERCENT",
    help="With --power: an improvement to count replicates for; may be repeated. [default: 1, 5, 10]",
)
@click.option("--all", "every", is_flag=True, help="Print every row, not only the first 30.")
@click.option("--track", is_flag=True, help="Send to the MLflow store what it does not have yet.")
@click.option(
    "--tracking-uri",
    help="The MLflow store, with --track. [default: MLFLOW_TRACKING_URI, else mlflow.db here]",
)
@JSON
def report(
    results: str | Path,
    objective: tuple[str, ...],
    baseline: tuple[str, ...],
    power: bool,
    effects: tuple[float, ...],
    every: bool,
    track: bool,
    tracking_uri: str | None,
    as_json: bool,
) -> None:
    """Print the ranking of a sweep that has been run, and write its tables and figures again.

    RESULTS is a sweep's folder, such as results/quickstart, or its URL, where nothing is changed: the
    report is made in a copy here. No cell is run. With --objective or --baseline the rankings
    go into a separate folder in it, such as results/quickstart/report-utilisation, and the sweep's own stay
    as they are.

    \b
    Examples:
      gridtune report results/quickstart
      gridtune report results/quickstart --objective utilisation
      gridtune report results/quickstart --baseline order=sjf --baseline backfill=easy
      gridtune report results/quickstart --power
      gridtune report s3://bucket/my_space
      gridtune report results/quickstart --track --tracking-uri http://mlflow:5000
    """
    from gridtune.report.rankings.power import EFFECTS, print_power
    from gridtune.report.tables import report_console
    from gridtune.study import Study, report_study
    from gridtune.study.report import print_errors, print_places, print_rankings, write_power

    if effects and not power:
        raise click.UsageError("--effect goes with --power")

    console, limit = report_console(), None if every else 30

    def show(study: Study) -> None:
        if not as_json:
            print_rankings(study, console, limit=limit, rankings=not power)

    study = report_study(
        results,
        objective=objective or None,
        baseline=read_parameters(baseline, "--baseline") if baseline else None,
        tracking=track or tracking_uri is not None,
        tracking_uri=tracking_uri,
        show=show,
    )
    tables: dict[str, Any] = {}
    if power:
        study, tables = write_power(study, tuple(effect / 100 for effect in effects) or EFFECTS)
    if as_json:
        content = study.as_dict()
        if power:
            content["power"] = {name: table.rows for name, table in tables.items()}
        print_json(content)
        print_errors(study)
    else:
        for table in tables.values():
            print_power(table, console, limit=limit)
        print_places(study, console)
        if isinstance(results, str):
            console.print(f"made in a copy; nothing was changed at {results}", markup=False, soft_wrap=True)
    untracked = study.tracking is not None and not study.tracking.complete
    if untracked or study.report_error is not None:
        sys.exit(EXIT_FAILED_CELLS)


@click.command()
@click.argument("folder", type=read_place, shell_complete=complete_sweeps)
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json"]),
    help="[default: that of --out's suffix, else yaml]",
)
@click.option("--workload", metavar="NAME", help="A workload of the ranking. [default: the ranking over all]")
@click.option("--rank", type=click.IntRange(min=1), help="Its place.  [default: 1]")
@click.option("--objective", metavar="METRIC", help="Rank by another metric than the sweep's own.")
@click.option("--out", type=FILE, help="The file. [default: standard output]")
@FORCE
def export(
    folder: str | Path,
    form: Literal["yaml", "json"] | None,
    workload: str | None,
    rank: int | None,
    objective: str | None,
    out: Path | None,
    force: bool,
) -> None:
    """Write the best configuration of the sweep in FOLDER, ready to be used.

    FOLDER may also be a URL. The file has its parameters, the objective with its interval, the comparison
    with the baseline and its verdict, and where all that comes from: checksums of the logs, ids of the cells,
    the search space, versions. `gridtune run SYSTEM --parameters FILE` takes its parameters.

    Of several workloads, the best is that of the ranking over all of them. Its parameters do not have what
    depends on the workload: give the log to `gridtune run`.

    \b
    Examples:
      gridtune results export results/quickstart
      gridtune results export results/quickstart --out best.yaml
      gridtune run batch --parameters best.yaml
      gridtune run batch --parameters best.yaml trace=my.swf.gz processors=128
      gridtune results export results/queue_orders --workload kth-sp2 --rank 2 --format json
    """
    from gridtune.study.export import exported_configuration
    from gridtune.study.stored import read_sweep
    from gridtune.sweep.journal.disk import check_writable

    check_new(out, force=force)
    if out is not None:
        check_writable(out.parent)
    if out is not None and out.suffix == ".db":
        raise click.UsageError("Studies of Optuna are no longer written: results.csv has every cell.")
    form = form or ("json" if out is not None and out.suffix == ".json" else "yaml")
    content = exported_configuration(
        read_sweep(folder), workload=workload, rank=rank or 1, objective=objective
    )
    text = _yaml(content, out) if form == "yaml" else json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    if out is None:
        click.echo(text, nl=False)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    click.echo(f"{out}: {_command(content, out)}")


def _yaml(content: Mapping[str, Any], out: Path | None) -> str:
    import yaml

    head = f"# Rank {content['rank']} of {content['of']} on {content['workload']}. To run it:\n"
    head += f"#   {_command(content, out)}\n"
    return head + yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=100)


def _command(content: Mapping[str, Any], out: Path | None) -> str:
    log = "" if "trace" in content["parameters"] or not content["provenance"]["traces"] else " trace=LOG"
    plugins = "".join(f" --plugin {path}" for path in content["provenance"]["plugins"])
    return f"gridtune run {content['system']} --parameters {out or 'FILE'}{log}{plugins}"


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
@JSON
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
      gridtune results compare results/before results/after
      gridtune results compare results/quickstart --configuration order=fcfs --configuration order=saf
      gridtune results compare results/a results/b --configuration order=sjf,backfill=easy
      gridtune results compare results/a results/b --csv differences.csv
    """
    from gridtune.report.rankings.comparison import compare as compare_sides

    first, second, system = _sides(folders, configurations)
    comparison = compare_sides(first, second, system, objective=objective)
    if csv_path is not None:
        from gridtune.report.tables import table_csv

        csv_path.write_text(table_csv(comparison.table()), "utf-8")
    if as_json:
        print_json(comparison.as_dict())
        return
    _print_comparison(comparison)
    if csv_path is not None:
        click.echo(f"rows: {csv_path}")


def _sides(folders: Sequence[str | Path], configurations: Sequence[str]) -> tuple[Side, Side, Any]:
    from gridtune.report.rankings.comparison import Side
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


def _print_comparison(comparison: Comparison) -> None:
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
        _comparison_table(workload, rows, comparison.parameters, means=True)
        for workload, rows in by_workload.items()
    ]
    if comparison.overall:
        title = "all workloads: mean of the relative differences"
        tables.append(_comparison_table(title, comparison.overall, comparison.parameters, means=False))
    print_tables(tables)
    for note in comparison.notes:
        click.echo(f"note: {note}")
    for rows, where in ((comparison.rows, ""), (comparison.overall, " over all workloads")):
        if rows:
            click.echo(_conclusion(rows, where))


def _conclusion(rows: Sequence[Mapping[str, Any]], where: str) -> str:
    from gridtune.report.rankings.ranking import Verdict

    verdicts = Counter(row["verdict"] or "without a common value" for row in rows)
    counts = ", ".join(f"{word} in {verdicts[word]}" for word in Verdict if verdicts[word])
    number = f"{len(rows)} comparison{'s' if len(rows) > 1 else ''}"
    return f"verdicts on the second: {counts or 'not comparable'} of {number}{where}"


def _comparison_table(
    title: str, rows: Sequence[Mapping[str, Any]], parameters: Sequence[str], *, means: bool
) -> Table:
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
