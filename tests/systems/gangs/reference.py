"""Gangs round by round once more, as plain as they can be written, to hold the compiled ones against."""

from __future__ import annotations

from typing import Any

PREEMPTIVE = ("las", "srtf", "srsf")


def simulate(
    submit: list[int], run_time: list[int], gpus: list[int], policy: str, pool: Any, queues: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Return start, end, held and starts of each job, and its spans as (node, GPUs, from, to)."""
    jobs = [
        {"id": i, "submit": s, "run": r, "gpus": g, "left": r, "debt": 0, "held": 0, "starts": 0, "start": -1}
        | {"end": None, "on": None, "since": None, "spans": []}
        for i, (s, r, g) in enumerate(zip(submit, run_time, gpus, strict=True))
    ]
    now = 0
    while any(job["end"] is None for job in jobs):
        active = [job for job in jobs if job["submit"] <= now and job["end"] is None]
        active.sort(key=lambda job: (_rank(job, policy, queues), job["id"]))
        _decide(active, now, policy, pool)
        for job in active:
            if job["on"]:
                _work(job, now, pool.round)
        now += pool.round
    return jobs


def _rank(job: Any, policy: str, queues: tuple[int, ...]) -> tuple[int, int]:
    first = 0 if policy in PREEMPTIVE or not job["on"] else -1
    attained = job["held"] * job["gpus"]
    values = {
        "fifo": 0,
        "backfill": 0,
        "sjf": job["run"],
        "srtf": job["left"],
        "srsf": job["left"] * job["gpus"],
        "las": sum(attained >= limit for limit in queues) if queues else attained,
    }
    return first, values[policy] if first == 0 else 0


def _decide(active: list[Any], now: int, policy: str, pool: Any) -> None:
    size, blocked = pool.gpus_per_node, False
    taken = [0] * pool.nodes  # by jobs that have had their turn
    for turn, job in enumerate(active):
        later = [0] * pool.nodes
        for other in active[turn + 1 :]:
            for node, count in other["on"] or ():
                later[node] += count
        if job["on"] and all(taken[node] + count <= size for node, count in job["on"]):
            on = job["on"]
        else:
            on = None if blocked else _find(job["gpus"], taken, later, size)
            if job["on"]:
                _stop(job, now)
            if on:
                job["debt"] = pool.restart if job["starts"] else 0
                job["start"] = job["start"] if job["starts"] else now
                job["starts"] += 1
                job["on"], job["since"] = on, now
        if on is None:
            blocked = policy == "fifo"
        for node, count in on or ():
            taken[node] += count


def _find(gpus: int, taken: list[int], later: list[int], size: int) -> list[tuple[int, int]] | None:
    taken, on = list(taken), []
    while gpus:
        part = min(gpus, size)
        free = {n: size - taken[n] - later[n] for n in range(len(taken)) if taken[n] + part <= size}
        if not free:
            return None
        enough = [node for node in free if free[node] >= part]
        if enough:
            node = min(enough, key=lambda node: (free[node], node))
        else:
            node = max(free, key=lambda node: (free[node], -node))
        on.append((node, part))
        taken[node] += part
        gpus -= part
    return on


def _work(job: Any, now: int, seconds: int) -> None:
    for second in range(seconds + 1):
        if job["debt"] == job["left"] == 0:
            job["end"] = now + second
            _stop(job, now + second)
            return
        if second < seconds:
            job["debt" if job["debt"] else "left"] -= 1
            job["held"] += 1


def _stop(job: Any, now: int) -> None:
    job["spans"] += [(node, count, job["since"], now) for node, count in job["on"]]
    job["on"] = None
