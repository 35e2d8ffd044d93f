"""Waits of a log's jobs under another configuration: replays of both, paired, by class of job."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import Clocks, SlurmCluster
from gridtune.slurm.reading.configuration import matters
from gridtune.slurm.replay import Phases, replay
from gridtune.slurm.requests import Request, RequestCheck, requests_of
from gridtune.types import FloatArray, IntArray
from gridtune.workload.slurm import conf_lines
from gridtune.workload.workload import Workload

__all__ = ["JobClass", "LoggedJobs", "configuration_difference", "logged_jobs", "replayed_waits"]

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


@dataclass(frozen=True)
class JobClass:
    """A class of jobs: what they have in common, and their places among the requests."""

    name: str
    members: IntArray


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
    left_out
        Numbers of jobs that were left out or taken as something else, by the reason.
    replicate
        The unit that intervals are made of: "week", "day" or, in a log of fewer than six days, "draw".
    blocks
        The week or day in which each was submitted, from 0, shape (requests,).
    """

    requests: tuple[Request, ...]
    rows: IntArray
    recorded: IntArray
    left_out: dict[str, int]
    replicate: str
    blocks: IntArray

    def select(self, kept: IntArray, reason: str = "") -> LoggedJobs:
        """Return some of the jobs; the others are counted under a reason, if there is one."""
        lost = len(self.requests) - len(kept)
        left_out = self.left_out | ({reason: lost} if lost and reason else {})
        requests = tuple(self.requests[place] for place in kept)
        return replace(
            self,
            requests=requests,
            rows=self.rows[kept],
            recorded=self.recorded[kept],
            left_out=left_out,
            blocks=self.blocks[kept],
        )

    def able_in(self, cluster: SlurmCluster) -> LoggedJobs:
        """Return those that another cluster can run, too."""
        check = RequestCheck(cluster)
        able = [place for place, request in enumerate(self.requests) if check.can_run(request)]
        return self.select(np.array(able, dtype=np.int64), "that the other configuration could never run")

    def classes(self) -> list[JobClass]:
        """Return all jobs, and those of each width, length, partition, QOS, account and user."""
        requests = self.requests
        everything = JobClass("all jobs", np.arange(len(requests)))
        cpus = np.array([request.cpus for request in requests])
        length = np.array([_run_time(request) for request in requests])
        classes = [*_ranges(cpus, _WIDTHS), *_ranges(length, _LENGTHS)]
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


def logged_jobs(workload: Workload, cluster: SlurmCluster) -> LoggedJobs:
    """Return the jobs of a log that a cluster can run.

    Raises
    ------
    WorkloadError
        If there is none.
    """
    requests, rows, counts = requests_of(workload, cluster)
    if not requests:
        raise WorkloadError(
            "has no job that this cluster could run",
            path=workload.source,
            hint="are its partitions and sizes those of the slurm.conf? " + "; ".join(counts),
        )
    unknown = sorted({request.qos for request in requests} - {*cluster.qos, ""})
    if unknown and cluster.priorities.qos:
        counts[f"of a QOS that no file describes, taken with priority 0: {', '.join(unknown)}"] = sum(
            request.qos in unknown for request in requests
        )
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
    return LoggedJobs(tuple(requests), rows, recorded, counts, replicate, blocks)


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
    waits = np.empty((draws, len(requests)))
    for draw in range(draws):
        stream = np.random.default_rng([seed, draw])
        result = replay(cluster, requests, Phases.draw(cluster, stream))
        result.check_all_start(requests)
        waits[draw] = result.start - submit
    return waits


def _run_time(request: Request) -> int:
    limit = request.time_limit
    return min(request.run_time, limit) if limit > 0 else request.run_time


def _ranges(values: IntArray, names: dict[int, str]) -> Iterator[JobClass]:
    """Yield the classes that a quantity divides jobs into."""
    place = np.searchsorted(list(names), values)
    for number, name in enumerate(names.values()):
        yield JobClass(name, np.flatnonzero(place == number))


def configuration_difference(before: Path, after: Path, changes: Iterable[str] = ()) -> list[str]:
    """Return the lines of `slurm.conf` that two configurations differ in, "-" or "+" before each.

    Parameters
    ----------
    before, after
        Folders, or the files.
    changes
        Settings put in place of those after, as `read_cluster` takes them.
    """
    first, second = _lines(before), _lines(after)
    for change in changes:
        _apply(change, second)
    lines = difflib.unified_diff(first, second, n=0, lineterm="")
    return [line for line in list(lines)[2:] if not line.startswith("@@")]


def _lines(folder: Path) -> list[str]:
    """Return the lines of a `slurm.conf` that decide about schedules, spelled as they are."""
    path = folder / "slurm.conf" if folder.is_dir() else folder
    lines, spelled = [], {}
    for file, _, given in conf_lines(path, ()):
        if file not in spelled:
            names = re.findall(r"(\w+)\s*=", file.read_text(encoding="utf-8", errors="replace"))
            spelled[file] = {name.lower(): name for name in names}
        kept = [f"{spelled[file].get(name, name)}={value}" for name, value in given.items() if matters(name)]
        if kept:
            lines.append(" ".join(kept))
    return lines


def _apply(change: str, lines: list[str]) -> None:
    """Write a change into the lines: in place of a setting, else at the end of its line or of all."""
    words = [word for word in change.split() if "=" in word]
    clocks = {clock.name for clock in fields(Clocks)}
    if words[0].lower().startswith("partitionname="):
        head, *words = words
        place = next(k for k, line in enumerate(lines) if line.partition(" ")[0].lower() == head.lower())
        for word in words:
            lines[place] = _put(lines[place], word, " ")
        return
    for word in words:
        name = word.partition("=")[0].lower()
        key = "schedulerparameters" if name in clocks else name
        place = next((k for k, line in enumerate(lines) if line.lower().startswith(f"{key}=")), -1)
        if place < 0:
            lines.append(f"SchedulerParameters={word}" if name in clocks else word)
        elif name in clocks:
            first, _, items = lines[place].partition("=")
            lines[place] = f"{first}={_put(items, word, ',')}"
        else:
            lines[place] = word


def _put(text: str, word: str, between: str) -> str:
    """Return a text of settings with one of them set."""
    name = word.partition("=")[0].lower()
    items = [item for item in text.split(between) if item]
    places = [k for k, item in enumerate(items) if item.partition("=")[0].lower() == name]
    if places:
        items[places[-1]] = word
    return between.join(items if places else [*items, word])
