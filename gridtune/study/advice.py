"""Advice on a Slurm cluster: waits under another configuration, and the starts of pending jobs."""

from __future__ import annotations

import datetime
import html
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gridtune.core.cells import content_id
from gridtune.core.remarks import Trust
from gridtune.errors import SweepError
from gridtune.report.answer import Answer, Effect, difference_text, is_vague, values_text
from gridtune.report.facts import write_json
from gridtune.report.findings import compare_rows, range_text
from gridtune.report.labels import count_text, interval_text, percent_text
from gridtune.report.rankings.ranking import LEVEL, Verdict, plain
from gridtune.report.tables import plain_table
from gridtune.slurm.cluster import SlurmCluster
from gridtune.slurm.comparison import (
    Comparison,
    LoggedJobs,
    anchored,
    logged_jobs,
    not_modelled,
    replayed_waits,
)
from gridtune.slurm.configuration import configuration_difference, read_cluster
from gridtune.slurm.forecast import INTERVAL, Past, forecast, past_of
from gridtune.slurm.queue import TASK, read_queue
from gridtune.slurm.requests import Request
from gridtune.slurm.study import Effective
from gridtune.slurm.versions import version_of
from gridtune.statistics.sample_size import fewest_replicates
from gridtune.types import FloatArray
from gridtune.workload.files import workload_of
from gridtune.workload.formats.accounting import ALLOCATED_TO_REQUESTED
from gridtune.workload.workload import Workload

_METRIC = "wait_mean"


