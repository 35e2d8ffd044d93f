"""Small clusters drawn at random: the compiled replay of Slurm against its twin in plain Python.

    python -m benchmarks.slurm_drawn [--clusters 10000] [--seed 0] [--workers 2]

Hypothesis draws clusters, jobs and phases as the tests do: all releases, kinds of preemption, limits, outages
and entries of `SchedulerParameters`. Each batch of 100 has a kind and a seed. The first batch in which
schedules differ ends the run: its smallest example is printed with the seed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import itertools
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import SlurmCluster
from gridtune.slurm.kernel.arrays import Phases
from gridtune.slurm.replay import replay
from gridtune.slurm.requests import Request, RequestCheck
from tests.slurm import test_counting, test_replay
from tests.slurm.reference import reference_replay

BATCH = 100
_PHASES = st.builds(Phases, *(st.integers(0, most) for most in (59, 29, 29, 299)))
#: Five nodes with every setting, and seventy with long queues, where nodes are counted.
KINDS: dict[str, tuple[Any, ...]] = {
    "settings": (test_replay.clusters(), test_replay.logs(), _PHASES),
    "crowds": (test_replay.clusters(), test_replay.crowds(), _PHASES),
    "heterogeneous": (test_replay.without_preemption(), test_replay.heterogeneous(), _PHASES),
    "counting": (test_counting.clusters(), test_counting.logs(), _PHASES),
}


def compare_batch(kind: str, number: int) -> tuple[Counter[str], str]:
    """Compare the clusters of a batch; return how many of each release, and the first difference."""
    releases: Counter[str] = Counter()

    @seed(number)
    @settings(
        max_examples=BATCH,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(*KINDS[kind])
    def check(cluster: SlurmCluster, requests: list[Request], phases: Phases) -> None:
        able = RequestCheck(cluster).can_run
        requests = [one for one in requests if able(one)]
        assume(requests)
        try:
            result = replay(cluster, requests, phases)
        except WorkloadError:
            return
        twin = reference_replay(cluster, requests, phases)
        own = zip(result.start.tolist(), result.end.tolist(), map(tuple, result.nodes), strict=True)
        assert list(own) == [twin.get(job, (-1, -1, ())) for job in range(len(requests))]
        releases[cluster.version] += 1

    test: Callable[[], None] = check
    try:
        test()
    except Exception as error:
        # An error that is no difference is one of the kernel's or the twin's: its place counts.
        text = traceback.format_exc() if not isinstance(error, AssertionError) else str(error)
        return releases, "\n".join([f"{kind}, seed {number}: {text}", *getattr(error, "__notes__", ())])
    return releases, ""


def main() -> int:
    """Compare batches until enough clusters are done, or one differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clusters", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the first batch's")
    parser.add_argument("--kind", choices=KINDS, help="one kind only")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    kinds = itertools.cycle([arguments.kind] if arguments.kind else KINDS)
    batches = [(next(kinds), arguments.seed + k) for k in range(-(-arguments.clusters // BATCH))]
    releases: Counter[str] = Counter()
    began = time.monotonic()
    with ProcessPoolExecutor(arguments.workers) as pool:
        futures = [pool.submit(compare_batch, *batch) for batch in batches]
        for done, future in enumerate(as_completed(futures), start=1):
            found, difference = future.result()
            releases += found
            if difference:
                print(difference)
                pool.shutdown(cancel_futures=True)
                return 1
            if done % 5 == 0 or done == len(batches):
                print(f"{releases.total():,} clusters, {time.monotonic() - began:.0f} s", flush=True)
    print("no difference; clusters by release:", ", ".join(f"{k} {n:,}" for k, n in sorted(releases.items())))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
