"""`gridtune policy`: choose a policy for a log, check one, and evaluate predictors of run times."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import Answered, check_new, command
from gridtune.cli.tables import new_table, print_json, print_tables
from gridtune.study import choosing, leaks, predicting

if TYPE_CHECKING:
    from rich.table import Table


@click.group()
def policy() -> None:
    """Choose a policy for a log, check a policy, and evaluate predictors of run times.

    \b
    Examples:
      gridtune policy choose my_log.swf.gz --export best.yaml
      gridtune policy score my_order.py
      gridtune policy predict my_log.swf.gz
    """


@command(choosing.choose, without=("say", "console"), group=policy, tracked=True)
def _choose(
    *,
    export: Path | None = None,
    force: bool = False,
    details: bool = False,
    as_json: bool = False,
    **options: Any,
) -> Answered:
    """Find the queue order, backfilling and guard for LOG.

    Rules with and without guards, under EASY and conservative backfilling, and rollouts replay the first
    part of the log. The one with the least delay_index that is not shown to break a bound (the longest wait,
    and the mean wait of wide jobs, as in `gridtune init`) replays the rest, beside first come, first served
    with EASY. The answer gives its gain there, and the jobs that lose. The rest has no part in the
    choice.

    The same command resumes after a kill; with more --policies it tries more.

    \b
    Examples:
      gridtune policy choose my_log.swf.gz --export best.yaml
      gridtune policy choose kth-sp2 --policies 20 --share 0.5
      gridtune policy choose my_log.swf.gz --plugin my_orders.py --order my-order
      gridtune run batch --parameters best.yaml

    Parameters
    ----------
    export
        Write the policy to this file, as `gridtune results export` does.
    """
    import yaml

    from gridtune.report.answer import print_answers
    from gridtune.report.tables import report_console

    check_new(export, force=force)
    console = report_console()
    options |= {"console": None if as_json else console, "say": lambda line: click.echo(line, err=True)}
    choice = choosing.choose(**options)
    if export is not None:
        text = yaml.safe_dump(dict(choice.exported), sort_keys=False, allow_unicode=True, width=100)
        export.write_text(text, encoding="utf-8")
    answered = Answered(choice.as_dict(), choice.chosen.stratum, () if export is None else (export,))
    if as_json:
        print_json(answered.content)
        return answered
    print_answers([choice.answer], console, details=details)
    if choice.left_out:
        click.echo(f"not tried: {', '.join(choice.left_out)}")
    if export is not None:
        click.echo(f"{export}: gridtune run batch --parameters {export}")
    return answered


@command(leaks.score, group=policy, tracked=True)
def _score(*, as_json: bool = False, **options: Any) -> Answered:
    """Check that POLICY sees no future, and compare it with simple rules and a rollout.

    POLICY is a Python file that registers a queue order, the name of an order, or an expression. A file is
    read before it is run: code that does more than arithmetic with the fields of a job is refused, and
    nothing of it runs. Then no decision may change when run times and later submissions do, and replays must
    be the same twice, in another process, and a year later.

    The exit code is 0 if all checks pass and 1 if not, however good the policy is.

    \b
    Examples:
      gridtune policy score my_order.py
      gridtune policy score my_order.py --log my_log.swf.gz --log kth-sp2 --guard 172800
      gridtune policy score "log(walltime) + 0.3 * processors" --json
      gridtune policy score "prediction * processors - wait" --predictor template
    """
    result = leaks.score(**options)
    if as_json:
        print_json(result.as_dict())
    else:
        print_tables(
            new_table(title, *heads, rows=rows, right=heads[1:] if number else ())
            for number, (title, heads, rows) in enumerate(result.tables())
        )
        if result.seed is not None:
            click.echo(f"logs were generated with --seed {result.seed}")
        click.echo(f"{'passed' if result.passed else 'failed'}: {result.page}")
    code = 0 if result.passed else EXIT_FAILED_CELLS
    return Answered(result.as_dict(), result.policy, [result.page], code)


@command(predicting.predict, without=("say",), group=policy, tracked=True)
def _predict(*, as_json: bool = False, **options: Any) -> Answered:
    """Evaluate run-time predictors on LOG.

    LOG is replayed under UNICEF with walltimes, with each predictor's run times, and with the actual run
    times. A predictor learns from jobs that have ended in the replay, and from nothing else.

    \b
    Examples:
      gridtune policy predict kth-sp2
      gridtune policy predict my_log.swf.gz --plugin my_predictor.py --predictor mine --guard 345600
    """
    jobs, ratings = predicting.predict(**options, say=lambda line: click.echo(line, err=True))
    rated = [
        {
            **asdict(one),
            "bins": [column.tolist() for column in one.bins],
            "shares": {order: one.share(order) for order in one.gains},
        }
        for one in ratings
    ]
    content = {"log": jobs.name, "jobs": len(jobs), "predictors": rated}
    if as_json:
        print_json(content)
    else:
        print_tables(_tables(ratings, f"{jobs.name}: {len(jobs):,} jobs"))
    by_name = {one["predictor"]: one for one in rated}
    return Answered({**content, "predictors": by_name}, jobs.name)


def _tables(ratings: list[predicting.Rating], title: str) -> list[Table]:
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
    columns = ("UNICEF by", "predictor", "delay_index", "95 %", "clairvoyant", "share of its gain")
    gains = [
        (
            order,
            one.predictor,
            f"{gain.change:+.1%}",
            "–" if math.isnan(gain.low) else f"[{gain.low:+.0%}, {gain.high:+.0%}]",
            f"{gain.clairvoyant:+.1%}",
            f"{one.share(order):.0%}",
        )
        for one in ratings
        for order, gain in one.gains.items()
    ]
    return [
        new_table(title, *heads, right=heads[1:], rows=rows),
        new_table("Change against UNICEF by walltime", *columns, right=columns[2:], rows=gains),
    ]
