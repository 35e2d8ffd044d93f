"""`gridtune report` and `gridtune export`: the tables, figures and best configuration of a sweep, again."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import click

from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import FILE, check_new, complete_sweeps, read_parameters, read_place
from gridtune.cli.tables import print_json

__all__ = ["export", "report"]


@click.command()
@click.argument("results", type=read_place, shell_complete=complete_sweeps)
@click.option("--objective", metavar="METRIC", help="Rank by another metric than the sweep's own.")
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def report(
    results: str | Path,
    objective: str | None,
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
    report is made in a copy here. No cell is run. With --objective or
    --baseline the rankings go into a folder of their own in it, such as
    results/quickstart/report-utilisation, and the sweep's own stay as they are.

    \b
    Examples:
      gridtune report results/quickstart
      gridtune report results/quickstart --objective utilisation
      gridtune report results/quickstart --baseline order=sjf --baseline backfill=easy
      gridtune report results/quickstart --power
      gridtune report s3://bucket/my_space
      gridtune report results/quickstart --track --tracking-uri http://mlflow:5000
    """
    from gridtune.report.sample_size import EFFECTS, print_power
    from gridtune.study import print_study, report_study
    from gridtune.study.report import print_errors, write_power

    if effects and not power:
        raise click.UsageError("--effect goes with --power")

    study = report_study(
        results,
        objective=objective,
        baseline=read_parameters(baseline, "--baseline") if baseline else None,
        tracking=track or tracking_uri is not None,
        tracking_uri=tracking_uri,
    )
    tables: dict[str, Any] = {}
    if power:
        study, tables = write_power(study, tuple(effect / 100 for effect in effects) or EFFECTS)
    if as_json:
        content = study.as_dict()
        if power:
            content["power"] = {name: table.to_pylist() for name, table in tables.items()}
        print_json(content)
        print_errors(study)
    else:
        from gridtune.report.tables import report_console

        console = report_console()
        limit = None if every else 30
        for table in tables.values():
            print_power(table, console, limit=limit)
        print_study(study, console, limit=limit, rankings=not power)
        if isinstance(results, str):
            console.print(f"made in a copy; nothing was changed at {results}", markup=False, soft_wrap=True)
    untracked = study.tracking is not None and not study.tracking.complete
    if untracked or study.report_error is not None:
        sys.exit(EXIT_FAILED_CELLS)


#: The format of a file by its suffix.
_FORMS: Mapping[str, Literal["json", "optuna"]] = {".json": "json", ".db": "optuna"}


@click.command()
@click.argument("folder", type=read_place, shell_complete=complete_sweeps)
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json", "optuna"]),
    help="[default: that of --out's suffix (.db: optuna), else yaml]",
)
@click.option("--workload", metavar="NAME", help="A workload of the ranking. [default: the ranking over all]")
@click.option("--rank", type=click.IntRange(min=1), help="Its place.  [default: 1]")
@click.option("--objective", metavar="METRIC", help="Rank by another metric than the sweep's own.")
@click.option("--out", type=FILE, help="The file. [default: standard output]")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def export(
    folder: str | Path,
    form: Literal["yaml", "json", "optuna"] | None,
    workload: str | None,
    rank: int | None,
    objective: str | None,
    out: Path | None,
    force: bool,
) -> None:
    """Write the best configuration of the sweep in FOLDER, ready to be used; or the whole sweep for Optuna.

    FOLDER may also be a URL. The file has its parameters, the objective with its interval, the comparison
    with the baseline and its verdict, and where all that comes from: checksums of the logs, ids of the cells,
    the search space, versions. `gridtune run SYSTEM --parameters FILE` takes its parameters.

    Of several workloads, the best is that of the ranking over all of them. Its parameters do not have what
    depends on the workload: give the log to `gridtune run`.

    With `--format optuna`, the file is an Optuna storage in SQLite with a study of all configurations, which
    `optuna-dashboard` and `optuna.load_study` open.

    \b
    Examples:
      gridtune export results/quickstart
      gridtune export results/quickstart --out best.yaml
      gridtune run batch --parameters best.yaml
      gridtune run batch --parameters best.yaml trace=my.swf.gz processors=128
      gridtune export results/queue_orders --workload kth-sp2 --rank 2 --format json
      gridtune export results/searched --format optuna --out study.db
    """
    from gridtune.study.export import exported_configuration
    from gridtune.study.stored import read_sweep
    from gridtune.sweep.journal.journal import check_writable

    check_new(out, force=force)
    if out is not None:
        check_writable(out.parent)
    form = form or _FORMS.get("" if out is None else out.suffix, "yaml")
    if form == "optuna":
        _export_study(folder, out, objective, narrowed=workload is not None or rank is not None)
        return
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


def _export_study(folder: str | Path, out: Path | None, objective: str | None, *, narrowed: bool) -> None:
    from gridtune.storage import draft_of
    from gridtune.study.export import write_optuna_study
    from gridtune.study.stored import read_sweep

    if out is None:
        raise click.UsageError("--format optuna needs a file: add --out study.db")
    if narrowed:
        raise click.UsageError("--format optuna takes all configurations: leave out --workload and --rank.")
    sweep = read_sweep(folder)
    with draft_of(out) as draft:
        trials = write_optuna_study(sweep, draft, objective=objective)
    click.echo(f"{out}: {trials} trials; to look at them: optuna-dashboard sqlite:///{out}")


def _yaml(content: Mapping[str, Any], out: Path | None) -> str:
    import yaml

    head = f"# Rank {content['rank']} of {content['of']} on {content['workload']}. To run it:\n"
    head += f"#   {_command(content, out)}\n"
    return head + yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=100)


def _command(content: Mapping[str, Any], out: Path | None) -> str:
    log = "" if "trace" in content["parameters"] or not content["provenance"]["traces"] else " trace=LOG"
    plugins = "".join(f" --plugin {path}" for path in content["provenance"]["plugins"])
    return f"gridtune run {content['system']} --parameters {out or 'FILE'}{log}{plugins}"
