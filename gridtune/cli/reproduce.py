"""`gridtune reproduce`: the experiments of a publication again, with a verdict for each of its claims."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.tables import new_table, print_json, print_tracked

if TYPE_CHECKING:
    from gridtune.report.reproduction import Reproduced

__all__ = ["reproduce"]


def _complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from gridtune.study.reproduction import reproduction_names

    return [name for name in reproduction_names() if name.startswith(incomplete)]


@click.command()
@click.argument("paper", metavar="PAPER", shell_complete=_complete_names)
@click.option(
    "--quick/--full",
    default=True,
    help="Parts of the experiments in minutes, or the whole experiments with the real logs. [default: quick]",
)
@click.option(
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where everything goes. [default: results/reproduce-PAPER-quick or -full]",
)
@click.option("--workers", type=click.IntRange(min=1), help="Cells at once. [default: all processors]")
@click.option(
    "--track", "tracking", is_flag=True, help="Keep the sweeps, the verdicts and the page in MLflow."
)
@click.option(
    "--tracking-uri",
    help="The MLflow store; implies --track. [default: MLFLOW_TRACKING_URI, else mlflow.db here]",
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end and nothing else.")
def reproduce(paper: str, quick: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Run the experiments of PAPER again, and say of each of its claims whether it holds here.

    PAPER is responsive, provisioning, dispatch, shutdown or batch_learning, or a reproduction of a
    plug-in's. Its experiments are sweeps, and go on where they were if killed. One HTML page holds every
    table and figure, our numbers beside the published ones, with the logs, their checksums and the
    commands; verdicts.json beside it has the same for machines.

    With --full, logs that are not here stop it before anything is run: `gridtune traces fetch NAME` gets
    public ones. With --quick generated logs stand in for them.

    \b
    Examples:
      gridtune reproduce shutdown
      gridtune reproduce provisioning --full --output results/singh2007
      gridtune reproduce dispatch --json
    """
    from gridtune.study.reproduction import reproduce as run_reproduction

    silent = quiet or as_json
    done = run_reproduction(
        paper,
        full=not quick,
        output="quiet" if silent else "progress",
        say=(lambda _: None) if silent else click.echo,
        **options,
    )
    if as_json:
        content = json.loads(done.verdicts.read_text(encoding="utf-8"))
        print_json({**content, "page": done.page.resolve().as_uri()})
    elif not quiet:
        _print_verdicts(done.reproduced)
        click.echo(f"the page: {done.page.resolve().as_uri()}")
        click.echo(f"the verdicts: {done.verdicts}")
    if done.tracking is not None and not quiet:
        print_tracked(done.tracking)
    if not done.complete:
        sys.exit(EXIT_FAILED_CELLS)


def _print_verdicts(reproduced: Reproduced) -> None:
    from gridtune.report.tables import report_console

    table = new_table(reproduced.title, "verdict", "claim", "criteria that hold")
    for claim in reproduced.claims:
        holds = sum(criterion.outcome == "holds" for criterion in claim.criteria)
        table.add_row(str(claim.verdict), claim.text, f"{holds} of {len(claim.criteria)}")
    report_console().print(table)
