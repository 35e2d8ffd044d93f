"""A site of the EGEE grid: sequential jobs of seven virtual organisations, short and long ones, in bursts.

The statistics are those published of the site LAL in 2006 [1]_: 4,480 interactive jobs (shorter than 900 s;
mean 160 s, median between 160 and 190 s, standard deviation 108 s), 5,020 batch jobs (mean 34,927 s, median
15,615 s, standard deviation 78,755 s), 81 cores used to 0.56, bursty arrivals. The process of arrivals is
gridtune's own: bursts of one user's jobs with heavy-tailed sizes; some interactive bursts follow a batch
burst of the same user, the others come when the site has little backlog. It is calibrated so that two
published results hold on it together: the waits of the real site, as first come, first served with a limit on
each user's running jobs, and those of the learned schedulers, as orders without that limit
(`python -m benchmarks.egee_calibration`).

References
----------
.. [1] J. Perez, C. Germain-Renaud, B. Kégl, C. Loomis, "Responsive Elastic Computing", GMAC 2009,
   doi 10.1145/1555301.1555311: section 4.2 and table 1.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from gridtune.types import FloatArray, IntArray
from gridtune.workload.generators import generator
from gridtune.workload.generators.draws import check_range, fit_scale, stream, zipf
from gridtune.workload.generators.sessions import office_week

#: Target shares of the seven VOs; the last one stands for all small ones.
TARGET_SHARES = (0.53, 0.02, 0.17, 0.08, 0.01, 0.16, 0.03)
#: Jobs with a shorter run time are interactive, seconds.
INTERACTIVE_BELOW = 900
#: Interactive run times: a share of exponential ones with that mean, and log-normal ones with that median
#: and log-standard deviation. Fitted to the published mean and deviation, and a median of 175 s.
SHORT_SHARE, SHORT_MEAN = 0.4745, 68.16
USUAL_MEDIAN, USUAL_SPREAD = 234.44, 0.25
#: Batch run times: log-normal from 900 s up to `LONGEST`, a share of them `STRETCH` times as long. Fitted to
#: the published mean, median and deviation.
BATCH_MEDIAN, BATCH_SPREAD = 14_724.4, 1.08484
STRETCHED_SHARE, STRETCH = 0.03851, 10.0
LONGEST = 2_000_000
#: Their shares of the jobs: the largest submits less than its target share, which leads to the published F
#: near 0.7.
DEMAND = (0.34, 0.03, 0.24, 0.115, 0.02, 0.215, 0.04)
#: Seconds between beginnings of bursts, for each job of the workload.
USUAL_GAP = 45 * 86_400 / 9_500
#: Users of each VO.
USERS = 6


#: Share of jobs that are interactive.
INTERACTIVE_SHARE = 0.4716
#: Correlation of the (normal scores of the) run times within a burst.
SIMILARITY = 0.17
#: Share of the interactive bursts that follow a batch burst of the same user, a larger one more often, and
#: the mean of the exponential time between the two beginnings, seconds.
FOLLOWING, FOLLOWING_TIME = 0.25, 24_500.0
#: Mean number of instants among which an interactive burst that follows none begins at the one with the
#: fewest batch jobs waiting or running under first come, first served.
CHOICES = 2.7
#: Arrival rate of bursts at night and at weekends, relative to a workday's peak.
NIGHT, WEEKEND = 0.2, 0.2


class _Bursts(NamedTuple):
    """Bursts of jobs of one user and class: P(burst has k jobs or more) = k^−tail, up to the largest.

    `gap` is the mean of the exponential gaps within a burst, seconds.
    """

    tail: float
    largest: int
    gap: float


BATCH_BURSTS, INTERACTIVE_BURSTS = _Bursts(1.07, 60, 300.0), _Bursts(0.97, 83, 2.0)


def _quantiles(grid: FloatArray, law: FloatArray, count: int) -> IntArray:
    """Return `count` evenly spaced quantiles of a law that is given on a grid and cut off at its ends."""
    share = (law - law[0]) / (law[-1] - law[0])
    drawn = np.interp((np.arange(count) + 0.5) / max(count, 1), share, grid)
    return np.rint(drawn).astype(np.int64)


def _interactive_times(count: int) -> IntArray:
    """Return the run times of `count` interactive jobs, ascending, seconds."""
    grid = np.linspace(0.5, INTERACTIVE_BELOW - 0.5, 4000)
    short = 1.0 - np.exp(-grid / SHORT_MEAN)
    usual = ndtr(np.log(grid / USUAL_MEDIAN) / USUAL_SPREAD)
    times = _quantiles(grid, SHORT_SHARE * short + (1.0 - SHORT_SHARE) * usual, count)
    return np.clip(times, 1, INTERACTIVE_BELOW - 1)


@generator("egee")
def _egee(
    *,
    jobs: int,
    seed: int,
    processors: int = 81,
    load: float | None = None,
) -> dict[str, IntArray]:
    """Return a grid site's short and long sequential jobs, of seven VOs (field `group`), in bursts.

    Every workload has the published distribution of run times, whatever the seed: run times are its
    quantiles, assigned to the jobs. The seed decides on the order and times of submission.

    Parameters
    ----------
    jobs, seed
        See `generate_workload`; the site of the publication had 9,500.
    processors
        Cores of the site.
    load
        Offered load, Σ run time / (cores · (last − first submission)); None spreads the beginnings of
        bursts over 45 days for 9,500 jobs, a load of about 0.56 on 81 cores.
    """
    check_range("processors", processors, 1, 2**24)
    check_range("load", load, high=100.0, above=0.0)
    short = round(INTERACTIVE_SHARE * jobs)
    grid = np.geomspace(INTERACTIVE_BELOW, LONGEST, 8000)
    most = ndtr(np.log(grid / BATCH_MEDIAN) / BATCH_SPREAD)
    stretched = ndtr(np.log(grid / (STRETCH * BATCH_MEDIAN)) / BATCH_SPREAD)
    below = (1.0 - STRETCHED_SHARE) * most + STRETCHED_SHARE * stretched
    batch = _Class(seed, "batch", _quantiles(grid, below, jobs - short), BATCH_BURSTS)
    prompt = _Class(seed, "interactive", _interactive_times(short), INTERACTIVE_BURSTS)
    batch_run = batch.run_times()
    run = np.concatenate([batch_run, prompt.run_times()])
    burst = np.concatenate([batch.burst, prompt.burst + batch.bursts])
    offset = np.concatenate([batch.offset, prompt.offset])
    leader = batch.leaders(stream(seed, "following"), prompt)
    after = stream(seed, "following time").exponential(1.0, prompt.bursts) * FOLLOWING_TIME
    week = office_week(NIGHT, WEEKEND)
    usual = USUAL_GAP * jobs
    even = stream(seed, "begin").random(batch.bursts)
    even = np.append(
        even,
        _least_loaded(
            stream(seed, "choices"),
            prompt.bursts,
            lambda share: week.clock_time(usual * share),
            _in_system(week.clock_time(usual * even)[batch.burst] + batch.offset, batch_run, processors),
        ),
    )

    def beginnings(scale: float) -> FloatArray:
        begin = week.clock_time(scale * even)
        return np.append(
            begin[: batch.bursts], np.where(leader < 0, begin[batch.bursts :], begin[leader] + after)
        )

    def duration(scale: float) -> float:
        return float(np.ptp(beginnings(scale)[burst] + offset))

    span = None if load is None else float(run.sum()) / (processors * load)
    begin = beginnings(usual if span is None else fit_scale(duration, span))
    vo, user = _owners(seed, batch.bursts + prompt.bursts)
    for owner in (vo, user):
        owner[batch.bursts :][leader >= 0] = owner[leader[leader >= 0]]
    submit = np.floor(begin[burst] + offset).astype(np.int64)
    order = np.argsort(submit, kind="stable")
    ones = np.ones(jobs, np.int64)
    columns = {
        "submit_time": submit,
        "run_time": run,
        "allocated_processors": ones,
        "requested_processors": ones,
        "requested_time": np.full(jobs, LONGEST),
        "status": ones,
        "user": user[burst],
        "group": vo[burst],
    }
    return {name: column[order] for name, column in columns.items()}


class _Class:
    """The bursts of one class of jobs.

    Attributes
    ----------
    burst, offset
        Shape (jobs,): the burst of each job, from 0, ascending, and its seconds since that began.
    bursts
        Their number.
    """

    def __init__(self, seed: int, name: str, times: IntArray, bursts: _Bursts) -> None:
        jobs = len(times)
        # Every burst has at least one job, so as many bursts as jobs are enough.
        size = (1.0 - stream(seed, f"{name} burst").random(jobs)) ** (-1.0 / bursts.tail)
        self.burst = np.repeat(np.arange(jobs), np.minimum(size, bursts.largest).astype(np.int64))[:jobs]
        self.bursts = int(self.burst.max(initial=-1)) + 1
        opens = np.diff(self.burst, prepend=-1) > 0
        gaps = stream(seed, f"{name} gap").exponential(1.0, jobs) * bursts.gap
        passed = np.cumsum(np.where(opens, 0.0, gaps))
        self.offset = passed - passed[opens][self.burst]
        self._times, self._rng = times, stream(seed, f"{name} run time")

    def run_times(self) -> IntArray:
        """Assign the run times: similar within a burst."""
        common = self._rng.standard_normal(self.bursts)[self.burst]
        own = self._rng.standard_normal(len(self.burst))
        assigned = np.empty(len(self._times), np.int64)
        order = np.argsort(math.sqrt(SIMILARITY) * common + math.sqrt(1.0 - SIMILARITY) * own, kind="stable")
        assigned[order] = self._times
        return assigned

    def leaders(self, rng: np.random.Generator, prompt: _Class) -> IntArray:
        """Return the batch burst that each interactive burst follows, -1 for none."""
        follows = rng.random(prompt.bursts) < FOLLOWING
        if self.bursts == 0:
            return np.full(prompt.bursts, -1)
        # The burst of a random job: one with more jobs is drawn more often.
        drawn = self.burst[rng.integers(len(self.burst), size=prompt.bursts)]
        return np.where(follows, drawn, -1)


def _in_system(submit: FloatArray, run: IntArray, processors: int) -> Callable[[FloatArray], IntArray]:
    """Return a function of instants: the jobs that wait or run then under first come, first served."""
    order = np.argsort(submit, kind="stable")
    free = [0.0] * processors
    ends = np.empty(len(submit))
    for place, job in enumerate(order.tolist()):
        ends[place] = max(heapq.heappop(free), float(submit[job])) + float(run[job])
        heapq.heappush(free, float(ends[place]))
    arrived, left = submit[order], np.sort(ends)

    def count(instants: FloatArray) -> IntArray:
        return np.searchsorted(arrived, instants, "right") - np.searchsorted(left, instants, "right")

    return count


def _least_loaded(
    rng: np.random.Generator,
    bursts: int,
    clock: Callable[[FloatArray], FloatArray],
    load: Callable[[FloatArray], IntArray],
) -> FloatArray:
    """Return the beginnings of bursts as shares of the span: of a few random ones, the least loaded."""
    most = math.ceil(CHOICES)
    drawn = rng.random((bursts, most))
    loads = load(clock(drawn.ravel())).reshape(bursts, most)
    # The last choice is there with the probability of its fraction.
    missing = rng.random(bursts) >= CHOICES - (most - 1)
    loads[missing, most - 1] = np.iinfo(np.int64).max
    return np.asarray(drawn[np.arange(bursts), loads.argmin(axis=1)])


def _owners(seed: int, bursts: int) -> tuple[IntArray, IntArray]:
    """Return VO and user of each burst, both from 1; VOs by `DEMAND`."""
    edges = np.cumsum(DEMAND)
    drawn = np.searchsorted(edges, stream(seed, "VO").random(bursts) * edges[-1], side="right")
    vo = np.minimum(drawn, len(DEMAND) - 1).astype(np.int64)
    return vo + 1, vo * USERS + zipf(stream(seed, "user"), bursts, USERS, 1.0)
