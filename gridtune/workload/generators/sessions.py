"""Users who come in sessions: a bursty workload with similar jobs side by side.

The model is gridtune's own, based on studies of the logs: users submit in sessions
separated by long breaks [1]_; within a session they submit batches of similar jobs and think between
them [2]_; few users submit most jobs; batch sizes and run times have heavy tails; offices are empty at
night and at weekends. It is open: think times do not wait for a simulated schedule.

References
----------
.. [1] N. Zakay, D. G. Feitelson, "On Identifying User Session Boundaries in Parallel Workload Logs",
   JSSPP 2012.
.. [2] E. Shmueli, D. G. Feitelson, "Using Site-Level Modeling to Evaluate the Performance of Parallel
   System Schedulers", MASCOTS 2006.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gridtune.types import BoolArray, FloatArray, IntArray
from gridtune.workload.generators import generator
from gridtune.workload.generators.draws import (
    DAY,
    Cycle,
    check_range,
    draw_estimates,
    fit_scale,
    stream,
    zipf,
)

#: Different programs that each user runs.
APPLICATIONS = 4
#: Users share this many groups.
GROUPS = 8
#: Standard deviations of the logarithms of think times, and of batches of one program.
THINK_SPREAD = 1.0
BATCH_SPREAD = 0.5


def office_week(night: float, weekend: float) -> Cycle:
    """Return a week of arrivals, hour by hour from Monday midnight.

    The rate is a raised cosine that peaks at 14:30; it falls to `night` of the peak at 02:30, and
    Saturday and Sunday have `weekend` of a workday's rate.
    """
    hour = np.arange(24) + 0.5
    check_range("night", night, 0.0, 1.0, above=0.0)
    check_range("weekend", weekend, 0.0, 1.0, above=0.0)
    bump = (1.0 + np.cos((hour - 14.5) * np.pi / 12.0)) / 2.0
    workday = night + (1.0 - night) * bump**1.5
    return Cycle(np.concatenate([np.tile(workday, 5), np.tile(weekend * workday, 2)]), 3600)


@dataclass(frozen=True)
class _Layout:
    """The batch of each job, the session of each batch, and the user of each session.

    Attributes
    ----------
    batch
        Shape (jobs,): the batch of each job, ascending.
    session
        Shape (batches,): the session of each batch, ascending.
    user
        Shape (sessions,): the user of each session.
    """

    batch: IntArray
    session: IntArray
    user: IntArray

    def times(
        self, seed: int, typical: FloatArray, similarity: float, longest: int
    ) -> tuple[IntArray, IntArray, BoolArray]:
        """Return run times, requested times and which jobs their request cut short."""
        check_range("similarity", similarity, 0.0, 5.0)
        drift = np.exp(BATCH_SPREAD * stream(seed, "batch time").standard_normal(len(typical)))
        batch_time = typical * drift
        expected = np.clip(np.ceil(batch_time), 1, longest).astype(np.int64)
        estimates = draw_estimates("modal", stream(seed, "estimate"), expected, maximum=longest)
        requested = estimates[self.batch]
        noise = np.exp(similarity * stream(seed, "run time").standard_normal(len(self.batch)))
        wanted = np.maximum(np.rint(batch_time[self.batch] * noise), 1.0)
        cut = wanted > requested
        return np.where(cut, requested, wanted).astype(np.int64), requested, cut

    def offsets(self, seed: int, batch_gap: float, think_time: float) -> FloatArray:
        """Return each job's seconds since its session began."""
        check_range("batch_gap", batch_gap, 0.0, 1e6)
        check_range("think_time", think_time, 0.0, 1e6)
        within = stream(seed, "gap").exponential(1.0, len(self.batch)) * batch_gap
        thinks = think_time * np.exp(THINK_SPREAD * stream(seed, "think").standard_normal(len(self.session)))
        opens_batch = np.diff(self.batch, prepend=-1) > 0
        gaps = np.where(opens_batch, thinks[self.batch], within)
        session = self.session[self.batch]
        opens_session = np.diff(session, prepend=-1) > 0
        since_first = np.cumsum(gaps)
        return since_first - since_first[opens_session][session]

    def session_starts(
        self, seed: int, offset: FloatArray, week: Cycle, *, length: float, span: float | None
    ) -> FloatArray:
        """Return when each session begins: a Poisson process over the weeks, given its number of events."""
        even = np.sort(stream(seed, "session").random(len(self.user)))
        if span is not None:
            session = self.session[self.batch]
            closes = np.append(np.diff(session) > 0, True)

            def spread(scale: float) -> float:
                starts = week.clock_time(scale * even)
                return float((starts + offset[closes]).max() - starts[0])

            length = fit_scale(spread, span)
        return week.clock_time(length * even)

    @classmethod
    def drawn(
        cls, batch_sizes: IntArray, seed: int, batches_per_session: float, users: int, skew: float
    ) -> _Layout:
        """Return the layout of batches."""
        check_range("batches_per_session", batches_per_session, 1.0, 1e4)
        rng = stream(seed, "batches per session")
        batches = len(batch_sizes)
        per_session = _cut(rng.geometric(1.0 / batches_per_session, batches).astype(np.int64), batches)
        return cls(
            batch=np.repeat(np.arange(batches), batch_sizes),
            session=np.repeat(np.arange(len(per_session)), per_session),
            user=zipf(stream(seed, "user"), len(per_session), users, skew),
        )


