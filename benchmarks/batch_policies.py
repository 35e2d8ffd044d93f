"""Trained policies of batch beside queue orders, on the same windows of a log.

    python -m benchmarks.batch_policies LOG [--part second-half] [--policy DIR …] [--baseline saf]

Every window begins on an empty machine; all orders are with EASY backfilling unless it says otherwise. The
differences are paired by window, with 95 % intervals over windows; below 0 is better than the baseline.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import gridtune as gt
from benchmarks.measure import arguments, print_table
from gridtune.batch.environment import BatchVectorEnv, read_jobs
from gridtune.batch.simulator.machines import ROW, STATE
from gridtune.statistics import paired_difference
from gridtune.systems.batch.learners.candidate_network import ENVIRONMENT, play_windows
from gridtune.tracking.checkpoints import find_policy
from gridtune.training.networks import load_policy, read_checkpoint

METRICS = ("bounded_slowdown_mean", "area_weighted_response")
ORDERS = ("fcfs", "sjf", "saf", "f1", "f2", "f3", "f4", "wfp3", "unicef")
RULES = {
    **{order: {"order": order} for order in ORDERS},
    "fcfs, filled by sjf": {"fill_order": "sjf"},
    "fcfs, filled by saf": {"fill_order": "saf"},
    "fcfs, exact walltimes": {"walltime": "exact"},
    "fcfs, no backfilling": {"backfill": "none"},
}
#: Rules without reservations, by the feature that is least in the job that starts.
FIRST_FIT = {"first fit": 0, "first fit, shortest": 2, "first fit, smallest": 3}


def by_rule(log, first, jobs, rules):
    """Return the schedules of all windows under a rule."""
    return [gt.simulate(log.take(slice(row, row + jobs)), **rules) for row in first.tolist()]


def by_first_fit(log, first, jobs, column):
    """Return the schedules of all windows if whatever fits starts, without a reservation for the oldest job.

    Of the jobs that fit, the first in the queue starts (column 0), or the one with the least feature.
    """
    machines = BatchVectorEnv(len(first), log, jobs=jobs, mode="backfill", protect=False)
    machines.begin(np.ones(len(first), np.bool_), first)
    while not machines.over.all():
        rows = machines.observed[:, STATE:].reshape(len(first), -1, ROW)[:, :-1]
        machines.decide(np.where(rows[..., 0] > 0, rows[..., column], np.inf).argmin(1), ~machines.over)
    return [machines.schedule(index) for index in range(len(first))]


def by_policy(log, first, jobs, place):
    """Return the schedules of all windows under a trained policy."""
    file = find_policy(place)
    options = read_checkpoint(file)["notes"][ENVIRONMENT]
    machines = BatchVectorEnv(len(first), log, jobs=jobs, **options)
    play_windows(load_policy(file), machines, first)
    return [machines.schedule(index) for index in range(len(first))]


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("log", help="log with the machine's size")
    parser.add_argument("--part", default="whole", help="part of the log: first-half, second-half or i/n")
    parser.add_argument("--windows", type=int, default=10, help="windows, one after the other (10)")
    parser.add_argument("--jobs", type=int, default=1400, help="jobs of a window, at most (1400)")
    parser.add_argument("--policy", nargs="*", default=[], help="folders of trainings")
    parser.add_argument("--baseline", default="saf", help="the rule that is compared with (saf)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    log = read_jobs(options.log, options.part)
    jobs = min(options.jobs, len(log) // options.windows)
    first = np.arange(options.windows) * (len(log) // options.windows)
    schedules = {name: by_rule(log, first, jobs, rules) for name, rules in RULES.items()}
    for name, column in FIRST_FIT.items():
        schedules[name] = by_first_fit(log, first, jobs, column)
    for place in options.policy:
        schedules[f"trained: {Path(place).name}"] = by_policy(log, first, jobs, place)
    values = {
        name: np.array([[gt.evaluate(one, only=[metric])[metric] for one in plans] for metric in METRICS])
        for name, plans in schedules.items()
    }
    base, rows = values[options.baseline], []
    for name in sorted(values, key=lambda name: values[name][0].mean()):
        row: list[object] = [name]
        for mine, other in zip(values[name], base, strict=True):
            row.append(f"{mine.mean():,.1f}")
            if name == options.baseline:
                row.append("baseline")
                continue
            found = paired_difference(mine, other, rng=np.random.default_rng(0))
            row.append(
                f"{100 * float(found.relative):+.1f} % "
                f"({100 * float(found.relative_low):+.1f} … {100 * float(found.relative_high):+.1f})"
            )
        rows.append(row)
    title = f"{log.name}: {options.windows} windows of {jobs:,} jobs, {log.machine_processors} processors"
    print_table(title, ["", METRICS[0], "to baseline", f"{METRICS[1]}, s", "to baseline"], rows)


if __name__ == "__main__":
    main()
