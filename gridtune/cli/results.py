"""`gridtune report`, and `gridtune results`: compare, export, merge, repair and rerun results of sweeps."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import check_new, command, read_parameters
from gridtune.cli.run import check_out, write_tables
from gridtune.cli.status import place_of
from gridtune.cli.tables import new_table, print_json, print_tables

if TYPE_CHECKING:
    from rich.table import Table

    from gridtune.report.rankings.comparison import Comparison, Side
    from gridtune.study.stored import CellAgain

#: Differences of a cell that are shown.
_SHOWN_DIFFERENCES = 20


@command()
def report(
    results: str | Path,
    *,
    objective: Sequence[str] = (),
    baseline: Sequence[str] = (),
    every: bool = False,
    details: bool = False,
    track: bool = False,
    tracking_uri: str | None = None,
    as_json: bool = False,
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
      gridtune report s3://bucket/my_space
      gridtune report results/quickstart --track --tracking-uri http://mlflow:5000

    Parameters
    ----------
    objective
        Metric to rank by, instead of the sweep's own.
    baseline
        Parameter of the configuration to compare with.
    track
        Send to the MLflow store what it does not have yet.
    """
    from gridtune.report.tables import report_console
    from gridtune.study import Study, report_study

    console, limit = report_console(), None if every else 30

    def show(study: Study) -> None:
        if not as_json:
            study.print_rankings(console, limit=limit, details=details)

    study = report_study(
        results,
        objective=objective or None,
        baseline=read_parameters(baseline, "--baseline") if baseline else None,
        tracking=track or tracking_uri is not None,
        tracking_uri=tracking_uri,
        show=show,
    )
    if as_json:
        print_json(study.as_dict())
        study.print_errors()
    else:
        study.print_places(console)
        if isinstance(results, str):
            console.print(f"made in a copy; nothing was changed at {results}", markup=False, soft_wrap=True)
    untracked = study.tracking is not None and not study.tracking.complete
    if untracked or study.report_error is not None:
        sys.exit(EXIT_FAILED_CELLS)


@click.group()
def results() -> None:
    """Compare, export, merge, repair and rerun the results of sweeps.

    \b
    Examples:
      gridtune results compare results/before results/after
      gridtune results export results/quickstart --out best.yaml
      gridtune results merge results/my_space/shards --out results/my_space
      gridtune results rerun 3f9c02 results/quickstart
    """


@command(group=results)
def _export(
    folder: str | Path,
    *,
    form: Literal["yaml", "json"] | None = None,
    workload: str | None = None,
    rank: int = 1,
    objective: str | None = None,
    out: Path | None = None,
    force: bool = False,
) -> None:
    """Write the configuration of the sweep in FOLDER that ranks first, ready to be used.

    It may be no better than the baseline: the advice, which is printed, has the verdict. FOLDER may also be a
    URL. The file has its parameters, the objective with its interval, the comparison
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

    Parameters
    ----------
    form
        Format of the file; by default that of its suffix, else yaml.
    workload
        A workload of the ranking; by default the ranking over all.
    rank
        Its place in the ranking.
    out
        The file; by default the standard output.
    """
    import yaml

    from gridtune.study.export import exported_configuration
    from gridtune.study.stored import read_sweep

    check_new(out, force=force)
    form = form or ("json" if out is not None and out.suffix == ".json" else "yaml")
    content = exported_configuration(read_sweep(folder), workload=workload, rank=rank, objective=objective)
    if form == "yaml":
        text = f"# Rank {content['rank']} of {content['of']} on {content['workload']}. The answer about it:\n"
        text += f"#   {content['answer']['advice']}\n# To run it:\n#   {_command(content, out)}\n"
        text += yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=100)
    else:
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    if out is None:
        click.echo(text, nl=False)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    click.echo(f"{out}: {_command(content, out)}\n{content['answer']['advice']}")


def _command(content: Mapping[str, Any], out: Path | None) -> str:
    log = "" if "trace" in content["parameters"] or not content["provenance"]["traces"] else " trace=LOG"
    plugins = "".join(f" --plugin {path}" for path in content["provenance"]["plugins"])
    return f"gridtune run {content['system']} --parameters {out or 'FILE'}{log}{plugins}"