@generator("sessions")
def _sessions(
    *,
    jobs: int,
    seed: int,
    processors: int = 128,
    load: float | None = None,
    users: int = 60,
    user_skew: float = 1.0,
    sessions_per_day: float = 12.0,
    batches_per_session: float = 3.0,
    batch_tail: float = 1.5,
    largest_batch: int = 200,
    batch_gap: float = 20.0,
    think_time: float = 1200.0,
    run_time: float = 900.0,
    run_time_spread: float = 1.8,
    similarity: float = 0.3,
    serial: float = 0.35,
    night: float = 0.1,
    weekend: float = 0.3,
    longest_run_time: int = 172_800,
) -> dict[str, IntArray]:
    """User sessions: bursts of similar jobs, think times, office hours, heavy tails.

    Parameters
    ----------
    jobs, seed
        See `generate_workload`.
    processors
        The machine's size, at least 2.
    load
        Offered load, Σ processors · run time / (machine size · (last − first submission)), reached by
        moving the sessions closer together or apart; None leaves `sessions_per_day`.
    users, user_skew
        Number of users, and the exponent of the Zipf law by which sessions are theirs.
    sessions_per_day
        Mean number of sessions that begin in a day (a Poisson process over the office week).
    batches_per_session
        Mean of the geometric number of batches in a session.
    batch_tail, largest_batch
        P(batch has k jobs or more) = k^−batch_tail, cut off at the largest batch.
    batch_gap
        Mean of the exponential gaps within a batch, seconds.
    think_time
        Median of the log-normal time between batches (σ = 1), seconds.
    run_time, run_time_spread
        Median and log-standard deviation of the applications' typical run times, seconds.
    similarity
        Log-standard deviation of the run times within a batch; 0 makes them equal.
    serial
        Share of applications that run on one processor; the others take, three times out of four, a
        power of two, log-uniform up to the machine's size.
    night, weekend
        Arrival rate at night and at weekends as a share of that of a workday's peak.
    longest_run_time
        The longest time that may be requested, seconds. A batch has one requested time, by
        `draw_estimates`; jobs that would run longer end with it and have status 0.
    """
    check_range("processors", processors, 2, 2**24)
    check_range("load", load, high=100.0, above=0.0)
    check_range("users", users, 1, 10**6)
    check_range("user_skew", user_skew, 0.0, 10.0)
    check_range("sessions_per_day", sessions_per_day, above=0.0)
    check_range("run_time", run_time, 1.0, 1e9)
    check_range("run_time_spread", run_time_spread, 0.0, 5.0)
    check_range("longest_run_time", longest_run_time, 3600, 10**9)
    check_range("batch_tail", batch_tail, 0.5, 20.0)
    check_range("largest_batch", largest_batch, 1, 10**6)
    # Every batch has a job, so `jobs` batches are enough.
    uniform = 1.0 - stream(seed, "batch size").random(jobs)
    sizes = np.minimum(np.floor(uniform ** (-1.0 / batch_tail)), largest_batch).astype(np.int64)
    layout = _Layout.drawn(_cut(sizes, jobs), seed, batches_per_session, users, user_skew)
    # The program of each batch, counted over all users; a user has a favourite.
    favourite = zipf(stream(seed, "program"), len(layout.session), APPLICATIONS, 1.0)
    program = (layout.user[layout.session] - 1) * APPLICATIONS + favourite - 1
    size = _sizes(seed, users, processors, serial)[program][layout.batch]
    scatter = stream(seed, "typical time").standard_normal(users * APPLICATIONS)
    typical = (run_time * np.exp(run_time_spread * scatter))[program]
    ran, requested, cut = layout.times(seed, typical, similarity, longest_run_time)
    offset = layout.offsets(seed, batch_gap, think_time)
    span = None if load is None else float((size * ran).sum()) / (processors * load)
    week = office_week(night, weekend)
    length = len(layout.user) / sessions_per_day * DAY
    starts = layout.session_starts(seed, offset, week, length=length, span=span)
    submit = np.floor(starts[layout.session[layout.batch]] + offset).astype(np.int64)
    user = layout.user[layout.session][layout.batch]
    columns = {
        "submit_time": submit,
        "run_time": ran,
        "allocated_processors": size,
        "requested_processors": size,
        "requested_time": requested,
        "status": np.where(cut, 0, 1),
        "user": user,
        "group": user * 5 % GROUPS + 1,
        "executable": program[layout.batch] + 1,
    }
    order = np.argsort(submit, kind="stable")
    return {name: column[order] for name, column in columns.items()}


def _cut(counts: IntArray, total: int) -> IntArray:
    """Return the first of the counts, the last of them shortened, so that they add up to `total`."""
    ends = np.cumsum(counts)
    last = int(np.searchsorted(ends, total))
    cut = counts[: last + 1].copy()
    cut[-1] -= ends[last] - total
    return cut


def _sizes(seed: int, users: int, processors: int, serial: float) -> IntArray:
    """Return the processors of each program."""
    check_range("serial", serial, 0.0, 1.0)
    rng = stream(seed, "size")
    count = users * APPLICATIONS
    kind, exponent = rng.random((2, count))
    exponent = 0.5 + exponent * (np.log2(processors) - 0.5)
    rounded = np.where(rng.random(count) < 0.75, np.floor(exponent + 0.5), exponent)
    parallel = np.clip(np.rint(np.exp2(rounded)), 2, processors).astype(np.int64)
    return np.where(kind < serial, 1, parallel)
