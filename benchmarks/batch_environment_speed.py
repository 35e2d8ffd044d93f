"""How fast the batch environment steps: vectorised, single, and without copies.

    python -m benchmarks.batch_environment_speed [--rounds N] [LOG]

LOG is a log with the machine's size; by default the bundled quickstart. Each choice is one of the first eight
candidates, at random. Times are CPU times of the thread, so that other load does not count. On two-core
machines RLScheduler's environment makes 3,300 to 4,900 steps per CPU second, SchedInspector's up to 42,000.
"""

from __future__ import annotations

from functools import partial

from benchmarks.measure import arguments, print_machine
from benchmarks.stepping import Contestant, race, single, vectorised
from gridtune.environments import BatchEnv, BatchVectorEnv

FASTEST_OTHER = 42_000
STEPS, CHOICES = 500_000, 8


def stepped(log: str, count: int, **options: object) -> Contestant:
    return vectorised(BatchVectorEnv(count, log, **options), CHOICES, max(500, STEPS // count))


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("log", nargs="?", default="quickstart", help="log (the bundled quickstart)")
    options = parser.parse_args()
    print_machine()
    many = partial(stepped, options.log)
    contestants = {
        "VectorEnv, 256": many(256),
        "VectorEnv, 256, nothing copied": many(256, copy=False),
        "VectorEnv, 64, nothing copied": many(64, copy=False),
        "VectorEnv, 1024, nothing copied": many(1024, copy=False),
        "VectorEnv, 256, 32 candidates": many(256, candidates=32),
        "VectorEnv, 256, 32 candidates, nothing copied": many(256, candidates=32, copy=False),
        "VectorEnv, 256, no backfilling, nothing copied": many(256, backfill="none", copy=False),
        "VectorEnv, 256, mode backfill, nothing copied": many(256, mode="backfill", copy=False),
        "VectorEnv, 256, relative reward, nothing copied": many(256, relative=True, copy=False),
        "Env": single(BatchEnv(options.log), CHOICES),
    }
    title = f"Decisions per CPU second, {options.log}"
    race(title, contestants, options.rounds, ("the fastest other's", FASTEST_OTHER))


if __name__ == "__main__":
    main()
