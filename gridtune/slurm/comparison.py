"""Comparison of two replays of a log's jobs, for `fit`, `whatif` and the system `slurm`, by class of job."""

from __future__ import annotations

import calendar
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from gridtune.core.remarks import WALLTIMES, Trust, log_remarks
from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import SlurmCluster
from gridtune.slurm.kernel.arrays import Phases
from gridtune.slurm.replay import in_threads, replay
from gridtune.slurm.requests import Request, RequestCheck, requests_of
from gridtune.statistics.dependence import neighbour_correlation
from gridtune.statistics.inference import with_reach
from gridtune.types import FloatArray, IntArray
from gridtune.workload.workload import Workload

#: Classes by processors and by run time in seconds: the most of each, and its name.
_WIDTHS = {
    2: "1 to 2 processors",
    12: "3 to 12 processors",
    48: "13 to 48 processors",
    384: "49 to 384 processors",
    1 << 62: "over 384 processors",
}
_LENGTHS = {
    600: "up to 10 min",
    3600: "10 min to 1 h",
    14_400: "1 h to 4 h",
    86_400: "4 h to 1 d",
    1 << 62: "over 1 d",
}
#: Users, accounts, partitions and QOS that have a class each: those with the most jobs.
_MOST_NAMES = 8
#: The fewest weeks or days that intervals are made of; no test of fewer shows anything.
_FEWEST = 6
_SECONDS = {"week": 7 * 86_400, "day": 86_400}
#: Facts of a log that replays model: accounts as shares, QOS by their priorities and limits.
MODELLED_FACTS = (
    WALLTIMES,
    "partitions",
    "nodes",
    "memory",
    "gpus",
    "features",
    "qos",
    "accounts",
    "priorities",
    "node_wishes",
    "switches",
)


def not_modelled(workload: Workload | None, *clusters: SlurmCluster) -> list[str]:
    """Return what replays do not model: settings of clusters, and facts of a log."""
    # A setting that a changed configuration shares has another place there.
    settings = {line.partition(": ")[2]: line for one in clusters[1:] for line in one.not_modelled}
    shared = {line.partition(": ")[2] for line in clusters[0].not_modelled}
    lines = {*clusters[0].not_modelled, *(line for text, line in settings.items() if text not in shared)}
    options = workload.names.get("options", {}).values() if workload else ()
    words = {"licences": ("licenses=",), "deadlines": ("time-min=", "deadline=")}
    asked = (fact for fact, some in words.items() if any(word in text for text in options for word in some))
    modelled = (*MODELLED_FACTS, *asked)
    facts = log_remarks(workload.contents, modelled).get("ignored") if workload else None
    return [*sorted(lines), *([f"the log: {facts}"] if facts else [])]


@dataclass(frozen=True)
class JobClass:
    """A class of jobs: its name, and the places of its jobs among the requests."""

    name: str
    members: IntArray

    @staticmethod
    def in_ranges(values: IntArray, names: dict[int, str]) -> Iterator[JobClass]:
        """Yield the classes that a quantity divides jobs into."""
        place = np.searchsorted(list(names), values)
        for number, name in enumerate(names.values()):
            yield JobClass(name, np.flatnonzero(place == number))


