"""`gridtune slurm`: calibrate a simulated cluster, simulate another configuration, predict starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.parameters import Answered, command
from gridtune.cli.tables import new_table, print_json, print_lines
from gridtune.report.answer import print_answers
from gridtune.report.tables import report_console
from gridtune.slurm import steering
from gridtune.study import advice, advising, fitting

if TYPE_CHECKING:
    from rich.table import Table


@click.group()
def slurm() -> None:
    """Advise on a Slurm cluster: compare simulated with recorded waits, change settings, predict starts.

    \b
    Examples:
      gridtune slurm advise sacct.txt --slurm /etc/slurm
      gridtune slurm fit sacct.txt --slurm /etc/slurm
      gridtune slurm whatif sacct.txt --slurm /etc/slurm --change bf_interval=120
      gridtune slurm waits --squeue squeue.txt --slurm /etc/slurm --log sacct.txt
    """


@command(fitting.fit, without=("say",), group=slurm, tracked=True)
def _fit(*, as_json: bool = False, **options: Any) -> Answered:
    """Compare simulated with recorded waits of LOG, and calibrate the model.

    A log does not contain the share of nodes in service and the seconds until nodes are free: they are
    searched on the first part of the log, and kept if they also fit the next part. The other jobs are used
    for the comparison only.

    \b
    Examples:
      gridtune slurm fit sacct.txt --slurm /etc/slurm
      gridtune slurm whatif sacct.txt --slurm /etc/slurm --fit results/fit-sacct/fit.yaml --to new/
    """
    result = fitting.fit(**options, say=lambda line: click.echo(line, err=True))
    answered = Answered(result.as_dict(), result.name, [result.page, result.file])
    if as_json:
        print_json(answered.content, indent=2)
        return answered
    console = report_console()
    print_answers([result.answer], console, details=True)
    console.print(f"  {result.found}")
    console.print(_table("jobs that were judged, seconds", *result.table()))
    click.echo(f"page: {result.page}\nsettings: {result.file}")
    return answered


@command(advice.whatif, group=slurm, tracked=True)
def _whatif(
    *, predict: Path | None = None, details: bool = False, as_json: bool = False, **options: Any
) -> Answered:
    """Simulate the waits of the jobs of LOG under another configuration of Slurm.

    A log does not record when scheduler passes ran, so each replay draws random phases; both configurations
    use the same ones. An interval of 95 % covers these, the differences between two runs of one Slurm, and
    other weeks, or other days in a shorter log; a log of fewer than six days supports neither.

    \b
    Examples:
      gridtune slurm whatif sacct.txt --slurm /etc/slurm --change bf_interval=120
      gridtune slurm whatif sacct.txt --slurm /etc/slurm --change "PartitionName=debug PriorityTier=2"
      gridtune slurm whatif sacct.txt --slurm /etc/slurm --to new/ --json
      gridtune slurm whatif sacct.txt --slurm site --change bf_interval=120 --predict bf120.json

    Parameters
    ----------
    predict
        Store the prediction in this file, for `gridtune slurm verify`.
    """
    result = advice.whatif(**options)
    if predict is not None:
        result.write(predict)
    answered = Answered(result.as_dict(), result.log.name)
    if as_json:
        print_json(answered.content, indent=2)
        return answered
    console = report_console()
    print_answers([result.answer], console, details=details)
    for line in result.difference:
        print_lines(console, [line], style="green" if line.startswith("+") else "red")
    if result.is_shown:
        console.print(_table("mean waits in seconds", *result.table()))
    return answered


@command(advising.advise, without=("say", "console"), group=slurm, tracked=True)
def _advise(*, details: bool = False, as_json: bool = False, **options: Any) -> Answered:
    """Search the settings of a cluster for those under which the jobs of LOG wait less.

    First the files that are missing beside slurm.conf are named, and the running configuration is graded. An
    adaptive search then tries settings of backfill, priorities, depths and limits on the first 60 % of the
    jobs, with bounds on the longest wait and on wide jobs. The best change, without settings that gain
    nothing, is judged as by `gridtune slurm whatif` on the whole log, and on the jobs that the search did not
    see.

    \b
    Examples:
      gridtune slurm advise sacct.txt --slurm /etc/slurm
      gridtune slurm advise sacct.txt --slurm site --fit fit/fit.yaml --trials 80 --out advice
    """
    console = report_console()
    options |= {"console": None if as_json else console, "say": lambda line: click.echo(line, err=True)}
    result = advising.advise(**options)
    answered = Answered(result.as_dict(), result.answer.stratum, [result.page])
    if as_json:
        print_json(answered.content, indent=2)
        return answered
    print_answers([result.answer], console, details=details)
    for line in result.judged.difference if result.judged else ():
        print_lines(console, [line], style="green" if line.startswith("+") else "red")
    click.echo(f"page: {result.page}")
    return answered


@command(advising.verify, group=slurm, tracked=True)
def _verify(*, details: bool = False, as_json: bool = False, **options: Any) -> Answered:
    """Check a prediction on the jobs after the change: PREDICTION is the file of `whatif --predict`.

    The later jobs of LOG are replayed under both configurations. If the replay of the changed one waits as
    recorded, the difference of the two is what the change made of these jobs.

    \b
    Examples:
      gridtune slurm verify bf120.json sacct-after.txt
    """
    answer = advising.verify(**options)
    if as_json:
        print_json(answer.as_dict(), indent=2)
    else:
        print_answers([answer], report_console(), details=details)
    return Answered(answer.as_dict(), answer.stratum)


@command(advice.waits, group=slurm, tracked=True)
def _waits(*, as_json: bool = False, **options: Any) -> Answered:
    """Predict the starts of pending jobs, with intervals meant to hold 80 % of the starts.

    The cluster is replayed from its present state. Run times are drawn from each user's past in the log, and
    so are later jobs; no record after the present is used. Without a log, all run times up to the limit are
    equally likely. This command writes the file:

    \b
      squeue -a -r -o "%i|%P|%u|%a|%q|%T|%V|%S|%M|%l|%C|%D|%m|%b|%f|%N|%r" > squeue.txt

    \b
    Examples:
      gridtune slurm waits --squeue squeue.txt --slurm /etc/slurm --log sacct.txt
    """
    result = advice.waits(**options)
    answered = Answered(result.as_dict(), options["squeue"].name)
    if as_json:
        print_json(answered.content, indent=2)
        return answered
    console = report_console()
    head = f"{len(result.pending)} pending jobs at {result.now}, {result.running} running"
    title = f"{head}; trust {result.trust}"
    console.print(_table(title, *result.table()))
    print_lines(console, result.lines)
    if options["log"] is None:
        print_lines(console, ["without --log all run times up to a job's limit are equally likely"])
    return answered


@command(steering.steer, group=slurm)
def _steer(*, plugin: Sequence[Path] = (), as_json: bool = False, **options: Any) -> None:
    """Put the queue of a real Slurm into the order of a policy, by nice values.

    Without --apply it changes nothing and prints what it would do. Held jobs, arrays, heterogeneous jobs and
    jobs whose nice value others have set are left alone. It stops on any doubt about the state of Slurm.

    \b
    Examples:
      gridtune slurm steer --slurm /etc/slurm --policy saf --guard 345600
      gridtune slurm steer --slurm /etc/slurm --policy saf --guard 345600 --apply
      gridtune slurm steer --slurm /etc/slurm --undo
    """
    from gridtune.core.user_code.plugins import load_plugins

    load_plugins(plugin)
    for decision, lines in steering.steer(**options):
        if as_json:
            print_json(decision)
        else:
            click.echo("\n".join(lines))


def _table(title: str, heads: list[str], rows: list[list[str]]) -> Table:
    """Return a table whose numbers are aligned to the right."""
    first = rows[0] if rows else [""] * len(heads)
    numbers = [head for head, cell in zip(heads, first, strict=True) if cell[-1:] in set("0123456789%")]
    return new_table(title, *heads, right=numbers, rows=rows)
