"""How fast the shutdown simulator steps: vectorised, single, replayed, and in plain Python.

    python -m benchmarks.shutdown_speed [--rounds N] [DAYS]

DAYS is a folder or archive of days; by default the bundled days like those of Taurus. Times are CPU times of
the thread, so that other load does not count. The simulator of the paper's authors makes about 2,800 steps
per CPU second on a two-core machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.measure import arguments, interleave, print_machine, print_table, rate
from gridtune.environments import ShutdownEnv, ShutdownVectorEnv
from gridtune.systems.shutdown.environment import read_training_days
from gridtune.systems.shutdown.simulator.clusters import ClusterBatch
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.reference import ReferenceCluster, ReferenceJob
from gridtune.systems.shutdown.simulator.replay import replay

AUTHORS = 2800
STEPS = 1_000_000


def timed(run: Callable[[], object]) -> float:
    began = time.thread_time()
    run()
    return time.thread_time() - began


def vectorised(days: Days, count: int, **options: object) -> tuple[int, Callable[[], float]]:
    env = ShutdownVectorEnv(count, days, **options)
    env.reset(seed=0)
    steps = max(1500, STEPS // count)
    actions = np.random.default_rng(1).integers(0, 15, (64, count))

    def run() -> None:
        for step in range(steps):
            env.step(actions[step % 64])

    return steps * count, lambda: timed(run)


def bare(days: Days, count: int) -> tuple[int, Callable[[], float]]:
    batch = ClusterBatch(days, count=count)
    batch.reset(np.arange(count) % len(days))
    actions = np.random.default_rng(1).integers(0, 15, (64, count))
    steps = STEPS // count

    def run() -> None:
        for step in range(steps):
            batch.step(actions[step % 64])

    return steps * count, lambda: timed(run)


def single(days: Days) -> tuple[int, Callable[[], float]]:
    env = ShutdownEnv(days)
    env.reset(seed=0)
    actions = np.random.default_rng(1).integers(0, 15, 20_000).tolist()

    def run() -> None:
        for action in actions:
            if env.step(action)[2]:
                env.reset()

    return len(actions), lambda: timed(run)


def replayed(days: Days, **rule: object) -> tuple[int, Callable[[], float]]:
    return int(days.minutes.sum()), lambda: timed(lambda: replay(days, **rule))


def plain_python(days: Days) -> tuple[int, Callable[[], float]]:
    part = slice(*days.first[:2])
    columns = (days.submit, days.cores, days.walltime, days.run, days.user)
    watts = {"idle": 95, "computing": 190, "off": 9, "switching_off": 101, "switching_on": 125}
    actions = np.random.default_rng(1).integers(0, 15, 1440).tolist()

    def run() -> None:
        jobs = [
            ReferenceJob(*job) for job in zip(*(column[part].tolist() for column in columns), strict=True)
        ]
        cluster = ReferenceCluster(jobs, nodes=14, cores=12, watts=watts, minutes={"off": 3, "on": 1})
        for action in actions:
            cluster.step(action)
            cluster.observe()

    return 1440, lambda: timed(run)


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument(
        "days", nargs="?", default="taurus_days", help="folder or archive of days (the bundled taurus_days)"
    )
    options = parser.parse_args()
    days = read_training_days(options.days, "all")
    print_machine()
    print(f"{days}, random actions unless a rule is named.")
    contestants = {
        "clusters, 256": bare(days, 256),
        "VectorEnv, 16": vectorised(days, 16),
        "VectorEnv, 64": vectorised(days, 64),
        "VectorEnv, 256": vectorised(days, 256),
        "VectorEnv, 1024": vectorised(days, 1024),
        "VectorEnv, 256, nothing copied": vectorised(days, 256, copy=False),
        "VectorEnv, 256, 20 frames": vectorised(days, 256, frames=20),
        "VectorEnv, 256, 20 frames, nothing copied": vectorised(days, 256, frames=20, copy=False),
        "Env": single(days),
        "replay, timeout of 1": replayed(days, rule="timeout", timeout=1),
        "replay, oracle": replayed(days, rule="oracle"),
        "plain-Python twin": plain_python(days),
    }
    runs = {name: run for name, (_, run) in contestants.items()}
    for run in runs.values():
        run()
    seconds = interleave(runs, options.rounds)
    rows = []
    for name, (steps, _) in contestants.items():
        median = float(np.median(seconds[name]))
        rows.append([name, rate(steps, seconds[name]), f"{steps / median / AUTHORS:,.1f}"])
    print_table("Steps per CPU second", ["", "steps/s", "× the authors' 2,800"], rows)


if __name__ == "__main__":
    main()
