"""CPU time of replays under rollouts.

    python -m benchmarks.rollouts [LOG]

At a load of 1.5 the queue of the KTH log grows beyond the window, so nearly every decision is about 64 jobs.
"""

from __future__ import annotations

import argparse
import time

import gridtune as gt
from gridtune.workload.catalogue import resolve_trace

POLICIES = ("rollout", "rollout(moves=60)", "rollout(objective=balanced, moves=60)")
LOADS = (1.0, 1.5)


def measure(workload: gt.Workload, policy: str) -> float:
    """Return the CPU seconds of a replay under rollouts."""
    began = time.process_time()
    gt.simulate(workload, order=policy, guard=172_800)
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", nargs="?", default="kth-sp2", help="a file or a catalogued trace (kth-sp2)")
    log, _ = gt.clean(gt.read_workload(resolve_trace(parser.parse_args().log)))
    measure(log.first(100), POLICIES[0])  # compiles
    for load in LOADS:
        workload = log.scale_load(load)
        for label in POLICIES:
            seconds = min(measure(workload, label) for _ in range(3))
            print(f"load {load:g}, {label}: {seconds:.2f} s, {1e6 * seconds / len(workload):.1f} µs a job")


if __name__ == "__main__":
    main()
