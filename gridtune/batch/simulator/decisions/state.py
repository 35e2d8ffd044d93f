"""State of machines that are stepped decision by decision: each is a slice of the same two arrays."""

from __future__ import annotations

from typing import NamedTuple

from gridtune.batch.simulator.running import Running
from gridtune.core.compiled import bare, kernel, section
from gridtune.types import Float32Array, FloatArray, IntArray

__all__ = [
    "Arena",
    "Costs",
    "Jobs",
    "Machine",
    "Settings",
    "bare_costs",
    "bare_jobs",
    "machine_at",
    "whole_length",
]


#: The state of a machine in whole numbers: the window's first job; free processors; jobs that wait, that were
#: started and that were submitted; the clock; whether a scheduling pass is under way; the head's job (-1: no
#: job is reserved for) with its shadow time and the extra processors; candidates shown, and rows of the
#: observation that are filled; processor-seconds requested by waiting jobs.
(
    FIRST,
    FREE,
    WAITING,
    TURN,
    ARRIVED,
    NOW,
    OPEN,
    HEAD,
    SHADOW,
    SPARE,
    SHOWN,
    FILLED,
    QUEUED,
    MEMORY,
) = range(14)

#: And in real numbers: cost of the started jobs; cost that rewards have been given for; factors on costs (one
#: over the number of jobs, or over their area) and on rewards; the cost of the rule compared with.
SETTLED, PAID, SHARE, SCALE, BASE, SUMS = range(6)

#: Flags: jobs are chosen to be backfilled, not to be the head; backfilling behind a chosen head; a backfilled
#: job may not delay the head; the environment's own order is that of submission.
BACKFILL_MODE, EASY, PROTECT, BY_SUBMISSION = 1, 2, 4, 8


class Settings(NamedTuple):
    """What all machines share: processors, flags, jobs of a window, candidates, room for running jobs."""

    processors: int
    flags: int
    jobs: int
    candidates: int
    room: int


class Jobs(NamedTuple):
    """The jobs that windows are taken from, in submit order; times in seconds from the first submission.

    `run` is the time a job really takes, already cut where it is killed. `long` and `large` are the features
    of walltime and of area.
    """

    submit: IntArray
    run: IntArray
    walltime: IntArray
    processors: IntArray
    long: Float32Array
    large: Float32Array


class Costs(NamedTuple):
    """The cost of a job that waits w seconds: `weight` · max(`floor`, w + `offset`), over Σ `part`."""

    weight: FloatArray
    offset: FloatArray
    floor: FloatArray
    part: FloatArray


class Arena(NamedTuple):
    """A batch of machines: `whole_length` integers and `SUMS` reals for each, one after the other."""

    whole: IntArray
    real: FloatArray


class Machine(NamedTuple):
    """One machine, as bare columns.

    `start[j]` is the start of the window's job j, `rank[j]` its place in the order that the environment uses
    itself, `queue[:WAITING]` are the waiting jobs by submission, `shown[:SHOWN]` the places in the queue of
    the candidates. `available[i]` is scratch: processors that are free once i + 1 running jobs have ended.
    """

    settings: Settings
    memory: IntArray
    start: IntArray
    rank: IntArray
    queue: IntArray
    shown: IntArray
    available: IntArray
    running: Running
    sums: FloatArray


@kernel()
def whole_length(settings):
    """Return how many integers a machine has."""
    return MEMORY + 3 * settings.jobs + settings.candidates + 2 + 7 * settings.room


@kernel()
def machine_at(settings, arena, index):
    """Return the machine with that index in the batch."""
    jobs, room, candidates = settings.jobs, settings.room, settings.candidates
    start = index * whole_length(settings) + MEMORY
    shown = start + 3 * jobs
    counts = shown + candidates
    first = counts + 2
    return Machine(
        settings,
        section(arena.whole, start - MEMORY, MEMORY),
        section(arena.whole, start, jobs),
        section(arena.whole, start + jobs, jobs),
        section(arena.whole, start + 2 * jobs, jobs),
        section(arena.whole, shown, candidates),
        section(arena.whole, first + 6 * room, room),
        Running(
            section(arena.whole, counts, 2),
            section(arena.whole, first, room),
            section(arena.whole, first + room, room),
            section(arena.whole, first + 2 * room, room),
            section(arena.whole, first + 3 * room, room),
            section(arena.whole, first + 4 * room, room),
            section(arena.whole, first + 5 * room, room),
        ),
        section(arena.real, index * SUMS, SUMS),
    )


@kernel()
def bare_jobs(jobs):
    """Return the jobs as bare columns; the caller must keep the arrays alive."""
    return Jobs(
        bare(jobs.submit),
        bare(jobs.run),
        bare(jobs.walltime),
        bare(jobs.processors),
        bare(jobs.long),
        bare(jobs.large),
    )


@kernel()
def bare_costs(costs):
    """Return the costs as bare columns; the caller must keep the arrays alive."""
    return Costs(bare(costs.weight), bare(costs.offset), bare(costs.floor), bare(costs.part))
