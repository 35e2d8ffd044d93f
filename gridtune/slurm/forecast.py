"""When pending jobs will start: replays from what runs and waits now, with run times drawn from the past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import UNLIMITED, SlurmCluster
from gridtune.slurm.comparison import logged_jobs
from gridtune.slurm.kernel.arrays import Phases
from gridtune.slurm.replay import ClusterState, in_threads, replay
from gridtune.slurm.requests import Request
from gridtune.slurm.shares import decayed_usage
from gridtune.types import FloatArray
from gridtune.workload.workload import Workload

#: The quantiles of the draws that have some 80 % of the starts between them. Run times of the past alone are
#: known, so ends at 10 and 90 % hold less. Chosen on two recorded runs; on four others they held 77 to 86 %.
INTERVAL = (0.06, 0.94)
#: The last so many ended jobs of a user are what run times are drawn from, beside those that run.
_LATEST = 200
#: A user's own jobs weigh against so many of everybody's.
_PRIOR = 5
#: Arrivals are drawn from the last so many seconds, and for as many at most: a shorter past says nothing of
#: a longer time.
_WINDOW = 7 * 86_400
#: The seconds for which they are drawn first.
_HORIZON = 3600
#: A stretch of arrivals is at least so many seconds long, where there are as many.
_STRETCH = 600

#: Jobs that run: each, its start, and the numbers of its nodes.
Running: TypeAlias = Sequence[tuple[Request, int, tuple[int, ...]]]


@dataclass(frozen=True)
class Past:
    """All that had happened by an instant.

    Attributes
    ----------
    now
        The instant, seconds.
    ended
        Jobs that had ended by then, with their run times, in the order of their ends.
    submitted
        Jobs submitted before it, in the order of submission, from which later ones are drawn. Run times of
        unfinished jobs are ignored.
    usage
        Decayed processor-seconds of each (account, user).
    """

    now: int
    ended: Sequence[Request] = ()
    submitted: Sequence[Request] = ()
    usage: Mapping[tuple[str, str], float] = field(default_factory=dict)


class _Shares:
    """Shares of their limits that the jobs of each user, and of all, ran.

    Of a job that runs only a least share is known. Without it long jobs would be missing: short ones end
    first.
    """

    def __init__(self, cluster: SlurmCluster, ended: Sequence[Request], running: Running, now: int) -> None:
        self.cluster = cluster
        self.of: dict[tuple[str, ...], list[float]] = {}
        self.least: dict[tuple[str, ...], list[float]] = {}
        for table, some in (
            (self.of, [(one, one.run_time) for one in ended]),
            (self.least, [(one, now - start) for one, start, _ in running]),
        ):
            for one, run in some:
                for key in ((), (one.user,)):
                    table.setdefault(key, []).append(min(1.0, run / self.limit(one)))

    def limit(self, request: Request) -> int:
        """Return a job's limit in its first partition."""
        return max(1, request.limit_in(self.cluster.partitions[request.partitions[0]]))

    def again(self, stream: np.random.Generator) -> _Shares:
        """Return shares drawn from these: a few jobs do not say for sure how long a user's jobs run.

        A least share becomes one of the greater ones, each as likely: the estimate of Kaplan and Meier.
        """
        other = _Shares(self.cluster, (), (), 0)
        for key in dict.fromkeys([*self.of, *self.least]):
            ended, least = self.of.get(key, [])[-_LATEST:], self.least.get(key, [])
            shares, goes_on = np.array(ended + least), np.arange(len(ended) + len(least)) >= len(ended)
            order = np.lexsort((goes_on, shares))[::-1]
            shares, goes_on = shares[order], goes_on[order]
            for place in np.flatnonzero(goes_on):
                shares[place] = shares[stream.integers(place)] if place else 1.0
            other.of[key] = shares[stream.integers(len(shares), size=len(shares))].tolist()
        return other

    def draw(self, request: Request, elapsed: int, stream: np.random.Generator) -> int:
        """Draw a run time above the time that a job has run."""
        limit = self.limit(request)
        own, everybody = self.of.get((request.user,), []), self.of.get((), [])
        left = [[share for share in some if share * limit > elapsed] for some in (own, everybody)]
        # Nothing is known of the first jobs of all: any share.
        pools = [some for some in left if some]
        if not pools:
            run = stream.uniform(min(elapsed, limit), limit)
        else:
            mine = bool(left[0]) and stream.random() * (len(left[0]) + _PRIOR) < len(left[0])
            some = left[0] if mine or not left[1] else left[1]
            run = some[int(stream.integers(len(some)))] * limit
        # A job at its limit goes on until Slurm looks.
        return max(elapsed + 1, UNLIMITED if run >= limit else int(run), 1)