@dataclass(frozen=True)
class LoggedJobs:
    """The jobs of a log that a cluster can run.

    Attributes
    ----------
    requests
        Their requests.
    rows
        Their rows in the log, shape (requests,).
    recorded
        Their recorded waits in seconds, shape (requests,), from the instant at which nothing but the queue
        stood before them; below 0 where the log does not say.
    left_out, changed
        Numbers of jobs that were left out, and of others that are taken as something else, by the reason.
    replicate
        The unit that intervals are made of: "week", "day" or, in a log of fewer than six days, "draw".
    blocks
        The week or day in which each was submitted, from 0, shape (requests,).
    """

    requests: tuple[Request, ...]
    rows: IntArray
    recorded: IntArray
    left_out: dict[str, int]
    changed: dict[str, int]
    replicate: str
    blocks: IntArray

    @staticmethod
    def unknown_ranks(requests: Sequence[Request], cluster: SlurmCluster) -> dict[str, int]:
        """Return numbers of jobs whose priority depends on facts that are in no file, by these facts."""
        weights, found = cluster.priorities, Counter[str]()
        unknown = ", ".join(sorted({one.qos for one in requests} - {*cluster.qos, ""}))
        run = "run `sacctmgr show {} -P > {}` in the folder of slurm.conf"
        qos = f"have a QOS without a known priority, taken as 0 ({unknown}): "
        for one in requests:
            if weights.qos and one.qos not in cluster.qos:
                nameless = "have no QOS in the log, taken as one of priority 0: sacct has it as QOS"
                found[qos + run.format("qos", "sacctmgr_qos.txt") if one.qos else nameless] += 1
            if weights.fair_share and not (one.user and one.account):
                found["have no user or no account in the log, on which fair share depends"] += 1
            elif weights.fair_share and (one.account, one.user) not in cluster.accounts.users:
                command = run.format("assoc tree", "sacctmgr_assoc.txt")
                found[f"have no known association, taken as one share of their account: {command}"] += 1
        return dict(found)

    @property
    def remarks(self) -> list[str]:
        """A sentence on each group of jobs that are not replayed as they were recorded."""
        left_out = [f"{count:,} jobs left out: {reason}" for reason, count in self.left_out.items()]
        return [*left_out, *(f"{count:,} jobs {reason}" for reason, count in self.changed.items())]

    def able_in(self, changed: SlurmCluster, running: SlurmCluster) -> tuple[LoggedJobs, IntArray, list[str]]:
        """Return those that a changed cluster can run, too, their places, and a sentence on others.

        A job whose time limit is above `MaxTime` never starts, unless it did so on the running cluster.
        """
        check, places = RequestCheck(changed), []
        others: dict[tuple[str, str], list[int]] = {}
        for place, one in enumerate(self.requests):
            if one.is_too_long_for(changed) and not one.is_too_long_for(running):
                reason = "a time limit above MaxTime"
            elif check.can_run(one):
                places.append(place)
                continue
            else:
                reason = check.reason_of(one)
            others.setdefault((",".join(one.partitions), reason), []).append(one.number)
        rows = np.array(places, dtype=np.int64)
        kept = replace(
            self,
            requests=tuple(self.requests[place] for place in places),
            rows=self.rows[rows],
            recorded=self.recorded[rows],
            blocks=self.blocks[rows],
        )
        texts = [
            f"{len(numbers):,} jobs of partition {partition} could never run, {reason}: "
            f"{', '.join(map(str, numbers[:3]))}{', …' if numbers[3:] else ''}"
            for (partition, reason), numbers in others.items()
        ]
        return kept, rows, texts

    def classes(self) -> list[JobClass]:
        """Return all jobs, and those of each width, length, partition, QOS, account and user."""
        requests = self.requests
        everything = JobClass("all jobs", np.arange(len(requests)))
        cpus = np.array([request.cpus for request in requests])
        limits = ((one.run_time, one.time_limit) for one in requests)
        length = np.array([min(run, limit) if limit > 0 else run for run, limit in limits])
        classes = [*JobClass.in_ranges(cpus, _WIDTHS), *JobClass.in_ranges(length, _LENGTHS)]
        kinds: dict[str, Callable[[Request], str]] = {
            "partition": lambda request: ",".join(request.partitions),
            "QOS": lambda request: request.qos,
            "account": lambda request: request.account,
            "user": lambda request: request.user,
        }
        for kind, name_of in kinds.items():
            names = np.array([name_of(request) for request in requests])
            common = [name for name, _ in Counter(names.tolist()).most_common(_MOST_NAMES) if name]
            classes += [JobClass(f"{kind} {name}", np.flatnonzero(names == name)) for name in sorted(common)]
        return [everything, *(one for one in classes if 0 < len(one.members) < len(requests))]

    def samples(self, waits: FloatArray, members: IntArray) -> FloatArray:
        """Return the mean wait of a class in each replicate, NaN without a job; waits: (draws, jobs)."""
        if self.replicate == "draw":
            return waits[:, members].mean(axis=1)
        blocks, size = self.blocks[members], int(self.blocks.max()) + 1
        counts = np.bincount(blocks, minlength=size)
        sums = np.bincount(blocks, weights=waits[:, members].mean(axis=0), minlength=size)
        return np.divide(sums, counts, out=np.full(size, np.nan), where=counts > 0)

    def utilisation(self, processors: int) -> float:
        """Return the share of the processors that the jobs had up to the last start."""
        ran = [
            (one.submit + wait, one.run_time if one.run_time < 1 << 24 else one.time_limit, one.cpus)
            for one, wait in zip(self.requests, self.recorded.tolist(), strict=True)
            if wait >= 0
        ]
        if not ran:
            return np.nan
        start, run, cpus = np.array(ran, dtype=np.float64).T
        begin, end = min(one.submit for one in self.requests), start.max()
        inside = np.minimum(start + run, end) - start
        return float((inside * cpus).sum() / max(1.0, (end - begin) * processors))

    def trust(self, waits: FloatArray, judged: IntArray | None = None) -> Trust:
        """Return the trust in replayed waits, which names the class of jobs that is farthest off.

        Parameters
        ----------
        waits
            Replayed waits, shape (draws, jobs).
        judged
            The jobs to compare with their recorded waits; all by default.
        """
        rows = np.arange(len(self.requests)) if judged is None else judged
        trust = Agreement.of(self.recorded[rows], waits[:, rows]).trust
        off = {}
        for one in self.classes()[1:]:
            members = np.intersect1d(rows, one.members)
            part = Agreement.of(self.recorded[members], waits[:, members])
            seconds = abs(part.simulated_mean - part.recorded_mean)
            most = max(_ROUGH_MEAN * part.recorded_mean, _NO_WAIT)
            # A class of most jobs is off where all are.
            if _FEW <= part.jobs <= len(rows) / 2 and seconds > most:
                off[part.jobs * seconds] = (
                    f"; farthest off: {part.jobs:,} jobs of {one.name} waited {part.recorded_mean:,.0f} s on "
                    f"average, simulated {part.simulated_mean:,.0f} s: do not rely on effects on them"
                )
        return replace(trust, reason=trust.reason + (off[max(off)] if off else ""))

    def diagnoses(self, workload: Workload, processors: int, waits: FloatArray) -> Iterator[str]:
        """Yield reasons why the waits of a log may not be those of a cluster.

        Parameters
        ----------
        workload
            The log.
        processors
            Of the cluster.
        waits
            Replayed waits, shape (draws, jobs).
        """

        def hours(seconds: float) -> str:
            return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"

        recorded = self.recorded[self.recorded >= 0]
        if not len(recorded):
            yield "the log records no waits: nothing can be compared"
            return
        used, mean = self.utilisation(processors), recorded.mean()
        if (waits < _NO_WAIT).mean() > 0.99 and mean > 10 * _NO_WAIT:
            yield (
                f"nothing ever waits here, but the log's jobs waited {hours(mean)} on average: "
                "the machine is smaller than you say, or what they waited for is not in the log"
            )
        elif used < 0.5 and mean > 60 * _NO_WAIT and waits.mean() < 0.5 * mean:
            yield (
                f"{used:.0%} used beside a wait of {hours(mean)}: the machine is smaller than you say, or "
                "jobs waited for limits, licences or one part of it"
            )
        if used > 1:
            yield f"the jobs used {used:.1f} times the processors there are: the machine is larger"
        contents = workload.contents
        if contents.limit_unit:
            yield f"by the run times, time limits are in {contents.limit_unit}, but count as seconds"
        elif contents.requests and contents.outlived > 0.2 * contents.requests:
            yield f"{contents.outlived:,} of {contents.requests:,} jobs ran longer than their time limits"
        if not contents.requests:
            yield "the log has no time limits: what backfill did cannot be known"
        elif contents.without_request > 0.1 * contents.jobs:
            yield f"{contents.without_request:,} of {contents.jobs:,} jobs have no time limit"
        held = int(contents.facts.get("holds", 0))
        if held:
            yield f"{held:,} jobs were held back for a while; their waits count from their release"


