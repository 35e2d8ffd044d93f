"""How fast the batch environment steps: vectorised, single, and without copies.

    python -m benchmarks.batch_environment_speed [--rounds N] [LOG]

LOG is a log with the machine's size; by default the bundled quickstart. Each choice is one of the first eight
candidates, at random. Times are CPU times of the thread, so that other load does not count. On two-core
machines RLScheduler's environment makes 3,300 to 4,900 steps per CPU second, SchedInspector's up to 42,000.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.measure import arguments, interleave, print_machine, print_table, rate
from gridtune.environments import BatchEnv, BatchVectorEnv

FASTEST_OTHER = 42_000
STEPS = 500_000


def timed(run: Callable[[], object]) -> float:
    began = time.thread_time()
    run()
    return time.thread_time() - began


def vectorised(log: str, count: int, **options: object) -> tuple[int, Callable[[], float]]:
    env = BatchVectorEnv(count, log, **options)
    env.reset(seed=0)
    steps = max(500, STEPS // count)
    actions = np.random.default_rng(1).integers(0, 8, (64, count))

    def run() -> None:
        for step in range(steps):
            env.step(actions[step % 64])

    return steps * count, lambda: timed(run)


def single(log: str) -> tuple[int, Callable[[], float]]:
    env = BatchEnv(log)
    env.reset(seed=0)
    actions = np.random.default_rng(1).integers(0, 8, 20_000).tolist()

    def run() -> None:
        for action in actions:
            if env.step(action)[2]:
                env.reset()

    return len(actions), lambda: timed(run)


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("log", nargs="?", default="quickstart", help="log (the bundled quickstart)")
    options = parser.parse_args()
    log = options.log
    print_machine()
    contestants = {
        "VectorEnv, 256": vectorised(log, 256),
        "VectorEnv, 256, nothing copied": vectorised(log, 256, copy=False),
        "VectorEnv, 64, nothing copied": vectorised(log, 64, copy=False),
        "VectorEnv, 1024, nothing copied": vectorised(log, 1024, copy=False),
        "VectorEnv, 256, 32 candidates": vectorised(log, 256, candidates=32),
        "VectorEnv, 256, 32 candidates, nothing copied": vectorised(log, 256, candidates=32, copy=False),
        "VectorEnv, 256, no backfilling, nothing copied": vectorised(log, 256, backfill="none", copy=False),
        "VectorEnv, 256, mode backfill, nothing copied": vectorised(log, 256, mode="backfill", copy=False),
        "VectorEnv, 256, relative reward, nothing copied": vectorised(log, 256, relative=True, copy=False),
        "Env": single(log),
    }
    runs = {name: run for name, (_, run) in contestants.items()}
    for run in runs.values():
        run()
    seconds = interleave(runs, options.rounds)
    rows = []
    for name, (steps, _) in contestants.items():
        median = float(np.median(seconds[name]))
        rows.append([name, rate(steps, seconds[name]), f"{steps / median / FASTEST_OTHER:,.1f}"])
    print_table(f"Decisions per CPU second, {log}", ["", "steps/s", "× the fastest other's 42,000"], rows)


if __name__ == "__main__":
    main()