def forecast(
    cluster: SlurmCluster, pending: Sequence[Request], running: Running, past: Past, *, draws: int, seed: int
) -> FloatArray:
    """Return starts of pending jobs in seconds, shape (draws, pending).

    Each draw replays the cluster from `past.now` with run times, later arrivals and phases of the clocks of
    its own. A job that never starts in a draw has an infinite start.

    Parameters
    ----------
    cluster
        The cluster.
    pending
        Jobs that wait, in any order; run times are not looked at.
    running
        Jobs that run: each, its start, and the numbers of its nodes; run times are not looked at.
    past
        All that is known.
    draws, seed
        The number of replays, and the seed of all of them.
    """
    now = past.now
    observed = _Shares(cluster, past.ended, running, now)
    longest = min(_WINDOW, now - min((one.submit for one in past.submitted), default=now))

    def drawn(draw: int) -> FloatArray:
        horizon = min(_HORIZON, longest)
        stream = np.random.default_rng([seed, draw])
        shares = observed.again(stream)
        waiting = [replace(one, run_time=shares.draw(one, 0, stream)) for one in pending]
        busy = [replace(one, run_time=shares.draw(one, now - start, stream)) for one, start, _ in running]
        state = ClusterState(
            now,
            {len(waiting) + place: (start, nodes) for place, (_, start, nodes) in enumerate(running)},
            past.usage,
        )
        phases = Phases.draw(cluster, stream)
        while True:
            # The same jobs come at first, however far it goes.
            later = _arrivals(past, shares, horizon, np.random.default_rng([seed, draw, 1]))
            jobs = [*waiting, *busy, *later]
            result = replay(cluster, jobs, phases, state, needed=len(waiting)).start[: len(waiting)]
            # Later arrivals matter until the last of these jobs starts.
            if result.max(initial=now) <= now + horizon or horizon == longest:
                break
            horizon = min(2 * horizon, longest)
        return np.where(result >= 0, result, np.inf)

    return in_threads(drawn, draws)


def _arrivals(past: Past, shares: _Shares, horizon: int, stream: np.random.Generator) -> list[Request]:
    """Draw jobs that come after now: those of the last stretch of the past, then of another such stretch.

    The length of a busy or quiet period is unknown, so all time scales get equal weight.
    """
    now, submitted = past.now, past.submitted
    window = min(_WINDOW, now - submitted[0].submit) if submitted else 0
    if window < 1:
        return []
    scales = np.log([min(_STRETCH, window), window])
    number = 1 << 40
    drawn: list[Request] = []
    recent = [one for one in submitted if one.submit >= now - window]
    at = now
    while at < now + horizon:
        stretch = max(1, int(np.exp(stream.uniform(*scales))))
        for one in recent:
            submit = at + one.submit - (now - stretch)
            if at <= submit < now + horizon:
                run = shares.draw(one, 0, stream)
                drawn.append(replace(one, number=number, submit=submit, run_time=run, array=0, after=()))
                number += 1
        at += stretch
    return drawn


def past_of(cluster: SlurmCluster, workload: Workload, now: int) -> Past:
    """Return what a log says of the time before an instant, in seconds since 1970; nothing after it is read.

    Raises
    ------
    WorkloadError
        If the log does not say when it began, or nothing of it was before the instant.
    """
    origin = workload.instant()
    if origin is None:
        raise WorkloadError("does not say when it began", path=workload.source, hint="give a dump of sacct")
    begun = int(origin.timestamp())
    jobs = logged_jobs(known_at(workload, now - begun), cluster)
    if not jobs.requests:
        raise WorkloadError("has no job before the queue", path=workload.source)
    ran = []
    for one, wait in zip(jobs.requests, jobs.recorded.tolist(), strict=True):
        run = min(one.run_time, one.limit_in(cluster.partitions[one.partitions[0]]))
        if wait >= 0:
            start = begun + one.submit + wait
            ran.append((replace(one, run_time=run, submit=begun + one.submit), start, start + run))
    ended = sorted((one for one in ran if one[2] < now), key=lambda one: one[2])
    submitted = [replace(one, submit=begun + one.submit) for one in jobs.requests]
    usage = decayed_usage(cluster.priorities, now, [(one, start, min(end, now)) for one, start, end in ran])
    return Past(now, [one for one, _, _ in ended], submitted, usage)


def known_at(workload: Workload, cut: int) -> Workload:
    """Return what was known of a log at an instant.

    Jobs submitted before it, of which those that ran then have the run time so far, and those that waited
    their time limit, without a recorded wait.
    """
    rows = np.flatnonzero(workload.submit_time < cut)
    part = workload.take(rows, name=f"{workload.name} to {cut}")
    submit, wait, run = part.submit_time, part.wait_time, part.run_time
    waiting = (wait < 0) | (submit + wait >= cut)
    running = ~waiting & (run >= 0) & (submit + wait + run > cut)
    columns = {name: column.copy() for name, column in part.columns.items()}
    columns["run_time"][running] = (cut - submit - wait)[running]
    columns["run_time"][waiting & (run >= 0)] = part.requested_time[waiting & (run >= 0)]
    columns["wait_time"][waiting] = -1
    for name in ("state", "status", "end_time", "used_memory", "average_cpu_time"):
        if name in columns:
            columns[name][waiting | running] = -1
    return Workload(columns, part.name, None, part.machine_processors, part.header, part.names)
