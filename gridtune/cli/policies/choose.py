"""`gridtune choose`: the policy for a log, chosen on its first part and judged on the rest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.parameters import FILE, JSON, PLUGINS, WORKERS, check_new, folder_option, share_option
from gridtune.cli.tables import print_json

if TYPE_CHECKING:
    from gridtune.study.choosing import Choice

__all__ = ["choose"]


@click.command()
@click.argument("log")
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Try policies for about this long; what has begun is finished.",
)
@share_option("choose", 0.4)
@click.option(
    "--processors", type=click.IntRange(min=1), help="The machine's size, if the log does not say it."
)
@click.option("--order", "orders", multiple=True, help="A queue order to try, too; may be repeated.")
@PLUGINS
@WORKERS
@click.option("--address", help="A running Ray cluster to join. [default: RAY_ADDRESS, else a local one]")
@folder_option("Where the two sweeps are kept. [default: results/choose-NAME]")
@click.option("--export", "export", type=FILE, help="Write the policy to this file, as `gridtune export`.")
@click.option("--force", is_flag=True, help="Replace that file if it exists.")
@JSON
def choose(
    log: str,
    processors: int | None,
    plugins: tuple[Path, ...],
    folder: Path | None,
    export: Path | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the queue order, backfilling and guard for LOG.

    Rules with and without guards, under EASY and conservative backfilling, and rollouts replay the first
    part of the log. The one with the least delay_index that is not shown to break a bound (the longest wait,
    and the mean wait of wide jobs, as in `gridtune init`) replays the rest, beside first come, first served
    with EASY. Its card says by how much it is better there, and who pays. The rest has no part in the choice.

    The same command goes on after a kill; with a larger --budget it tries what was left out.

    \b
    Examples:
      gridtune choose my_log.swf.gz --export best.yaml
      gridtune choose kth-sp2 --budget 60 --share 0.5
      gridtune choose my_log.swf.gz --plugin my_orders.py --order my-order
      gridtune run batch --parameters best.yaml
    """
    import yaml

    from gridtune.core.user_code.plugins import load_plugins
    from gridtune.study.choosing import choose as choose_policy
    from gridtune.sweep.journal.disk import check_writable
    from gridtune.sweep.space.starter import space_name
    from gridtune.workload.catalogue import resolve_trace
    from gridtune.workload.files import WorkloadReference

    check_new(export, force=force)
    if export is not None:
        check_writable(export.parent)
    load_plugins(plugins)
    resolve_trace(log)
    choice = choose_policy(
        WorkloadReference(log).read(),
        folder or Path("results") / f"choose-{space_name(log)}",
        trace=log,
        processors=processors,
        plugins=[str(path.resolve()) for path in plugins],
        say=lambda line: click.echo(line, err=True),
        **options,
    )
    if export is not None:
        text = yaml.safe_dump(dict(choice.exported), sort_keys=False, allow_unicode=True, width=100)
        export.write_text(text, encoding="utf-8")
    if as_json:
        print_json(choice.as_dict())
        return
    _print(choice)
    if export is not None:
        click.echo(f"{export}: gridtune run batch --parameters {export}")


def _print(choice: Choice) -> None:
    from gridtune.report.card import print_cards
    from gridtune.report.labels import configuration_label
    from gridtune.report.tables import report_console

    first, rest = choice.jobs
    policy = configuration_label(choice.parameters, list(choice.parameters))
    console = report_console()
    click.echo(f"{policy}: chosen from {choice.tried} policies on the first {first:,} jobs")
    if choice.left_out:
        click.echo(f"not tried, as the budget was spent: {', '.join(choice.left_out)}")
    click.echo()
    if choice.judged is None:
        print_cards([choice.chosen], console)
        return
    click.echo(f"judged on the {rest:,} jobs that follow:")
    print_cards([choice.judged], console)