def logged_jobs(workload: Workload, cluster: SlurmCluster) -> LoggedJobs:
    """Return the jobs of a log that a cluster can run.

    Raises
    ------
    WorkloadError
        If there is none.
    """
    requests, rows, left_out, changed = requests_of(workload, cluster)
    if not requests:
        raise WorkloadError(
            "has no job that this cluster could run",
            path=workload.source,
            hint="are its partitions and sizes those of the slurm.conf? " + "; ".join([*left_out, *changed]),
        )
    changed |= LoggedJobs.unknown_ranks(requests, cluster)
    if unlimited := sum(request.time_limit <= 0 for request in requests):
        changed["have no time limit, taken as that of their partition"] = unlimited
    recorded = workload.column("wait_time")[rows]
    requests, recorded = _eligible(requests, recorded, workload.column("eligible_time")[rows])
    submit = np.array([request.submit for request in requests])
    since = submit - submit.min()
    replicate = next((name for name, size in _SECONDS.items() if since.max() >= _FEWEST * size), "draw")
    blocks = since // _SECONDS.get(replicate, 1 << 60)
    # The last block is part of the one before it, unless it is nearly whole.
    last = int(blocks.max())
    if last and since.max() % _SECONDS[replicate] < 0.9 * _SECONDS[replicate]:
        blocks = np.minimum(blocks, last - 1)
    return LoggedJobs(tuple(requests), rows, recorded, left_out, changed, replicate, blocks)