@dataclass(frozen=True)
class WhatIf:
    """The effect of another configuration on the waits of a log's jobs.

    Attributes
    ----------
    log
        The log.
    comparison
        Simulated waits of its jobs that both configurations can run, before and after the change.
    difference
        Lines of `slurm.conf` that differ, with "-" or "+" in front.
    not_modelled
        Settings of the two configurations that are not modelled.
    trust
        The agreement of the replay of the present configuration with the recorded waits.
    anyway
        Show the effect also without trust.
    asked
        The arguments of `whatif` that describe the change.
    load
        The factor by which jobs arrive more densely after the change.
    excluded
        Sentences on jobs that could not run after the change; they are in no other number.
    """

    log: Workload
    comparison: Comparison
    difference: Sequence[str]
    not_modelled: Sequence[str]
    trust: Trust
    anyway: bool = False
    asked: Mapping[str, Any] = field(default_factory=dict)
    load: float = 1.0
    excluded: Sequence[str] = ()

    @property
    def jobs(self) -> LoggedJobs:
        """The jobs that both configurations can run."""
        return self.comparison.jobs

    @cached_property
    def effects(self) -> Mapping[str, Effect]:
        """The effect on all jobs and on each class, by name; all of them share an error of 5 %."""
        classes, (before, after) = self.comparison.classes, self.comparison.replicates
        compared = compare_rows(after, before, self.comparison.correlation, comparisons=len(classes))
        compared = compared.with_ends(*self.comparison.predicted(*compared.paired))
        effects = {}
        for number, one in enumerate(classes):
            means = self.comparison.means(one.members)
            old, new = means["simulated"], means["changed"]
            effect = "not sure"
            if compared.shown[number]:
                effect = "worse" if new > old else "better"
            numbers = {
                name: plain(getattr(compared, name)[number])
                for name in ("relative", "low", "high", "p_value")
            }
            effects[one.name] = Effect(
                metric=_METRIC,
                unit="s",
                jobs=one.name,
                workload=self.log.name,
                baseline=old,
                mean=new,
                effect=effect,
                adverse=new > old,
                **numbers,
            )
        return effects

    @property
    def is_shown(self) -> bool:
        """True if the effect may be shown: the replay is trusted, or the effect was asked for anyway."""
        return self.anyway or self.trust.level != "no"

    @property
    def answer(self) -> Answer:
        """The advice, the classes that lose, and the settings that are not modelled."""
        whole, *rest = self.effects.values()
        gain, size = self._gain(whole)
        factor = self._factor()
        allocated = []
        if factor not in {None, 1.0}:
            allocated.append(f"requests: jobs have the allocated processors, {factor} × as many")
        answer = Answer(
            _METRIC,
            self.log.name,
            "the change",
            {"worse": Verdict.WORSE, "better": Verdict.BETTER}.get(whole.effect, Verdict.UNSURE),
            self._advice(whole),
            gain=gain,
            size=size,
            effects=rest,
            excluded=self.excluded,
            not_modelled=[*self.jobs.remarks, *allocated, *self.not_modelled],
            details=[("statistics", self._statistics(whole))],
        )
        return answer.weighed().graded(self.trust, anyway=self.anyway)

    @property
    def _replicates(self) -> int:
        """The number of draws, days or weeks that intervals are made of."""
        if self.jobs.replicate == "draw":
            return len(self.comparison.before)
        return int(self.jobs.blocks.max()) + 1

    def _advice(self, whole: Effect) -> str:
        if self.load != 1 and whole.effect != "not sure":
            change = " and with the change" if self.asked["change"] or self.asked["to"] else ""
            longer = "longer" if whole.effect == "worse" else "less"
            return f"At {self.load:g} times the load{change} jobs wait {longer} than now."
        if whole.effect == "better":
            return "Make this change: jobs wait less."
        if whole.effect == "worse":
            return "Do not make this change: jobs wait longer."
        if self._replicates < (fewest := fewest_replicates(1 - LEVEL)):
            return f"Cannot say: {self._replicates} {self.jobs.replicate}s show no difference, {fewest} may."
        if whole.is_vague:
            return "Cannot say whether jobs wait less after this change."
        return "No gain is shown: keep the configuration as it is."

    def _gain(self, whole: Effect) -> tuple[str, str]:
        assert whole.mean is not None
        assert whole.baseline is not None
        text = f"mean wait {values_text(whole.mean, whole.baseline, 's')}"
        low, high = whole.low, whole.high
        if low is None or high is None or is_vague(low, high):
            return text, "; the size of the difference is not sure"
        return text, f", {difference_text(whole.relative)} ({range_text(low, high)}, 95 % sure)"

    def _statistics(self, whole: Effect) -> str:
        jobs, draws = self.jobs, len(self.comparison.before)
        covers = "the phases of the scheduler and the differences between two runs of one Slurm"
        weeks = ", but not other weeks: the log is short" if jobs.replicate == "draw" else ""
        return (
            f"{len(jobs.requests):,} jobs, {draws} replays of each configuration: {whole.numbers} over "
            f"{count_text(self._replicates, jobs.replicate)}; the interval covers {covers}{weeks}"
        )

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the numbers of each class, in seconds; nine replays in ten lie in a range."""
        rows = {}
        for one in self.comparison.classes:
            effect = self.effects[one.name]
            rows[one.name] = {
                **self.comparison.means(one.members),
                "relative": effect.relative,
                "relative_interval": [effect.low, effect.high],
                "effect": effect.effect,
            }
        return rows

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and cells of the table of classes."""
        heads = ["class", "jobs", "recorded", "as it runs", "changed", "difference", "95 % interval", "wait"]
        rows = []
        for name, row in self.rows().items():
            seconds = (row[kind] for kind in ("recorded", "simulated", "changed"))
            low, high = row["relative_interval"]
            rows.append(
                [
                    name,
                    f"{row['jobs']:,}",
                    *("" if value is None else f"{value:,.0f}" for value in seconds),
                    percent_text(row["relative"]),
                    interval_text(low, high, percent_text),
                    {"worse": "longer", "better": "shorter"}.get(row["effect"], row["effect"]),
                ]
            )
        return heads, rows

    def _factor(self) -> float | None:
        """Return allocated over requested processors, where the log has both."""
        if stated := self.log.header.get(ALLOCATED_TO_REQUESTED):
            return float(stated[0])
        columns = (self.log.column(f"{kind}_processors") for kind in ("allocated", "requested"))
        allocated, requested = (column[self.jobs.rows] for column in columns)
        known = (allocated > 0) & (requested > 0)
        return round(float(allocated[known].sum() / requested[known].sum()), 3) if known.any() else None

    def as_dict(self) -> dict[str, Any]:
        """Return the answer in JSON's types."""
        return {
            "jobs": len(self.jobs.requests),
            "left_out": self.jobs.left_out,
            "taken_otherwise": self.jobs.changed,
            "processors_allocated_to_requested": self._factor(),
            "draws": len(self.comparison.before),
            "load": self.load,
            "replicate": self.jobs.replicate,
            **self.answer.as_dict(),
            "slurm_conf": list(self.difference),
            "classes": self.rows() if self.is_shown else {},
        }

    def write(self, path: Path) -> Path:
        """Store the prediction with its date and a checksum, for `verify`.

        Raises
        ------
        SweepError
            If there is none, as the replay is not trusted; or if it is about another load.
        """
        if self.load != 1:
            raise SweepError("no prediction is stored: later jobs have a load of their own, not --load")
        if not self.is_shown:
            raise SweepError("no prediction is stored: the replay is not trusted", hint="give --anyway")
        content = {"written": f"{datetime.date.today()}", "asked": self.asked, "predicted": self.as_dict()}
        return write_json({**content, "checksum": content_id(content)}, path)

    def __repr__(self) -> str:
        return str(self.answer)

    def _repr_html_(self) -> str:
        return self.answer.paragraphs() + (plain_table(*self.table()) if self.is_shown else "")