@command(group=results)
def _compare(
    folders: Sequence[str | Path],
    *,
    configuration: Sequence[str] = (),
    objective: str | None = None,
    csv: Path | None = None,
    as_json: bool = False,
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

    Parameters
    ----------
    configuration
        NAME=VALUE[,NAME=VALUE]: parameters of a configuration, first for A, then for B or another of A.
    csv
        File of the rows as CSV.
    """
    from gridtune.report.rankings.comparison import compare

    first, second, system = _sides(folders, configuration)
    comparison = compare(first, second, system, objective=objective)
    if csv is not None:
        from gridtune.report.tables import table_csv

        csv.write_text(table_csv(comparison.table()), "utf-8")
    if as_json:
        print_json(comparison.as_dict())
        return
    _print_comparison(comparison)
    if csv is not None:
        click.echo(f"rows: {csv}")


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
    from gridtune.report.rankings.ranking import Verdict

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
        if not rows:
            continue
        verdicts = Counter(row["verdict"] or "without a common value" for row in rows)
        counts = ", ".join(f"{word} in {verdicts[word]}" for word in Verdict if verdicts[word])
        number = f"{len(rows)} comparison{'s' if len(rows) > 1 else ''}"
        click.echo(f"verdicts on the second: {counts or 'not comparable'} of {number}{where}")


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


@command(group=results)
def _merge(
    folders: Sequence[str | Path],
    *,
    directory: str | Path,
    tracking: bool = True,
    tracking_uri: str | None = None,
    quiet: bool = False,
    as_json: bool = False,
) -> None:
    """Put the shards of a sweep together: one journal, and results, ranking and report of the whole.

    FOLDER is a shard's, or one that shards are in; or the URL of either. The tables are those of the
    undivided sweep. Shards and cells that are missing are named, and no report is made without them; two
    different results of one cell are an error.

    \b
    Examples:
      gridtune sweep my_space.yaml --shard 1/2
      gridtune sweep my_space.yaml --shard 2/2
      gridtune results merge results/my_space/shards --out results/my_space
      gridtune results merge s3://bucket/my_space/shards --out s3://bucket/my_space
    """
    from gridtune.study.run import merge_shards

    merged = merge_shards(
        folders,
        directory,
        tracking=tracking,
        tracking_uri=tracking_uri,
        output="json" if as_json else "quiet" if quiet else "screen",
    )
    if merged.study is not None:
        if as_json:
            print_json(merged.study.as_dict())
        sys.exit(0 if merged.study.complete else EXIT_FAILED_CELLS)
    if as_json:
        print_json({"cells": merged.cells, "missing": merged.missing, "shards": merged.shards})
    plural = "s" if len(merged.shards) > 1 else ""
    shards = f", those of shard{plural} {', '.join(merged.shards)} among them" if merged.shards else ""
    click.echo(
        f"{merged.missing:,} of {merged.cells:,} cells are missing{shards}; the rest is in {directory}\n"
        f"  `gridtune sweep {merged.source or 'SPACE'} --out {directory}` runs what is missing here,\n"
        "  or merge again with the other folders",
        err=True,
    )
    sys.exit(EXIT_FAILED_CELLS)


@command(group=results)
def _repair(sweep: str) -> None:
    """Set the broken lines of a sweep's journal aside, so that their cells are run again.

    A line that a failing disk or a hand has altered stops the sweep that meets it. All such lines are moved
    to `journal.faulty`, beside the journal, and each is named here with its cell. A segment, a file in
    `journal/`, that is missing or altered is named, too; it is renamed to `.faulty`.

    \b
    Examples:
      gridtune results repair results/my_space
    """
    from gridtune.errors import SweepError
    from gridtune.sweep.journal.journal import JOURNAL_NAME, repair_journal

    place = place_of(sweep)
    if isinstance(place, str):
        hint = "copy journal.jsonl here, repair the copy, and put it back"
        raise SweepError("a journal at a URL is repaired in a copy", path=place, hint=hint)
    faults, aside = repair_journal(place / JOURNAL_NAME)
    for fault in faults:
        click.echo(fault)
    if faults:
        if lines := sum(fault.startswith("line ") for fault in faults):
            click.echo(f"{lines:,} {'line is' if lines == 1 else 'lines are'} in {aside} now")
        click.echo("the same sweep command runs their cells again")
    else:
        click.echo(f"{place / JOURNAL_NAME}: everything is as it was written; nothing is changed")


@command(group=results)
def _rerun(
    cell: str,
    folder: str | Path | None = None,
    *,
    out: Path | None = None,
    add_metric: Sequence[str] = (),
    plugin: Sequence[Path] = (),
    as_json: bool = False,
) -> None:
    """Run a cell of a sweep again, and say whether every metric is the same number, to the last bit.

    CELL is a cell's id, or a beginning of it that fits no other; the column `cell_id` of results.csv has
    them. It is looked for in FOLDER (or at a URL), or in all sweeps in results/.

    With --add-metric, CELL is a sweep's folder: its cells are run again and get the metric, under the ids
    and with the values that they have. After a kill the same command goes on.

    The exit code is 0 if everything is identical, and 1 otherwise.

    \b
    Examples:
      gridtune results rerun 3f9c02 results/quickstart
      gridtune results rerun results/quickstart --add-metric stretch_p99
      gridtune results rerun results/quickstart --add-metric night_wait --plugin night.py
      gridtune results rerun 3f9c02 --out schedule.parquet

    Parameters
    ----------
    out
        Write the cell's tables (its schedule) as Parquet: FILE.parquet or a folder.
    add_metric
        Add a metric to all cells of the sweep in the folder CELL.
    plugin
        With --add-metric: a Python file that defines the metric.
    """
    from gridtune.study.stored import add_metrics, find_cell, rerun_cells
    from gridtune.sweep.journal.journal import sweep_folders

    if plugin and not add_metric:
        raise click.UsageError("--plugin goes with --add-metric")
    if add_metric:
        added = sum(1 for _ in add_metrics(Path(cell), add_metric, plugin))
        click.echo(f"{added or 'all'} cells have {', '.join(add_metric)} now; to rank by it:")
        click.echo(shlex.join(["gridtune", "report", cell, "--objective", add_metric[0]]))
        return
    if out is not None:
        check_out(out)
    folders: list[str | Path] = [folder] if folder is not None else [*sweep_folders()]
    facts, result = find_cell(cell, folders)
    (again,) = rerun_cells(facts, [result], tables=out is not None)
    if as_json:
        print_json({"identical": again.identical, "cells": [again.as_dict()]})
    else:
        _print_again(again)
    if out is not None and again.tables:
        write_tables(again.tables, out)
    if not again.identical:
        sys.exit(EXIT_FAILED_CELLS)


def _print_again(again: CellAgain) -> None:
    from gridtune.report.labels import value_text

    before = again.before
    parameters = "  ".join(f"{name}={value_text(value)}" for name, value in before.parameters.items())
    click.echo(f"cell {before.cell_id}  {before.workload}, {before.replicate}")
    click.echo(f"  {parameters}  seed={before.seed}")
    for change in again.changed:
        click.echo(f"  another cell now: {change}")
    if again.error is not None:
        then = "it was done" if before.state == "done" else f"it was {before.state.replace('_', ' ')}, too"
        click.echo(f"  failed ({then}): {again.error}")
    elif before.state != "done":
        click.echo(
            f"  done now, in {again.seconds:.3g} s; it was {before.state.replace('_', ' ')}: {before.error}"
        )
    elif again.identical:
        click.echo(f"  identical: {len(again.metrics)} metrics, in {again.seconds:.3g} s")
    else:
        differences = again.differences
        click.echo(f"  {len(differences)} of {len(again.metrics)} metrics differ:")
        for name, (old, new) in list(differences.items())[:_SHOWN_DIFFERENCES]:
            click.echo(f"    {name}: {old!r} then, {new!r} now")
        if len(differences) > _SHOWN_DIFFERENCES:
            click.echo(f"    … and {len(differences) - _SHOWN_DIFFERENCES} more; --json lists all")