def _eligible(
    requests: list[Request], recorded: IntArray, eligible: IntArray
) -> tuple[list[Request], IntArray]:
    """Return jobs and waits from when nothing but the queue stood before each, where the log says so."""
    submit = np.array([request.submit for request in requests])
    free = [not request.after for request in requests]
    held = np.where((recorded >= 0) & free, np.minimum(eligible, submit + recorded) - submit, 0)
    held = np.maximum(held, 0)
    moved = [
        replace(one, submit=one.submit + wait) if wait else one
        for one, wait in zip(requests, held.tolist(), strict=True)
    ]
    return moved, recorded - held


def anchored(cluster: SlurmCluster, workload: Workload) -> SlurmCluster:
    """Return the cluster with the Unix time of a log's second 0, if the log has it, and outages from it on.

    Raises
    ------
    WorkloadError
        If there are outages, and the log has no such time.
    """
    instant = workload.instant()
    if instant is None and cluster.outages:
        hint = "write UnixStartTime into its header, or take the lists of reservations and events away"
        raise WorkloadError("the log has no date, so reservations and node events have no place", hint=hint)
    if instant is None:
        return cluster
    local = calendar.timegm(instant.timetuple())
    moved = [replace(one, start=one.start - local, end=one.end - local) for one in cluster.outages]
    return replace(cluster, zero=int(instant.timestamp()), outages=tuple(moved))


def replayed_waits(cluster: SlurmCluster, requests: Sequence[Request], draws: int, seed: int) -> FloatArray:
    """Return waits in seconds, shape (draws, requests).

    Nothing in a log says when the scheduler's clocks strike, so each replay draws their phases; the same seed
    draws the same parts of each period under every configuration.

    Raises
    ------
    WorkloadError
        If a job never starts.
    """
    submit = np.array([request.submit for request in requests])

    def drawn(draw: int) -> FloatArray:
        stream = np.random.default_rng([seed, draw])
        result = replay(cluster, requests, Phases.draw(cluster, stream))
        result.check_all_start(requests)
        return (result.start - submit).astype(np.float64)

    return in_threads(drawn, draws)


#: The errors up to which advice can be trusted: of the mean, of the median job, and the rank correlation.
_MEAN, _MEDIAN, _RANK = 0.07, 0.2, 0.7
#: The same for signs.
_ROUGH_MEAN, _ROUGH_RANK = 0.3, 0.5
#: Seconds below which a wait is none, and the fewest jobs of a class that is said to be off.
_NO_WAIT, _FEW = 60, 10
#: Nine replays in ten lie between these quantiles.
_RANGE = (0.05, 0.95)
#: The square of the reach of an interval of 95 %, in the logarithm of a ratio of two mean waits, is a sum
#: of three causes. Each is multiplied by its number here: the relative variance of the draws, of both
#: replays; the inverse of the seconds that the jobs of a class waited in all, of both; the squared logarithm
#: of recorded over simulated waits. Learned from 30 pairs of recorded runs:
#: `python -m benchmarks.slurm_intervals --learn`.
_REACH = (6.4, 275.0, 2.8)


