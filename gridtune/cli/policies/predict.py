"""`gridtune predict`: how well run times of a log are foreseen, and what an order gains by it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.parameters import JSON, PLUGINS
from gridtune.cli.tables import new_table, print_json, print_tables

if TYPE_CHECKING:
    from gridtune.study.predicting import Rating

__all__ = ["predict"]


@click.command()
@click.argument("log")
@click.option(
    "--predictor", "names", multiple=True, help="A predictor; may be repeated. [default: all there are]"
)
@click.option("--guard", type=click.IntRange(min=0), help="Seconds; longer waits go first.")
@click.option("--part", metavar="I/N", help="Only the i-th of n parts of the log.")
@PLUGINS
@JSON
def predict(
    log: str,
    names: tuple[str, ...],
    guard: int | None,
    part: str | None,
    plugins: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Say how well predictors foresee the run times of LOG, and what an order gains by them.

    LOG is replayed under UNICEF by walltimes, by what each predictor expects, and by the run times that only
    a clairvoyant knows. A predictor learns from jobs that have ended in the replay, and from nothing else.

    \b
    Examples:
      gridtune predict kth-sp2
      gridtune predict my_log.swf.gz --plugin my_predictor.py --predictor mine --guard 345600
    """
    from gridtune.batch.predictors import PREDICTORS
    from gridtune.core.cells import validated
    from gridtune.core.system import default_system
    from gridtune.core.user_code.plugins import load_plugins
    from gridtune.study.predicting import rate_predictors
    from gridtune.workload.files import WorkloadReference

    load_plugins(plugins)
    given = {"trace": log, **({"part": part} if part else {})}
    parameters: Any = validated(default_system(), given)
    jobs = parameters.selected_jobs(WorkloadReference.parse(str(parameters.reference)).read())
    chosen = names or tuple(PREDICTORS)
    ratings = rate_predictors(jobs, chosen, guard=guard, say=lambda line: click.echo(line, err=True))
    if as_json:
        print_json({"log": jobs.name, "jobs": len(jobs), "predictors": list(map(_as_json, ratings))})
        return
    print_tables(_tables(ratings, f"{jobs.name}: {len(jobs):,} jobs"))


def _as_json(rating: Rating) -> dict[str, Any]:
    shares = {order: rating.share(order) for order in rating.gains}
    return {**asdict(rating), "bins": [column.tolist() for column in rating.bins], "shares": shares}


def _tables(ratings: list[Rating], title: str) -> Any:
    heads = ("predictor", "early ends", "AUC", "calibration error", "early of the surest tenth", "error")
    rows = [
        (
            one.predictor,
            f"{one.early_ends:.1%}",
            f"{one.area_under_roc:.3f}",
            f"{one.calibration_error:.3f}",
            f"{one.surest:.1%}",
            f"{one.error:.2f}",
        )
        for one in ratings
    ]
    yield new_table(title, *heads, right=heads[1:], rows=rows)
    columns = ("UNICEF by", "predictor", "delay_index", "95 %", "clairvoyant", "share of its gain")
    gains = [
        (
            order,
            one.predictor,
            f"{gain.change:+.1%}",
            f"[{gain.low:+.0%}, {gain.high:+.0%}]",
            f"{gain.clairvoyant:+.1%}",
            f"{one.share(order):.0%}",
        )
        for one in ratings
        for order, gain in one.gains.items()
    ]
    yield new_table("To UNICEF by walltime", *columns, right=columns[2:], rows=gains)
