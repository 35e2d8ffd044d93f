"""How long a site takes to replay a log, go to an instant, read its free slots, and run a workflow.

    python -m benchmarks.provisioning_site [--rounds 50]

Needs the reconstructed CTC log, in the folder that GRIDTUNE_TRACE_DIR names. Times are the thread's own CPU
time, so that a busy machine does not matter.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from benchmarks.logs import real
from benchmarks.measure import arguments, print_machine, print_table
from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.simulator.site import ReservationSite, SiteState
from gridtune.workload.workflows import cybershake_workflow, generate_workflow

NODES = 430


def timed(run, argument=None):
    began = time.thread_time()
    result = run() if argument is None else run(argument)
    return time.thread_time() - began, result


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.set_defaults(rounds=50)
    rounds = parser.parse_args().rounds
    print_machine()
    log = real("CTC (reconstructed)")
    if log is None:
        raise SystemExit("the CTC log is not here: set GRIDTUNE_TRACE_DIR")
    workload, workflows = log[0], (generate_workflow(), cybershake_workflow())
    ReservationSite(workload.first(100), NODES).at(0).best_effort(workflows[0])
    sites = [timed(lambda: ReservationSite(workload, NODES)) for _ in range(5)]
    site = sites[0][1]
    rng, seconds, counts = np.random.default_rng(0), {}, []
    for now in rng.uniform(0.1 * site.span, 0.8 * site.span, rounds).astype(int).tolist():
        took, state = timed(site.at, now)
        seconds.setdefault("go to an instant", []).append(took)
        took, slots = timed(SiteState.slots, state)
        seconds.setdefault("read its free slots", []).append(took)
        counts.append(len(slots))
        for workflow in workflows:
            name = f"{len(workflow):,} tasks"
            took, _ = timed(site.at(now).best_effort, workflow)
            seconds.setdefault(f"run {name} by the queue", []).append(took)
            planned = PlanProblem(workflow, slots, now=now).plan()
            took, _ = timed(site.at(now).provision, planned)
            seconds.setdefault(f"reserve a plan of {name}", []).append(took)
    seconds = {f"replay {len(site):,} jobs": [took for took, _ in sites], **seconds}
    rows = [
        (name, f"{1e3 * statistics.median(times):.3f}", f"{1e3 * max(times):.3f}", len(times))
        for name, times in seconds.items()
    ]
    print_table(
        f"A site of {NODES} processors, {min(counts)} to {max(counts)} slots on offer",
        ("step", "median, ms", "maximum, ms", "measured"),
        rows,
    )


if __name__ == "__main__":
    main()
