"""How long a week of a real cluster takes: the submissions that UB CCR published for its Slurm simulator.

    python -m benchmarks.slurm_speed FOLDER

The folder has slurm.conf, topology.conf, sacctmgr.script, users.sim and workload_week.events[.xz].
"""

from __future__ import annotations

import argparse
import lzma
import re
import time
from pathlib import Path

import numpy as np

from gridtune.slurm.cluster import SlurmCluster, read_cluster
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    cluster = read_cluster(folder)
    began = time.process_time()
    requests = read_submissions(folder, cluster)
    print(f"{len(requests):,} submissions read in {time.process_time() - began:.1f} CPU s")
    began = time.process_time()
    replay(cluster, requests[:50])
    print(f"first replay, with what is compiled: {time.process_time() - began:.1f} CPU s")
    began = time.process_time()
    result = replay(cluster, requests, Phases())
    waits = result.start - np.array([request.submit for request in requests])
    days = (result.end.max() - requests[0].submit) / 86400
    spent = time.process_time() - began
    print(f"{days:.1f} days of {len(cluster.nodes)} nodes in {spent:.1f} CPU s")
    print(f"mean wait {waits.mean():,.0f} s, median {np.median(waits):,.0f} s")


if __name__ == "__main__":
    main()
