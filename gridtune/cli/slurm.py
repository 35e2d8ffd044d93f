"""Answers for who runs a Slurm cluster: `gridtune fit`, `gridtune waits` and `gridtune whatif`."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from gridtune.cli.parameters import JSON, WORKERS, folder_option, share_option
from gridtune.cli.tables import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from gridtune.report.card import Card, Change
    from gridtune.slurm.comparison import LoggedJobs
    from gridtune.study.fitting import Fit
    from gridtune.types import FloatArray
    from gridtune.workload.workload import Workload

__all__ = ["fit", "waits", "whatif"]

#: Replays with phases of the clocks drawn anew, unless said otherwise.
_DRAWS = 20
#: Characters of a line that the tables need.
_WIDE = 120
_METRIC = "wait_mean"
#: Classes that pay most, which the card names; all are in the table.
_NAMED = 4

_FOLDER = click.Path(exists=True, path_type=Path)
_SLURM = click.option(
    "--slurm",
    "folder",
    type=_FOLDER,
    required=True,
    metavar="FOLDER",
    help="Folder of slurm.conf and the files beside it.",
)
_NUMBER = click.option(
    "--draws",
    type=click.IntRange(min=2),
    default=_DRAWS,
    show_default=True,
    help="Replays, each with phases of the scheduler's clocks of its own.",
)
_SEED = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the draws.")
_FITTED = click.option(
    "--fit", "fitted", type=click.Path(path_type=Path), metavar="FILE", help="What `gridtune fit` found."
)


@click.command()
@click.argument("log")
@click.option(
    "--slurm", "configuration", type=_FOLDER, metavar="FOLDER", help="Folder of slurm.conf. [default: a pool]"
)
@share_option("calibrate", 0.6)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=40,
    show_default=True,
    help="Configurations that the sweep tries.",
)
@_NUMBER
@_SEED
@WORKERS
@click.option("--executor", type=click.Choice(["auto", "inline", "ray"]), default="auto", hidden=True)
@folder_option("Where sweep, settings and page are kept. [default: results/fit-NAME]")
@JSON
def fit(log: str, folder: Path | None, as_json: bool, **options: Any) -> None:
    """Say how near a simulated cluster comes to the waits that LOG records, and calibrate it.

    What the log does not say (nodes in service, seconds until nodes are free, what one user may have) is
    searched on the first part of the log; the rest is judged. Without --slurm the machine is one pool of
    processors.

    \b
    Examples:
      gridtune fit sacct.txt --slurm /etc/slurm
      gridtune whatif sacct.txt --slurm /etc/slurm --fit results/fit-sacct/fit.yaml --change bf_interval=120
    """
    from gridtune.study.fit_page import write_fit_page
    from gridtune.study.fitting import FIT_FILE
    from gridtune.study.fitting import fit as fit_log
    from gridtune.sweep.space.starter import space_name
    from gridtune.workload.files import WorkloadReference

    folder = folder or Path("results") / f"fit-{space_name(log)}"
    workload = WorkloadReference.parse(log).read()
    result = fit_log(
        workload, options.pop("configuration"), folder, say=lambda line: click.echo(line, err=True), **options
    )
    page = write_fit_page(result, folder)
    if as_json:
        print_json(result.as_dict() | {"page": str(page), "file": str(folder / FIT_FILE)}, indent=2)
        return
    _print_fit(result)
    click.echo(f"page: {page}\nsettings: {folder / FIT_FILE}")


def _print_fit(result: Fit) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from gridtune.study.fit_page import HEADS, TRUST, agreement_cells

    console = Console()
    console.width = max(console.width, _WIDE)
    console.print(TRUST[result.trust], style={"yes": "green", "no": "red"}.get(result.trust, "yellow"))
    for reason in result.reasons:
        console.print(f"  {reason}", style="yellow", highlight=False)
    fitted = ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in result.settings.items()
    )
    console.print(f"  fitted: {fitted}; the jobs used {result.used:.0%} of the processors", highlight=False)
    table = Table(box=box.SIMPLE_HEAD, title="jobs that were judged, seconds", title_justify="left")
    table.add_column("class")
    for head in HEADS:
        table.add_column(head, justify="right")
    table.add_row("as described", *agreement_cells(result.agreement(result.described)))
    for one, agreement in result.classes():
        table.add_row(one.name, *agreement_cells(agreement))
    console.print(table)


@click.command()
@click.argument("log")
@_SLURM
@click.option(
    "--change",
    "changes",
    multiple=True,
    metavar="SETTING",
    help="What to set, such as bf_interval=120 or 'PartitionName=debug PriorityTier=2'. May be repeated.",
)
@click.option("--to", "other", type=_FOLDER, metavar="FOLDER", help="Another slurm.conf to compare with.")
@_FITTED
@_NUMBER
@_SEED
@JSON
def whatif(
    log: str,
    folder: Path,
    changes: tuple[str, ...],
    other: Path | None,
    fitted: Path | None,
    draws: int,
    seed: int,
    as_json: bool,
) -> None:
    """Say what the jobs of LOG would wait under another configuration of Slurm, and who pays.

    Both configurations are replayed with the same draws of the clocks' phases. Intervals are over weeks, in a
    shorter log over days, and in one of fewer than six days over the draws alone.

    \b
    Examples:
      gridtune whatif sacct.txt --slurm /etc/slurm --change bf_interval=120
      gridtune whatif sacct.txt --slurm /etc/slurm --change "PartitionName=debug PriorityTier=2"
      gridtune whatif sacct.txt --slurm /etc/slurm --to new/ --json
    """
    from gridtune.slurm.comparison import logged_jobs, replayed_waits
    from gridtune.slurm.configuration import configuration_difference, read_cluster
    from gridtune.slurm.effective import Effective
    from gridtune.workload.files import WorkloadReference

    if not changes and other is None:
        raise click.UsageError("nothing to change: give --change SETTING or --to FOLDER")
    effective = Effective() if fitted is None else Effective.read(fitted)
    workload = WorkloadReference.parse(log).read()
    cluster, changed = read_cluster(folder), read_cluster(other or folder, changes)
    jobs = logged_jobs(workload, cluster).able_in(changed)
    waits, after = (
        replayed_waits(*effective.applied(one, jobs.requests), draws, seed) for one in (cluster, changed)
    )
    answer = _Answer(workload.name, jobs, waits, after, {*cluster.not_modelled, *changed.not_modelled})
    difference = configuration_difference(folder, other or folder, changes)
    if as_json:
        report = _settings(workload, jobs, draws) | answer.card.as_dict() | {"slurm_conf": difference}
        print_json(report | {"classes": answer.rows()}, indent=2)
        return
    from rich.console import Console

    from gridtune.report.card import print_cards

    console = Console()
    console.width = max(console.width, _WIDE)
    print_cards([answer.short_card()], console)
    for line in difference:
        style = "green" if line.startswith("+") else "red"
        console.print(f"  {line}", style=style, highlight=False, markup=False, soft_wrap=True)
    _print_left_out(console, workload, jobs)
    answer.print_table(console)


@click.command()
@click.option(
    "--squeue",
    "queue_file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="What runs and waits: the output of the command below.",
)
@_SLURM
@click.option("--log", metavar="LOG", help="The users' past, such as a dump of sacct.")
@click.option(
    "--now",
    type=click.DateTime(["%Y-%m-%dT%H:%M:%S"]),
    help="When squeue ran. [default: as start and elapsed time of what runs say]",
)
@_FITTED
@click.option("--draws", type=click.IntRange(min=10), default=50, show_default=True, help="Replays.")
@_SEED
@JSON
def waits(
    queue_file: Path,
    folder: Path,
    log: str | None,
    now: datetime.datetime | None,
    fitted: Path | None,
    draws: int,
    seed: int,
    as_json: bool,
) -> None:
    """Say when pending jobs will start, with an interval meant to hold 80 % of the starts.

    The cluster is replayed from what runs and waits now. Run times are drawn from each user's past in LOG,
    and so are jobs that come later; nothing in it after now is read. Without a log any run time up to the
    limit is as likely. The file is made by

    \b
      squeue -a -r -o "%i|%P|%u|%a|%q|%T|%V|%S|%M|%l|%C|%D|%m|%b|%f|%N|%r" > squeue.txt

    \b
    Examples:
      gridtune waits --squeue squeue.txt --slurm /etc/slurm --log sacct.txt
    """
    from gridtune.slurm.configuration import read_cluster
    from gridtune.slurm.effective import Effective
    from gridtune.slurm.forecast import INTERVAL, Past, forecast, past_of
    from gridtune.slurm.queue import read_queue
    from gridtune.workload.files import WorkloadReference

    cluster = read_cluster(folder)
    at = None if now is None else int(now.replace(tzinfo=datetime.UTC).timestamp())
    queue = read_queue(queue_file, cluster, at)
    past = Past(queue.now)
    if log is not None:
        past = past_of(cluster, WorkloadReference.parse(log).read(), queue.now)
    effective = Effective() if fitted is None else Effective.read(fitted)
    cluster, _ = effective.applied(cluster, [*queue.pending, *(one for one, _, _ in queue.running)])
    starts = forecast(cluster, queue.pending, queue.running, past, draws=draws, seed=seed)
    rows = []
    ends = np.quantile(starts, [INTERVAL[0], 0.5, INTERVAL[1]], axis=0, method="nearest")
    for place in np.argsort(ends[1], kind="stable"):
        job, (low, middle, high) = queue.pending[place], ends[:, place]
        rows.append(
            {
                "job": _job_name(job.number),
                "user": job.user,
                "partition": ",".join(job.partitions),
                "processors": job.cpus,
                "slurm_plans": _moment(queue.planned.get(job.number)),
                "start": _moment(middle),
                "from": _moment(low),
                "to": _moment(high),
            }
        )
    report = {"now": _moment(queue.now), "running": len(queue.running), "held": dict(queue.held)}
    if as_json:
        print_json(report | {"pending": rows, "not_modelled": list(cluster.not_modelled)}, indent=2)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.width = max(console.width, _WIDE)
    title = f"{len(rows)} pending jobs at {report['now']}, {len(queue.running)} run"
    table = Table("job", "user", "partition", box=box.SIMPLE_HEAD, title=title, title_justify="left")
    table.add_column("processors", justify="right")
    for head in ("Slurm plans", "likely start", "80 % from", "to"):
        table.add_column(head)
    for row in rows:
        table.add_row(*("" if value is None else str(value).replace("T", " ")[:16] for value in row.values()))
    console.print(table)
    for reason, count in queue.held.items():
        console.print(f"  {count} more are held: {reason}", style="yellow", highlight=False)
    if log is None:
        console.print("  without --log any run time up to a job's limit is as likely", style="yellow")


def _job_name(number: int) -> str:
    from gridtune.slurm.queue import TASK

    return str(number) if number < 1 << TASK else f"{number >> TASK}_{number & ((1 << TASK) - 1)}"


def _moment(instant: float | None) -> str | None:
    """Return an instant on the clock of the cluster; None for never."""
    if instant is None or not np.isfinite(instant):
        return None
    return f"{datetime.datetime.fromtimestamp(int(instant), datetime.UTC):%Y-%m-%dT%H:%M:%S}"


@dataclass(frozen=True)
class _Answer:
    """The effect of a change: waits of shape (draws, jobs) before and after it."""

    name: str
    jobs: LoggedJobs
    waits: FloatArray
    after: FloatArray
    not_modelled: set[str]

    @cached_property
    def changes(self) -> dict[str, Change]:
        """The effect on all jobs and to each class, by its name; all share the error of 5 %."""
        from gridtune.report.card import Change, compare_rows
        from gridtune.report.rankings.ranking import plain
        from gridtune.slurm.comparison import Comparison

        comparison = Comparison(self.jobs, self.waits, self.after)
        before, changed = comparison.replicates
        compared = compare_rows(changed, before, comparison.correlation, comparisons=len(comparison.classes))
        changes = {}
        for number, one in enumerate(comparison.classes):
            means = [float(values[:, one.members].mean()) for values in (self.after, self.waits)]
            longer = means[0] > means[1]
            shown = bool(compared.shown[number])
            changes[one.name] = Change(
                metric=_METRIC,
                unit="s",
                jobs=one.name,
                workload=self.name,
                baseline=means[1],
                mean=means[0],
                relative=plain(compared.relative[number]),
                low=plain(compared.low[number]),
                high=plain(compared.high[number]),
                p_value=plain(compared.p_value[number]),
                effect=("worse" if longer else "better") if shown else "not sure",
                adverse=longer,
            )
        return changes

    @property
    def card(self) -> Card:
        """The answer, who pays for it, and what decides but is not modelled."""
        from gridtune.report.answers import Answer
        from gridtune.report.card import Card
        from gridtune.report.rankings.ranking import Verdict

        whole, *rest = self.changes.values()
        verdict = {"worse": Verdict.WORSE, "better": Verdict.BETTER}.get(whole.effect, Verdict.UNSURE)
        answer = Answer(_METRIC, self.name, "the change", verdict, self._text(whole))
        return Card(answer, changes=rest, not_modelled=sorted(self.not_modelled))

    def short_card(self) -> Card:
        """Return the card with those that pay most."""
        card = self.card
        worse = sorted(card.worse, key=lambda change: -(change.relative or 0))
        return replace(card, changes=worse[:_NAMED]) if len(worse) > _NAMED else card

    def _text(self, whole: Change) -> str:
        from gridtune.report.labels import count_text, interval_text, percent_text

        jobs = self.jobs
        single = np.quantile(self.after.mean(axis=1) / np.maximum(self.waits.mean(axis=1), 1), [0.05, 0.95])
        number = len(self.waits) if jobs.replicate == "draw" else int(jobs.blocks.max()) + 1
        interval = interval_text(whole.low, whole.high, percent_text) or "unknown"
        verdict = {"worse": "They wait longer.", "better": "They wait less."}
        text = (
            f"The {len(jobs.requests):,} jobs of {self.name} would wait {whole.mean:,.0f} s on average "
            f"instead of {whole.baseline:,.0f} s: {percent_text(whole.relative)} (95 % interval {interval} "
            f"over {count_text(number, jobs.replicate)}; nine replays in ten "
            f"{interval_text(single[0] - 1, single[1] - 1, percent_text)}). "
            + verdict.get(whole.effect, "Whether they wait longer or less is not sure.")
        )
        if jobs.replicate == "draw":
            text += " The log is short: the interval holds draws of the clocks' phases, and not other weeks."
        known = jobs.recorded >= 0
        if known.any():
            text += (
                f" Recorded were {jobs.recorded[known].mean():,.0f} s, replayed as it runs "
                f"{self.waits[:, known].mean():,.0f} s."
            )
        return text

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the figures of each class, in seconds; ranges are those of nine replays in ten."""
        from gridtune.slurm.comparison import Comparison

        comparison, rows = Comparison(self.jobs, self.waits, self.after), {}
        for one in comparison.classes:
            change = self.changes[one.name]
            rows[one.name] = {
                **comparison.means(one.members),
                "relative": change.relative,
                "relative_interval": [change.low, change.high],
                "effect": change.effect,
            }
        return rows

    def print_table(self, console: Console) -> None:
        """Print the figures of each class."""
        from rich import box
        from rich.table import Table

        from gridtune.report.labels import interval_text, percent_text
        from gridtune.report.rankings.ranking import Verdict
        from gridtune.report.tables import MARKS

        table = Table(box=box.SIMPLE_HEAD, title="mean waits in seconds", title_justify="left")
        table.add_column("class")
        for head in ("jobs", "recorded", "as it runs", "changed", "difference", "95 % interval"):
            table.add_column(head, justify="right")
        table.add_column("wait")
        for name, row in self.rows().items():
            change = self.changes[name]
            table.add_row(
                name,
                f"{row['jobs']:,}",
                "" if row["recorded"] is None else f"{row['recorded']:,.0f}",
                f"{row['simulated']:,.0f}",
                f"{row['changed']:,.0f}",
                percent_text(change.relative),
                interval_text(change.low, change.high, percent_text),
                {"worse": "longer", "better": "shorter"}.get(change.effect, change.effect),
                style=None if change.effect == "not sure" else MARKS[Verdict(change.effect)],
            )
        console.print(table)