class Site:
    """A cluster as it runs, and the jobs of a log that it can run.

    Parameters
    ----------
    log, slurm, slurm_version, fit
        As of `whatif`.
    """

    def __init__(
        self, log: Workload | str | Path, slurm: str | Path, slurm_version: str | None, fit: str | Path | None
    ) -> None:
        self.log, self.folder, self.fit = workload_of(log), Path(slurm), fit
        self.stated_version = slurm_version
        self.works = Effective() if fit is None else Effective.read(Path(fit))
        self.version = version_of(slurm_version, self.folder, self.log)
        self.cluster = anchored(read_cluster(self.folder, version=self.version), self.log)
        self.jobs = logged_jobs(self.log, self.cluster)

    def waits(self, cluster: SlurmCluster, requests: Sequence[Request], draws: int, seed: int) -> FloatArray:
        """Return replayed waits of some jobs on the cluster as it works, shape (draws, jobs)."""
        return replayed_waits(*self.works.applied(cluster, requests), draws, seed)

    @cache  # noqa: B019 (a command has one site)
    def running(self, draws: int, seed: int) -> FloatArray:
        """Return replayed waits of all jobs on the cluster as it runs."""
        return self.waits(self.cluster, self.jobs.requests, draws, seed)

    def trust(self, waits: FloatArray) -> Trust:
        """Return the trust in a replay of all jobs, and in the fit."""
        trust = self.jobs.trust(waits)
        if self.fit is not None and trust.level != "no" and Effective.trust_in(Path(self.fit)) == "no":
            return Trust("no", f"by {self.fit} simulated waits differ from the recorded ones")
        return trust

    def whatif(
        self,
        change: Sequence[str],
        to: str | Path | None = None,
        load: float = 1.0,
        *,
        draws: int,
        seed: int,
        anyway: bool,
    ) -> WhatIf:
        """Return the effect of a change, as the function `whatif` does."""
        places = {"slurm": self.folder, "to": to, "fit": self.fit}
        asked = {"change": list(change), "slurm_version": self.stated_version} | {
            name: None if place is None else str(Path(place).resolve()) for name, place in places.items()
        }
        other = self.folder if to is None else Path(to)
        later = version_of(self.stated_version, other, None, self.version)
        changed = anchored(read_cluster(other, change, later), self.log)
        if load == 1 and replace(changed, not_modelled=self.cluster.not_modelled) == self.cluster:
            hint = "if the files have the change already, give those from before it"
            raise SweepError("nothing changes: this is the running configuration", hint=hint)
        jobs, able, excluded = self.jobs.able_in(changed, self.cluster)
        if not len(able):
            raise SweepError("no job could run after the change", hint="; ".join(excluded))
        # Jobs are the same ones in both replays, and those of a week stay together.
        moved = self.log.scale_load(load).submit_time - self.log.submit_time
        delays = moved[jobs.rows].tolist()
        arriving = [
            replace(one, submit=one.submit + by) for one, by in zip(jobs.requests, delays, strict=True)
        ]
        before = self.running(draws, seed)
        compared = Comparison(jobs, before[:, able], self.waits(changed, arriving, draws, seed))
        releases = [] if later == self.version else [f"-Slurm {self.version}", f"+Slurm {later}"]
        releases += [] if load == 1 else ["-load 1", f"+load {load:g}"]
        difference = [*releases, *configuration_difference(self.folder, other, change)]
        ignored = not_modelled(self.log, self.cluster, changed)
        if load != 1 and self.cluster.outages:
            ignored.append("--load: reservations and node events stay at their recorded times")
        trust = self.trust(before)
        return WhatIf(self.log, compared, difference, ignored, trust, anyway, asked, load, excluded)