@dataclass(frozen=True)
class Agreement:
    """Errors of the replayed waits of some jobs against the recorded ones; seconds.

    Attributes
    ----------
    jobs
        Those with a recorded wait.
    recorded_mean, simulated_mean, recorded_median, simulated_median
        Of the waits.
    mean_error
        The simulated mean over the recorded one, less 1.
    median_error
        The median distance of a job's wait, that in the middle of all draws, from the recorded one.
    rank
        Spearman's rank correlation.
    """

    jobs: int
    recorded_mean: float
    simulated_mean: float
    recorded_median: float
    simulated_median: float
    mean_error: float
    median_error: float
    rank: float

    @staticmethod
    def of(recorded: IntArray, waits: FloatArray) -> Agreement:
        """Compare waits of shape (draws, jobs) with recorded ones, shape (jobs,); below 0 there is none."""
        stated = np.flatnonzero(recorded >= 0)
        real, drawn = recorded[stated].astype(np.float64), waits[:, stated]
        if not len(stated):
            return Agreement(0, *[np.nan] * 7)
        single = np.median(drawn, axis=0)
        ranks = np.empty((2, len(real)))  # scipy.stats takes longer to import than a log to be replayed
        for row, values in zip(ranks, (real, single), strict=True):
            _, place, count = np.unique(values, return_inverse=True, return_counts=True)
            row[:] = np.take(np.cumsum(count) - (count - 1) / 2, place)
        varied = all(np.ptp(values) > 0 for values in ranks)
        mean = float(real.mean())
        return Agreement(
            len(stated),
            mean,
            float(drawn.mean()),
            float(np.median(real)),
            float(np.median(single)),
            float(drawn.mean() / mean - 1) if mean > 0 else np.nan,
            float(np.median(np.abs(single - real))),
            float(np.asarray(np.corrcoef(ranks))[0, 1]) if varied else np.nan,
        )

    @staticmethod
    def read(figures: Mapping[str, Any]) -> Agreement:
        """Return the agreement that `as_dict` wrote."""
        values: list[Any] = [figures[one.name] for one in fields(Agreement)]
        numbers: list[Any] = [np.nan if value is None else value for value in values]
        return Agreement(*numbers)

    @staticmethod
    def pooled(parts: Sequence[Agreement]) -> Agreement:
        """Return the agreement of several groups of jobs together; medians and ranks are means over them."""
        parts = [part for part in parts if part.jobs]
        jobs = sum(part.jobs for part in parts)
        if not parts:
            return Agreement(0, *[np.nan] * 7)
        shares = np.array([part.jobs / jobs for part in parts])
        figures = shares @ np.array([astuple(part)[1:] for part in parts])
        pooled = Agreement(jobs, *figures.tolist())
        recorded = pooled.recorded_mean
        return replace(pooled, mean_error=pooled.simulated_mean / recorded - 1 if recorded > 0 else np.nan)

    @property
    def trust(self) -> Trust:
        """The trust in a replay with these errors."""
        if not self.jobs:
            return Trust("not graded", "the log has no recorded waits to compare with")
        match = {"yes": "match", "signs only": "are near", "no": "differ from"}[self.level]
        beside = "" if self.level == "yes" else f" of a median wait of {self.recorded_median:,.0f} s"
        return Trust(
            self.level,
            f"simulated waits {match} the recorded ones (mean {self.simulated_mean:,.0f} s, recorded "
            f"{self.recorded_mean:,.0f} s; median error {self.median_error:,.0f} s{beside}; rank correlation "
            f"{self.rank:.2f})",
        )

    @property
    def level(self) -> Literal["yes", "signs only", "no"]:
        """The level of trust in advice, by the errors of these jobs."""
        near = self.median_error <= max(_MEDIAN * self.recorded_median, _NO_WAIT)
        if abs(self.mean_error) <= _MEAN and near and self.rank >= _RANK:
            return "yes"
        rough = abs(self.mean_error) <= _ROUGH_MEAN and self.rank >= _ROUGH_RANK
        return "signs only" if rough else "no"

    def as_dict(self) -> dict[str, Any]:
        """Return the figures in JSON's types; NaN as None."""
        return {name: None if math.isnan(value) else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Comparison:
    """Waits of the same jobs in two replays: under two configurations, or as described and as fitted.

    Attributes
    ----------
    jobs
        The jobs, with their recorded waits.
    before, after
        Waits in seconds, shape (draws, jobs).
    """

    jobs: LoggedJobs
    before: FloatArray
    after: FloatArray

    @cached_property
    def classes(self) -> list[JobClass]:
        """All jobs, and those of each class."""
        return self.jobs.classes()

    @cached_property
    def replicates(self) -> tuple[FloatArray, FloatArray]:
        """Mean waits before and after, shape (classes, replicates); NaN in a replicate without a job."""
        before, after = (
            np.array([self.jobs.samples(waits, one.members) for one in self.classes])
            for waits in (self.before, self.after)
        )
        return before, after

    @property
    def correlation(self) -> float:
        """The correlation of the differences in neighbouring replicates; 0 where these are draws."""
        before, after = self.replicates
        return 0.0 if self.jobs.replicate == "draw" else neighbour_correlation(after, before)

    def predicted(
        self, relative: FloatArray, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return intervals of the differences that a Slurm would record, by class; NaN for a single draw.

        Two runs of one Slurm differ, as a second earlier or later changes which job is backfilled. An
        interval covers this, the clocks, and the error of the replay on the recorded jobs.

        Parameters
        ----------
        relative, low, high
            Simulated differences, and their intervals over weeks or days; those over draws are not used.
        """
        reach = np.array([reach_of(self.causes(one.members)) for one in self.classes])
        if self.jobs.replicate == "draw":
            low = high = relative
        return with_reach(relative, low, high, reach)

    def causes(self, members: IntArray) -> FloatArray:
        """Return the causes of some jobs' uncertainty, in the units of `_REACH`; NaN for a single draw."""
        draws = np.array([waits[:, members].mean(axis=1) for waits in (self.before, self.after)])
        if len(self.before) < 2:
            return np.full(len(_REACH), np.nan)
        stated = members[self.jobs.recorded[members] >= 0]
        real, simulated = self.jobs.recorded[stated].sum(), self.before[:, stated].mean(axis=0).sum()
        ratio = float(max(1, real) / max(1, simulated)) if len(stated) else None
        return causes_of(draws.mean(axis=1), draws.std(axis=1, ddof=1), len(members), ratio)

    def means(self, members: IntArray) -> dict[str, Any]:
        """Return the number of some jobs and their mean waits; a range holds nine replays in ten."""
        recorded = self.jobs.recorded[members]
        known = recorded[recorded >= 0]
        before, after = (waits[:, members] for waits in (self.before, self.after))
        ranges = [np.quantile(waits.mean(axis=1), _RANGE).tolist() for waits in (before, after)]
        return {
            "jobs": len(members),
            "recorded": float(known.mean()) if len(known) else None,
            "simulated": float(before.mean()),
            "simulated_range": ranges[0],
            "changed": float(after.mean()),
            "changed_range": ranges[1],
        }

    def agreement(self, waits: FloatArray, members: IntArray) -> Agreement:
        """Compare some jobs' waits in one of the replays with the recorded ones."""
        return Agreement.of(self.jobs.recorded[members], waits[:, members])


def causes_of(means: FloatArray, deviations: FloatArray, jobs: float, ratio: float | None) -> FloatArray:
    """Return the causes of the uncertainty of two mean waits, in the units of `_REACH`.

    Parameters
    ----------
    means, deviations
        Mean waits before and after, in seconds, and the deviations between draws; shape (2,).
    jobs
        Number of jobs.
    ratio
        Recorded over simulated waits, before; None without recorded ones.
    """
    # Without recorded waits, the error may be as large as that of any replay that is trusted.
    error = _ROUGH_MEAN if ratio is None else math.log(ratio)
    means = np.maximum(means, 1)
    return np.array([((deviations / means) ** 2).sum(), (1 / (means * jobs)).sum(), min(1.0, error**2)])


def reach_of(causes: FloatArray) -> float:
    """Return the reach of an interval of 95 %, in the logarithm of a ratio of two mean waits."""
    return math.sqrt(causes @ _REACH)
