"""How fast the shutdown simulator steps: vectorised, single, replayed, and in plain Python.

    python -m benchmarks.shutdown_speed [--rounds N] [DAYS]

DAYS is a folder or archive of days; by default the bundled days like those of Taurus. Times are CPU times of
the thread, so that other load does not count. The simulator of the paper's authors makes about 2,800 steps
per CPU second on a two-core machine.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.measure import arguments, print_machine
from benchmarks.stepping import Contestant, race, repeated, single, timed, vectorised
from gridtune.environments import ShutdownEnv, ShutdownVectorEnv
from gridtune.systems.shutdown.environment import read_training_days
from gridtune.systems.shutdown.simulator.clusters import ClusterBatch
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.replay import replay
from tests.systems.shutdown.simulator.reference import ReferenceCluster, ReferenceJob

AUTHORS = 2800
STEPS, RESERVATIONS = 1_000_000, 15


def stepped(days: Days, count: int, **options: object) -> Contestant:
    return vectorised(ShutdownVectorEnv(count, days, **options), RESERVATIONS, max(1500, STEPS // count))


def bare(days: Days, count: int) -> Contestant:
    batch = ClusterBatch(days, count=count)
    batch.reset(np.arange(count) % len(days))
    return repeated(batch.step, count, RESERVATIONS, STEPS // count)


def replayed(days: Days, **rule: object) -> Contestant:
    return int(days.minutes.sum()), lambda: timed(lambda: replay(days, **rule))


def plain_python(days: Days) -> Contestant:
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
    many = partial(stepped, days)
    contestants = {
        "clusters, 256": bare(days, 256),
        "VectorEnv, 16": many(16),
        "VectorEnv, 64": many(64),
        "VectorEnv, 256": many(256),
        "VectorEnv, 1024": many(1024),
        "VectorEnv, 256, nothing copied": many(256, copy=False),
        "Env": single(ShutdownEnv(days), RESERVATIONS),
        "replay, timeout of 1": replayed(days, rule="timeout", timeout=1),
        "replay, oracle": replayed(days, rule="oracle"),
        "plain-Python twin": plain_python(days),
    }
    race("Steps per CPU second", contestants, options.rounds, ("the authors'", AUTHORS))


if __name__ == "__main__":
    main()