def whatif(
    log: Workload | str | Path,
    *,
    slurm: str | Path,
    slurm_version: str | None = None,
    change: Sequence[str] = (),
    to: str | Path | None = None,
    load: float = 1.0,
    fit: str | Path | None = None,
    draws: int = 20,
    seed: int = 0,
    anyway: bool = False,
) -> WhatIf:
    """Simulate the waits of a log's jobs under another configuration of Slurm, or another load.

    A log does not record when scheduler passes ran, so each replay draws random phases; both configurations
    use the same ones. An interval of 95 % covers these, the differences between two runs of one Slurm, and
    other weeks, or other days in a shorter log; a log of fewer than six days supports neither.

    Parameters
    ----------
    log
        The jobs: a log, a file or a name that `gridtune traces list` shows.
    slurm
        Folder of slurm.conf and the files beside it.
    slurm_version
        Release of Slurm, such as 24.11.5; by default that of scontrol_show_config.txt in FOLDER, else of LOG.
    change
        Settings to change, such as bf_interval=120, 'PartitionName=debug PriorityTier=2' or
        'NodeName=n[1-4] State=DOWN'.
    to
        Folder of another slurm.conf to compare with.
    load
        Divide the times between submissions by this factor after the change: 1.2 is 20 % more load.
    fit
        File of fitted settings, as `gridtune slurm fit` writes it.
    draws
        Replays of each configuration.
    seed
        Seed of the draws.
    anyway
        Show the effect although the replay does not match the recorded waits.

    Returns
    -------
    WhatIf
        The change of the mean wait, of all jobs and by class, with the trust in it.

    Raises
    ------
    GridtuneError
        If nothing is changed, or a file cannot be read.

    Examples
    --------
    >>> gt.whatif("sacct.txt", slurm="/etc/slurm", change=["bf_interval=120"])  # doctest: +SKIP
    """
    if not change and to is None and load == 1:
        raise SweepError("nothing to change", hint="give --change SETTING, --to FOLDER or --load FACTOR")
    site = Site(log, slurm, slurm_version, fit)
    change = [change] if isinstance(change, str) else change
    return site.whatif(change, to, load, draws=draws, seed=seed, anyway=anyway)


@dataclass(frozen=True)
class Waits:
    """Predicted starts of pending jobs.

    Attributes
    ----------
    now
        The instant of the prediction, on the clock of the cluster.
    running
        Number of running jobs.
    pending
        A row for each pending job, the likely first one first: job, user, partition, processors, the start
        that Slurm plans, the likely start, and the ends of an interval that holds 80 % of starts.
    held
        Number of jobs that are held, by reason, or have another state; they are not predicted.
    not_modelled
        Settings of the configuration, and facts of the log, that are not modelled.
    trust
        That of the fit; not graded without one.
    """

    now: str
    running: int
    pending: Sequence[Mapping[str, Any]]
    held: Mapping[str, int]
    not_modelled: Sequence[str]
    trust: Trust

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and cells of the table of pending jobs."""
        heads = ["job", "user", "partition", "processors", "Slurm plans", "likely start", "80 % from", "to"]
        rows = [
            ["" if value is None else str(value).replace("T", " ")[:16] for value in row.values()]
            for row in self.pending
        ]
        return heads, rows

    def as_dict(self) -> dict[str, Any]:
        """Return the prediction in JSON's types."""
        return asdict(self)

    @property
    def lines(self) -> list[str]:
        """A sentence on jobs that are not predicted, and on what is not modelled."""
        held = (f"{count} are not predicted: {reason}" for reason, count in self.held.items())
        return [*held, *(f"not modelled: {line}" for line in self.not_modelled)]

    def __repr__(self) -> str:
        heads, rows = self.table()
        return "\n".join([f"trust {self.trust}", *self.lines, *(" | ".join(row) for row in (heads, *rows))])

    def _repr_html_(self) -> str:
        lines = (f'<p class="note">{html.escape(line)}</p>' for line in (f"trust {self.trust}", *self.lines))
        return "".join(lines) + plain_table(*self.table())


