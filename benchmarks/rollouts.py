"""What a decision by rollouts takes, in CPU time, beside a replay under an order.

    python -m benchmarks.rollouts [LOG]

At a load of 1.5 the queue of the KTH log grows beyond the window, so nearly every decision is about 64 jobs.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import gridtune as gt
from gridtune.batch.estimates import estimate_walltimes
from gridtune.batch.policies.rollout import Rollout, get_order
from gridtune.batch.simulator.events import BACKFILL, EXTRA
from gridtune.batch.simulator.rollout import rollout_schedule
from gridtune.batch.simulator.scores import facts_of
from gridtune.workload.catalogue import resolve_trace

POLICIES = ("rollout", "rollout(moves=60)", "rollout(objective=balanced, moves=60)")
LOADS = (1.0, 1.5)


def measure(workload: gt.Workload, policy: Rollout) -> tuple[float, int]:
    """Return the CPU seconds of a replay under rollouts, and its decisions."""
    walltime, _ = estimate_walltimes(workload, "log", 0.0, None)
    submit = workload.submit_time - workload.submit_time[0]
    run = np.minimum(workload.run_time, walltime)
    facts = facts_of(workload, np.zeros(len(workload)))
    jobs = (submit, run, walltime, np.ascontiguousarray(workload.processors), facts)
    machine = int(workload.machine_processors or workload.processors.max())
    began = time.process_time()
    _, decisions = rollout_schedule(*jobs, policy, machine, BACKFILL | EXTRA, 0.0, guard=172_800)
    return time.process_time() - began, decisions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", nargs="?", default="kth-sp2", help="a file or a catalogued trace (kth-sp2)")
    log, _ = gt.clean(gt.read_workload(resolve_trace(parser.parse_args().log)))
    measure(log.first(100), get_order(POLICIES[0]))  # compiles
    for load in LOADS:
        workload = log.scale_load(load)
        for label in POLICIES:
            seconds, decisions = min(measure(workload, get_order(label)) for _ in range(3))
            each = 1e6 * seconds / decisions
            print(f"load {load:g}, {label}: {seconds:.2f} s, {decisions:,} decisions, {each:.1f} µs each")


if __name__ == "__main__":
    main()
