"""How long a replay takes: a week of a real cluster, and a larger cluster that is made up.

    python -m benchmarks.slurm_speed [FOLDER] [--share 0.44] [--release 24.11.5] [--draws 8]

The folder is that of the submissions that UB CCR published for its Slurm simulator: slurm.conf,
topology.conf, sacctmgr.script, users.sim and workload_week.events.xz. Without it the cluster is made up:
1,000 nodes and 10,000 jobs a day for three days, which run for up to that share of their limits. Some 200
wait. With draws so many replays of the first day are timed on one core and on all of them.
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.measure import print_machine
from gridtune.slurm.cluster import Node, Partition, Priorities, SlurmCluster
from gridtune.slurm.comparison import replayed_waits
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.replay import Phases, replay
from gridtune.slurm.requests import Request

_FACTOR = {"": 1, "M": 1, "G": 1024, "K": 1 / 1024, "T": 1024**2}


def seconds(text: str) -> int:
    """Return the seconds of `days-hours:minutes:seconds`."""
    days, _, rest = text.rpartition("-")
    hours, minutes, last = (int(part) for part in rest.split(":"))
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + last


def read_submissions(folder: Path, cluster: SlurmCluster) -> list[Request]:
    """Read the submissions; a user's account is that of `sacctmgr.script`."""
    accounts = {user: account for account, user in cluster.accounts.users}
    with lzma.open(folder / "workload_week.events.xz", "rt") as file:
        lines = file.readlines()
    requests = []
    for number, line in enumerate(lines, start=1):
        options = dict(re.findall(r"(?:^|\s)--?([\w-]+)[ =]+([^\s-]\S*)", line))
        memory = re.fullmatch(r"(\d+)(\w?)", options.get("mem", "0"))
        gres = options.get("gres", "gpu:0").split(":")
        requests.append(
            Request(
                number,
                int(float(options["dt"])),
                int(float(options["sim-walltime"])),
                seconds(options["t"]),
                options["uid"],
                accounts.get(options["uid"], ""),
                tuple(options["p"].split(",")),
                options["q"],
                int(options["n"]),
                nodes=int(options["N"]),
                most_nodes=int(options["N"]),
                memory=int(int(memory[1]) * _FACTOR[memory[2]]) if memory else 0,
                gpus=int(gres[-1]),
                features=tuple(filter(None, options.get("constraint", "").split("&"))),
                exclusive="--exclusive" in line,
            )
        )
    return requests


def made_up(most_share: float, days: int = 3, each_day: int = 10_000) -> tuple[SlurmCluster, list[Request]]:
    """Return a cluster of 1,000 nodes in leaves of 50, and jobs of 200 users."""
    nodes = tuple(Node(f"n{k:04}", 32, 128_000, {}, frozenset(), 1) for k in range(1000))
    cluster = SlurmCluster(
        nodes,
        {"normal": Partition("normal", tuple(range(1000)), max_time=86_400)},
        tuple(tuple(range(first, first + 50)) for first in range(0, 1000, 50)),
        priorities=Priorities(True, age=1000, fair_share=5000, size=2000),
    )
    rng = np.random.default_rng(3)
    count = days * each_day
    submit = np.sort(rng.integers(0, days * 86_400, count)).tolist()
    widths = rng.choice([1, 8, 32, 64, 256, 1024], count, p=[0.3, 0.2, 0.25, 0.15, 0.08, 0.02]).tolist()
    limits = (3600 * rng.choice([1, 2, 4, 8, 24], count, p=[0.3, 0.25, 0.2, 0.15, 0.1])).tolist()
    shares = rng.uniform(0.05, most_share, count).tolist()
    users = rng.integers(0, 200, count).tolist()
    requests = []
    for number, (at, cpus, limit, share, user) in enumerate(
        zip(submit, widths, limits, shares, users, strict=True), start=1
    ):
        least = -(-cpus // 32)
        requests.append(
            Request(
                number, at, max(60, int(limit * share)), limit, f"u{user}", f"a{user % 20}", ("normal",),
                tasks=cpus, tasks_per_node=cpus // least, nodes=least, most_nodes=least,
            )
        )  # fmt: skip
    return cluster, requests


def time_draws(cluster: SlurmCluster, requests: list[Request], draws: int) -> None:
    """Print how long replays of a log take on one core and on all, and check that they are the same."""
    cores, seconds, waits = os.sched_getaffinity(0), [], []
    for some in ({min(cores)}, cores):
        os.sched_setaffinity(0, some)
        began = time.perf_counter()
        waits.append(replayed_waits(cluster, requests, draws, 0))
        seconds.append(time.perf_counter() - began)
    np.testing.assert_array_equal(*waits)
    one, many = seconds
    print(f"{draws} draws: {one:.1f} s on one core, {many:.1f} s on {len(cores)}: {one / many:.2f} times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--order", help="queue order in place of Slurm's priority")
    parser.add_argument("--guard", type=int, help="with an order: seconds; longer waits go first")
    parser.add_argument("--share", type=float, default=0.44, help="of limits that jobs run at most (0.44)")
    parser.add_argument("--release", help="of Slurm, in place of the cluster's")
    parser.add_argument("--draws", type=int, help="time so many draws, too")
    arguments = parser.parse_args()
    folder = arguments.folder
    print_machine()
    if folder is None:
        cluster, requests = made_up(arguments.share)
    else:
        cluster = read_cluster(folder)
        requests = read_submissions(folder, cluster)
    cluster = replace(cluster, version=arguments.release or cluster.version)
    began = time.process_time()
    rule = {"order": arguments.order, "guard": arguments.guard}
    replay(cluster, requests[:50], **rule)
    print(f"first replay, with what is compiled: {time.process_time() - began:.1f} CPU s")
    began = time.process_time()
    result = replay(cluster, requests, Phases(), **rule)
    spent = time.process_time() - began
    submit = np.array([request.submit for request in requests])
    waits = result.start - submit
    days = (result.end.max() - submit[0]) / 86_400
    waiting = waits.sum() / (submit[-1] - submit[0])
    print(
        f"{len(requests):,} jobs, {days:.1f} days of {len(cluster.nodes):,} nodes in {spent:.1f} CPU s: "
        f"{days / spent:.2g} days a second"
    )
    print(f"{waiting:.0f} jobs wait on average, for {waits.mean():,.0f} s; median {np.median(waits):,.0f} s")
    run = result.end - result.start
    slowdown = np.maximum(1, (waits + run) / np.maximum(10, run)).mean()
    print(f"the longest wait is {waits.max():,} s, the mean bounded slowdown {slowdown:,.1f}")
    if arguments.draws:
        first = requests[0].submit + 86_400
        time_draws(cluster, [request for request in requests if request.submit < first], arguments.draws)


if __name__ == "__main__":
    main()