def waits(
    *,
    squeue: str | Path,
    slurm: str | Path,
    slurm_version: str | None = None,
    log: Workload | str | Path | None = None,
    now: datetime.datetime | None = None,
    fit: str | Path | None = None,
    draws: int = 50,
    seed: int = 0,
    anyway: bool = False,
) -> Waits:
    """Predict the starts of pending jobs, with intervals meant to hold 80 % of the starts.

    The cluster is replayed from its present state. Run times are drawn from each user's past in the log, and
    so are later jobs; no record after `now` is used. Without a log, all run times up to the limit are equally
    likely.

    Parameters
    ----------
    squeue
        File with running and pending jobs, the output of the command in `gridtune slurm waits --help`.
    slurm
        Folder of slurm.conf and the files beside it.
    slurm_version
        Release of Slurm, such as 24.11.5; by default that of scontrol_show_config.txt in FOLDER, else of LOG.
    log
        The users' past, such as a dump of sacct.
    now
        Time at which squeue ran, on the clock of the cluster; by default from start and elapsed time of
        running jobs.
    fit
        File of fitted settings, as `gridtune slurm fit` writes it.
    draws
        Number of replays.
    seed
        Seed of the draws.
    anyway
        Predict although the fit found that simulated waits differ from the recorded ones.

    Returns
    -------
    Waits
        A row for each pending job.

    Raises
    ------
    GridtuneError
        If a file cannot be read, or the queue does not fit the configuration.

    Examples
    --------
    >>> gt.waits(squeue="squeue.txt", slurm="/etc/slurm", log="sacct.txt")  # doctest: +SKIP
    """
    workload = None if log is None else workload_of(log)
    cluster = read_cluster(Path(slurm), version=version_of(slurm_version, Path(slurm), workload))
    at = None if now is None else int(now.replace(tzinfo=datetime.UTC).timestamp())
    queue = read_queue(Path(squeue), cluster, at)
    past = Past(queue.now) if workload is None else past_of(cluster, workload, queue.now)
    effective = Effective()
    trust = Trust("not graded", "without --fit no waits are compared with recorded ones")
    if fit is not None:
        effective, trust = Effective.read(Path(fit)), Trust(Effective.trust_in(Path(fit)), f"by {fit}")
    if trust.level == "no" and not anyway:
        message = "found that simulated waits differ from the recorded ones: starts cannot be predicted"
        raise SweepError(message, path=Path(fit or ""), hint="--anyway predicts all the same")
    present = [*queue.pending, *(one for one, _, _ in queue.running)]
    ranks = LoggedJobs.unknown_ranks(present, cluster)
    cluster, _ = effective.applied(cluster, present)
    starts = forecast(cluster, queue.pending, queue.running, past, draws=draws, seed=seed)
    ends = np.quantile(starts, [INTERVAL[0], 0.5, INTERVAL[1]], axis=0, method="nearest")
    rows = []
    for place in np.argsort(ends[1], kind="stable"):
        job, (low, middle, high) = queue.pending[place], ends[:, place]
        array, task = job.number >> TASK, job.number & ((1 << TASK) - 1)
        rows.append(
            {
                "job": f"{array}_{task}" if array else str(task),
                "user": job.user,
                "partition": ",".join(job.partitions),
                "processors": job.cpus,
                "slurm_plans": _moment(queue.planned.get(job.number)),
                "start": _moment(middle),
                "from": _moment(low),
                "to": _moment(high),
            }
        )
    unknown = (f"{count} jobs {reason}" for reason, count in ranks.items())
    ignored = [*unknown, *not_modelled(workload, cluster)]
    return Waits(_moment(queue.now) or "", len(queue.running), rows, queue.held, ignored, trust)


def _moment(instant: float | None) -> str | None:
    """Return an instant on the clock of the cluster; None for never."""
    if instant is None or not np.isfinite(instant):
        return None
    return f"{datetime.datetime.fromtimestamp(int(instant), datetime.UTC):%Y-%m-%dT%H:%M:%S}"
