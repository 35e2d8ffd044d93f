"""Conservative backfilling in plain Python: slow, and plain enough to be believed.

The rules are those of `gridtune.batch.simulator.conservative`, of which this shares no code: there is no
profile here, only a list of claims on processors over intervals, and every question is answered by adding up
that list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

__all__ = ["ChangingOrder", "conservative_schedule_twin"]


class ChangingOrder(Protocol):
    """An order that changes while jobs wait, and depends on the jobs that start and end."""

    def key(self, job: int, now: int) -> float:
        """Return the job's score now."""
        ...

    def started(self, job: int, now: int) -> None:
        """Take note that a job starts."""
        ...

    def ended(self, job: int, now: int) -> None:
        """Take note that a job ends."""
        ...


#: (job, begin, end, processors): what a job holds over [begin, end).
Claim = tuple[int, int, int, int]


def _used(claims: Iterable[Claim], t: int) -> int:
    return sum(width for _, begin, end, width in claims if begin <= t < end)


def _fits(claims: Sequence[Claim], machine: int, begin: int, end: int, width: int) -> bool:
    # Use rises only where a claim begins.
    instants = [begin] + [b for _, b, _, _ in claims if begin < b < end]
    return all(_used(claims, t) + width <= machine for t in instants)


def _earliest(claims: Sequence[Claim], machine: int, now: int, length: int, width: int) -> int:
    # Whatever starts as early as it can starts now or where a claim ends.
    instants = sorted({now} | {end for _, _, end, _ in claims if end > now})
    return next(t for t in instants if _fits(claims, machine, t, t + length, width))


def conservative_schedule_twin(
    submit: Sequence[int],
    run: Sequence[int],
    walltime: Sequence[int],
    processors: Sequence[int],
    rank: Sequence[int],
    machine: int,
    compress: bool,
    journal: list[tuple[int, int, int]] | None = None,
    order: ChangingOrder | None = None,
    advance: Sequence[tuple[int, Claim]] = (),
) -> tuple[list[int], list[int], int]:
    """Return what `conservative_schedule` returns, as lists.

    Parameters
    ----------
    submit, run, walltime, processors, rank, machine, compress
        As there.
    journal
        Takes (time, job, reserved start) for each reservation made or moved, in the order of events.
    order
        Decides instead of `rank`, where given.
    advance
        Advance reservations: when each is made, and what it claims (for no job: -1).
    """
    jobs = range(len(submit))
    length = [max(walltime[job], 1) for job in jobs]
    start: dict[int, int] = {}
    promise: dict[int, int] = {}
    reserved: dict[int, int] = {}  # of the waiting jobs
    end: dict[int, int] = {}  # the requested end of each running job
    reservations: list[Claim] = []  # of the advance reservations that have been made
    coming = sorted(advance, key=lambda one: one[0])
    arrived: set[int] = set()
    replans = 0

    def claims(now: int) -> list[Claim]:
        running = [(job, now, end[job], processors[job]) for job in end]
        waiting = [(job, begin, begin + length[job], processors[job]) for job, begin in reserved.items()]
        return running + waiting + [claim for claim in reservations if claim[2] > now]

    def book(job: int, now: int) -> None:
        before = reserved.pop(job, None)
        begin = _earliest(claims(now), machine, now, length[job], processors[job])
        reserved[job] = begin
        promise.setdefault(job, begin)
        if journal is not None and begin != before:
            journal.append((now, job, begin))

    def agree(now: int) -> None:
        while coming and coming[0][0] == now:
            _, claim = coming.pop(0)
            if not _fits(claims(now), machine, *claim[1:]):
                raise ValueError("an advance reservation finds no room")
            reservations.append(claim)

    def in_queue_order(some: Iterable[int]) -> list[int]:
        if order is None:
            return sorted(some, key=lambda job: rank[job])
        return sorted(sorted(some), key=lambda job: order.key(job, now))

    while len(start) < len(jobs) or coming:
        instants = [submit[job] for job in jobs if job not in arrived]
        instants += list(reserved.values())
        instants += [min(end[job], start[job] + run[job]) for job in end]
        instants += [made for made, _ in coming]
        now = min(instants)

        early = False
        # Of jobs that end together the one submitted first is told of first.
        for job in sorted(job for job in end if start[job] + run[job] == now):
            early = early or end[job] > now
            del end[job]
            if order is not None:
                order.ended(job, now)
        late = [job for job in end if end[job] == now]
        for job in late:
            end[job] = start[job] + 2 * (now - start[job])
        new = [job for job in jobs if submit[job] == now and job not in arrived]
        arrived.update(new)

        claimed = claims(now)
        if late and any(_used(claimed, t) > machine for t in [now] + [begin for _, begin, _, _ in claimed]):
            replans += 1
            waiting = in_queue_order(reserved)
            reserved.clear()
            for job in waiting:
                book(job, now)
        elif early and compress:
            for job in in_queue_order(reserved):
                book(job, now)
        for job in in_queue_order(new):
            book(job, now)
        agree(now)

        for job in [job for job in reserved if reserved[job] == now]:
            start[job] = reserved.pop(job)
            end[job] = now + length[job]
            if order is not None:
                order.started(job, now)

    return [start[job] for job in jobs], [promise[job] for job in jobs], replans
