"""How fast environments step, for the benchmarks of single systems."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.measure import interleave, print_table, rate

#: Steps of a run, and the seconds that it took.
Contestant = tuple[int, Callable[[], float]]


def timed(run: Callable[[], object]) -> float:
    """Return the CPU time of the thread, so that other load does not count."""
    began = time.thread_time()
    run()
    return time.thread_time() - began


def repeated(step: Callable[[Any], object], count: int, actions: int, steps: int) -> Contestant:
    """Let `count` simulators take random ones of so many actions."""
    drawn = np.random.default_rng(1).integers(0, actions, (64, count))

    def run() -> None:
        for number in range(steps):
            step(drawn[number % 64])

    return steps * count, lambda: timed(run)


def vectorised(env: Any, actions: int, steps: int) -> Contestant:
    """Step a vector environment."""
    env.reset(seed=0)
    return repeated(env.step, env.num_envs, actions, steps)


def single(env: Any, actions: int) -> Contestant:
    """Step a single environment."""
    env.reset(seed=0)
    drawn = np.random.default_rng(1).integers(0, actions, 20_000).tolist()

    def run() -> None:
        for action in drawn:
            if env.step(action)[2]:
                env.reset()

    return len(drawn), lambda: timed(run)


def race(title: str, contestants: Mapping[str, Contestant], rounds: int, other: tuple[str, float]) -> None:
    """Print steps per second beside another simulator's: its name and its steps per second."""
    runs = {name: run for name, (_, run) in contestants.items()}
    for run in runs.values():
        run()
    seconds, rows = interleave(runs, rounds), []
    for name, (steps, _) in contestants.items():
        times = steps / statistics.median(seconds[name]) / other[1]
        rows.append([name, rate(steps, seconds[name]), f"{times:,.1f}"])
    print_table(title, ["", "steps/s", f"× {other[0]} {other[1]:,}"], rows)
