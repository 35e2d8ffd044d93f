"""A site of the EGEE grid: sequential jobs of seven virtual organisations, short and long ones, in bursts.

The statistics are those published of the site LAL in 2006 [1]_: 4,480 interactive jobs (shorter than 900 s;
mean 160 s, median between 160 and 190 s, standard deviation 108 s), 5,020 batch jobs (mean 34,927 s, median
15,615 s, standard deviation 78,755 s), 81 cores used to 0.56, bursty arrivals. The model of bursts is
gridtune's own; their size is calibrated so that waits under one queue per VO with fair-share priorities are
about those of the real site.

References
----------
.. [1] J. Perez, C. Germain-Renaud, B. Kégl, C. Loomis, "Responsive Elastic Computing", GMAC 2009,
   doi 10.1145/1555301.1555311: section 4.2 and table 1.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gridtune.workload.generators.arrivals import fit_scale, span_for_load
from gridtune.workload.generators.draws import check_range, stream, zipf
from gridtune.workload.generators.registry import generator
from gridtune.workload.generators.sessions import office_week

__all__ = ["TARGET_SHARES", "batch_times", "egee", "interactive_times"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

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


def _normal(x: FloatArray) -> FloatArray:
    return np.array([0.5 * math.erfc(-value / math.sqrt(2.0)) for value in x])


def _quantiles(grid: FloatArray, law: FloatArray, count: int) -> IntArray:
    """Return `count` evenly spaced quantiles of a law that is given on a grid and cut off at its ends."""
    share = (law - law[0]) / (law[-1] - law[0])
    drawn = np.interp((np.arange(count) + 0.5) / max(count, 1), share, grid)
    return np.rint(drawn).astype(np.int64)


def interactive_times(count: int) -> IntArray:
    """Return the run times of `count` interactive jobs, ascending, seconds."""
    grid = np.linspace(0.5, INTERACTIVE_BELOW - 0.5, 4000)
    short = 1.0 - np.exp(-grid / SHORT_MEAN)
    usual = _normal(np.log(grid / USUAL_MEDIAN) / USUAL_SPREAD)
    times = _quantiles(grid, SHORT_SHARE * short + (1.0 - SHORT_SHARE) * usual, count)
    return np.clip(times, 1, INTERACTIVE_BELOW - 1)


def batch_times(count: int) -> IntArray:
    """Return the run times of `count` batch jobs, ascending, seconds."""
    grid = np.geomspace(INTERACTIVE_BELOW, LONGEST, 8000)
    usual = _normal(np.log(grid / BATCH_MEDIAN) / BATCH_SPREAD)
    long = _normal(np.log(grid / (STRETCH * BATCH_MEDIAN)) / BATCH_SPREAD)
    return _quantiles(grid, (1.0 - STRETCHED_SHARE) * usual + STRETCHED_SHARE * long, count)


@generator("egee")
def egee(
    *,
    jobs: int,
    seed: int,
    processors: int = 81,
    load: float | None = None,
    interactive: float = 0.4716,
    interactive_tail: float = 0.7,
    batch_tail: float = 1.0,
    largest_interactive: int = 120,
    largest_batch: int = 140,
    interactive_gap: float = 6.0,
    batch_gap: float = 37.0,
    similarity: float = 0.73,
    shortness: float = 0.7,
    following: float = 0.58,
    following_time: float = 50_000.0,
    kinship: float = 0.4,
    night: float = 0.2,
    weekend: float = 0.2,
) -> dict[str, npt.NDArray[np.int64]]:
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
    interactive
        Share of jobs that are interactive.
    interactive_tail, batch_tail, largest_interactive, largest_batch
        P(burst has k jobs or more) = k^−tail, truncated at the largest burst. All jobs of a burst have the
        same user and class.
    interactive_gap, batch_gap
        Mean of the exponential gaps within a burst, seconds.
    similarity
        Correlation, between 0 and 1, of the (normal scores of the) run times within a burst.
    shortness
        Correlation, between 0 and 1, of the size of a batch burst with the shortness of its jobs.
    following, following_time, kinship
        Share of the interactive bursts that follow a batch burst, a larger one more often; the mean of the
        exponential time between the two beginnings, seconds; and the share of them with the same user.
    night, weekend
        Arrival rate of bursts at night and at weekends, relative to a workday's peak.
    """
    check_range("processors", processors, 1, 2**24)
    if load is not None:
        check_range("load", load, high=100.0, above=0.0)
    check_range("interactive", interactive, 0.0, 1.0)
    for name, tail in (("interactive_tail", interactive_tail), ("batch_tail", batch_tail)):
        check_range(name, tail, 0.2, 20.0)
    for name, largest in (("largest_interactive", largest_interactive), ("largest_batch", largest_batch)):
        check_range(name, largest, 1, 10**6)
    for name, gap in (("interactive_gap", interactive_gap), ("batch_gap", batch_gap)):
        check_range(name, gap, 0.0, 1e6)
    for name, share in (("similarity", similarity), ("shortness", shortness), ("following", following)):
        check_range(name, share, 0.0, 1.0)
    check_range("kinship", kinship, 0.0, 1.0)
    check_range("following_time", following_time, 0.0, 1e9)
    short = round(interactive * jobs)
    groups = [
        _Class(seed, "batch", batch_times(jobs - short), batch_tail, largest_batch, batch_gap),
        _Class(
            seed,
            "interactive",
            interactive_times(short),
            interactive_tail,
            largest_interactive,
            interactive_gap,
        ),
    ]
    batch, prompt = groups
    leader = _leaders(stream(seed, "following"), batch, prompt, following)
    run = np.concatenate([batch.run_times(similarity, shortness), prompt.run_times(similarity, 0.0)])
    burst = np.concatenate([batch.burst, prompt.burst + batch.bursts])
    offset = np.concatenate([batch.offset, prompt.offset])
    after = stream(seed, "following time").exponential(1.0, prompt.bursts) * following_time
    span = None if load is None else span_for_load(float(run.sum()), processors, load)
    even = stream(seed, "begin").random(batch.bursts + prompt.bursts)
    week = office_week(night, weekend)

    def beginnings(scale: float) -> FloatArray:
        begin = week.clock_time(scale * even)
        return np.append(
            begin[: batch.bursts], np.where(leader < 0, begin[batch.bursts :], begin[leader] + after)
        )

    def duration(scale: float) -> float:
        return float(np.ptp(beginnings(scale)[burst] + offset))

    begin = beginnings(USUAL_GAP * jobs if span is None else fit_scale(duration, span))
    vo, user = _owners(seed, batch.bursts + prompt.bursts)
    kin = (leader >= 0) & (stream(seed, "kinship").random(prompt.bursts) < kinship)
    for owner in (vo, user):
        owner[batch.bursts :][kin] = owner[leader[kin]]
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
    size
        Shape (bursts,): the jobs of each burst.
    """

    def __init__(self, seed: int, name: str, times: IntArray, tail: float, largest: int, gap: float) -> None:
        self.burst = _bursts(stream(seed, f"{name} burst"), len(times), tail, largest)
        self.bursts = int(self.burst.max(initial=-1)) + 1
        self.size = np.bincount(self.burst, minlength=self.bursts)
        self.offset = _offsets(stream(seed, f"{name} gap"), self.burst, gap)
        self._times, self._rng = times, stream(seed, f"{name} run time")

    def run_times(self, similarity: float, shortness: float) -> IntArray:
        """Assign the run times: similar within a burst, and shorter in larger bursts."""
        # Standardise over jobs, not bursts: a job is in a burst in proportion to its size.
        size = np.log(self.size)[self.burst]
        spread = size.std() if len(size) else 0.0
        score = (size - size.mean()) / spread if spread > 0 else np.zeros(len(size))
        common = self._rng.standard_normal(self.bursts)[self.burst]
        own = self._rng.standard_normal(len(self.burst))
        similar = math.sqrt(1.0 - shortness**2) * common - shortness * score
        assigned = np.empty(len(self._times), np.int64)
        order = np.argsort(math.sqrt(similarity) * similar + math.sqrt(1.0 - similarity) * own, kind="stable")
        assigned[order] = self._times
        return assigned


def _leaders(rng: np.random.Generator, batch: _Class, prompt: _Class, following: float) -> IntArray:
    """Return the batch burst that each interactive burst follows, -1 for none."""
    follows = rng.random(prompt.bursts) < following
    if batch.bursts == 0:
        return np.full(prompt.bursts, -1)
    # The burst of a random job: one with more jobs is drawn more often.
    drawn = batch.burst[rng.integers(len(batch.burst), size=prompt.bursts)]
    return np.where(follows, drawn, -1)


def _bursts(rng: np.random.Generator, jobs: int, tail: float, largest: int) -> IntArray:
    """Return the burst of each job, from 0, ascending."""
    # Every burst has at least one job, so `jobs` bursts are enough.
    size = np.minimum((1.0 - rng.random(jobs)) ** (-1.0 / tail), largest).astype(np.int64)
    return np.repeat(np.arange(jobs), size)[:jobs]


def _offsets(rng: np.random.Generator, burst: IntArray, gap: float) -> FloatArray:
    """Return each job's seconds since its burst began."""
    opens = np.diff(burst, prepend=-1) > 0
    passed = np.cumsum(np.where(opens, 0.0, rng.exponential(1.0, len(burst)) * gap))
    return passed - passed[opens][burst]


def _owners(seed: int, bursts: int) -> tuple[IntArray, IntArray]:
    """Return VO and user of each burst, both from 1; VOs by `DEMAND`."""
    edges = np.cumsum(DEMAND)
    drawn = np.searchsorted(edges, stream(seed, "VO").random(bursts) * edges[-1], side="right")
    vo = np.minimum(drawn, len(DEMAND) - 1).astype(np.int64)
    return vo + 1, vo * USERS + zipf(stream(seed, "user"), bursts, USERS, 1.0)
