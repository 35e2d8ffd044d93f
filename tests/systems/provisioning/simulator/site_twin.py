"""The specification of `simulator.reservations` in plain Python: lists of reservations and processors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

__all__ = ["SiteTwin"]

#: (begin, end, processors), from begin until just before end.
Reservation = tuple[int, int, int]


class SiteTwin:
    """A site that keeps every reservation.

    Parameters
    ----------
    machine
        The number of its processors.
    """

    def __init__(self, machine: int) -> None:
        self.machine = machine
        self.reservations: list[Reservation] = []

    def free(self, t: int) -> int:
        """Return how many processors are free at second t."""
        return self.machine - sum(width for begin, end, width in self.reservations if begin <= t < end)

    def has_room(self, begin: int, end: int, width: int) -> bool:
        """Return whether `width` processors are free throughout [begin, end)."""
        instants = [begin, *(b for b, _, _ in self.reservations if begin < b < end)]
        return all(self.free(t) >= width for t in instants)

    def submit(self, now: int, length: int, width: int) -> int:
        """Reserve for a job as early as possible; return its start."""
        length = max(length, 1)
        instants = sorted({now, *(end for _, end, _ in self.reservations if end > now)})
        begin = next(t for t in instants if self.has_room(t, t + length, width))
        self.reservations.append((begin, begin + length, width))
        return begin

    def hold(self, now: int, begin: int, end: int, width: int) -> bool:
        """Make an advance reservation if it fits."""
        if begin < now or not self.has_room(begin, end, width):
            return False
        self.reservations.append((begin, end, width))
        return True

    def last_reserved(self, now: int) -> int:
        """Return when the last reservation ends."""
        return max([now, *(end for _, end, _ in self.reservations)])

    def windows(self, now: int, horizon: int) -> list[Reservation]:
        """Return the free windows by begin and end, with the number of their processors.

        Each processor is tracked. Of the free ones, the one that became free last is taken first.
        """
        free_since: list[int] = []  # of each free processor, in the order in which they became free
        windows: Counter[tuple[int, int]] = Counter()
        instants = {t for begin, end, _ in self.reservations for t in (begin, end)}
        for t in sorted({now, *(t for t in instants if now < t < horizon)}):
            wanted = self.free(t)
            while len(free_since) > wanted:
                windows[free_since.pop(), t] += 1
            while len(free_since) < wanted:
                free_since.append(t)
        windows.update((since, horizon) for since in free_since)
        return [(begin, end, windows[begin, end]) for begin, end in sorted(windows)]

    def run_best_effort(
        self,
        now: int,
        jobs: Sequence[tuple[int, int, int]],
        lengths: Sequence[int],
        widths: Sequence[int],
        parents: Sequence[set[int]],
    ) -> tuple[list[int], list[int]]:
        """Return when each task of a workflow is submitted and starts.

        Parameters
        ----------
        now
            When the workflow is submitted.
        jobs
            The log's later jobs: (submit, length, processors).
        lengths, widths, parents
            Of each task.
        """
        tasks = range(len(lengths))
        submit: dict[int, int] = {}
        start: dict[int, int] = {}
        ended: set[int] = set()
        coming = list(jobs)
        while len(ended) < len(lengths):
            while coming and coming[0][0] <= now:
                self.submit(*coming.pop(0))
            for task in [task for task in tasks if task not in submit and parents[task] <= ended]:
                submit[task], start[task] = now, self.submit(now, lengths[task], widths[task])
            ends = {task: start[task] + lengths[task] for task in submit if task not in ended}
            following = min(ends.values())
            if coming and coming[0][0] < following:
                now = coming[0][0]
                continue
            now = following
            ended.update(task for task, end in ends.items() if end == now)
        return [submit[task] for task in tasks], [start[task] for task in tasks]