def _settings(workload: Workload, jobs: LoggedJobs, draws: int) -> dict[str, Any]:
    return {
        "jobs": len(jobs.requests),
        "left_out": jobs.left_out,
        "processors_allocated_to_requested": _factor(workload, jobs),
        "draws": draws,
        "replicate": jobs.replicate,
    }


def _factor(workload: Workload, jobs: LoggedJobs) -> float | None:
    """Return how many times as many processors jobs got as they asked for, where the log says both."""
    from gridtune.workload.formats.accounting.jobs import ALLOCATED_TO_REQUESTED

    if stated := workload.header.get(ALLOCATED_TO_REQUESTED):
        return float(stated[0])
    allocated, requested = (
        workload.column(f"{kind}_processors")[jobs.rows] for kind in ("allocated", "requested")
    )
    known = (allocated > 0) & (requested > 0)
    return round(float(allocated[known].sum() / requested[known].sum()), 3) if known.any() else None


def _print_left_out(console: Console, workload: Workload, jobs: LoggedJobs) -> None:
    """Print what is not replayed as it was recorded."""
    lines = [f"{count:,} jobs {reason}" for reason, count in jobs.left_out.items()]
    factor = _factor(workload, jobs)
    lines += [] if factor in {None, 1.0} else [f"allocated processors are {factor} × those requested"]
    for line in lines:
        console.print(f"  {line}", style="yellow", highlight=False, markup=False, soft_wrap=True)
