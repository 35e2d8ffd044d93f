"""EASY as a plain numba loop: the comparator in C++ beside this file, line for line in Python.

It has no index over the waiting jobs, and no other order or backfilling: it is what compiled Python reaches
without further work. The rule is stated at the top of `easy.cpp`.
"""

from __future__ import annotations

import heapq

import numba
import numpy as np


@numba.njit
def simulate(submit, run, requested, width, processors, backfilling):
    """Return the start times, and how many jobs were started."""
    n = len(submit)
    starts = np.full(n, -1, np.int64)
    waiting = np.empty(n + 1, np.int64)  # jobs [head, tail) wait, in order
    head, tail = 0, 0
    ends = np.empty(processors + 1, np.int64)  # running jobs by requested end
    used = np.empty(processors + 1, np.int64)
    running_jobs = np.empty(processors + 1, np.int64)
    running = 0
    completions = [(np.int64(0), np.int64(0)) for _ in range(0)]
    free, upcoming, started = processors, 0, 0
    while upcoming < n or len(completions) > 0:
        if upcoming == n:
            now = completions[0][0]
        elif len(completions) == 0:
            now = submit[upcoming]
        else:
            now = min(submit[upcoming], completions[0][0])
        while len(completions) > 0 and completions[0][0] == now:
            job = heapq.heappop(completions)[1]
            at = np.searchsorted(ends[:running], starts[job] + requested[job])
            while running_jobs[at] != job:
                at += 1
            running -= 1
            for i in range(at, running):
                ends[i], used[i], running_jobs[i] = ends[i + 1], used[i + 1], running_jobs[i + 1]
            free += width[job]
        while upcoming < n and submit[upcoming] == now:
            waiting[tail] = upcoming
            tail += 1
            upcoming += 1

        position, shadow, extra, blocked = head, now, 0, False
        left = head
        while position < tail and free > 0:
            job = waiting[position]
            ends_at = now + requested[job]
            in_time = ends_at <= shadow
            if width[job] <= free and (not blocked or in_time or width[job] <= extra):
                if blocked and not in_time:
                    extra -= width[job]
                starts[job] = now
                started += 1
                free -= width[job]
                heapq.heappush(completions, (now + min(run[job], requested[job]), job))
                at = running
                while at > 0 and ends[at - 1] > ends_at:
                    ends[at], used[at], running_jobs[at] = ends[at - 1], used[at - 1], running_jobs[at - 1]
                    at -= 1
                ends[at], used[at], running_jobs[at] = ends_at, width[job], job
                running += 1
            else:
                waiting[left] = job
                left += 1
                if not blocked:
                    if not backfilling or position + 1 == tail:
                        position += 1
                        break
                    blocked, available = True, free
                    for i in range(running):
                        if available >= width[job] and ends[i] > shadow:
                            break
                        available += used[i]
                        shadow = ends[i]
                    extra = available - width[job]
            position += 1
        # Close the gap that started jobs left: the shorter side moves.
        gap = position - left
        if gap > 0:
            for i in range(left - 1, head - 1, -1):
                waiting[i + gap] = waiting[i]
            head += gap
    return starts, started
