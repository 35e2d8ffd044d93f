"""A recorded run of a real Slurm, read: the folder that `scripts/slurm_farm` leaves.

It holds slurm.conf and what lies beside it, golden.csv (jobs), events.csv[.xz] (decisions), meta.txt and,
where priorities were sampled, prio_samples.txt[.xz].
"""

from __future__ import annotations

import calendar
import csv
import itertools
import lzma
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from gridtune.slurm.cluster import Outage, Qos, SlurmCluster
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.requests import Request, features_of
from gridtune.workload.slurm import host_list


@dataclass
class Run:
    """One recorded run. Times are seconds from its first submission."""

    cluster: SlurmCluster
    requests: list[Request]
    rows: list[dict[str, str]]
    events: list[dict[str, str]]
    factor: float
    tick: float
    samples: dict[float, list[list[str]]]
    #: By a job's id: when it ended each time that it started again later, and when it could do so.
    back: dict[int, list[tuple[int, int]]]
    #: Numbers of jobs by the option of sbatch that requests cannot express.
    unknown: Counter[str]
    #: Instants at which `scontrol` took a partition down, or put it back (True).
    partition_states: list[tuple[float, str, bool]]


def opened(folder: Path, name: str) -> IO[str] | None:
    """Open a file of a run, packed or not; None where there is none."""
    if (folder / f"{name}.xz").is_file():
        return lzma.open(folder / f"{name}.xz", "rt")
    return (folder / name).open() if (folder / name).is_file() else None


def table(folder: Path, name: str) -> list[dict[str, str]]:
    """Read a table of a run; empty where there is none."""
    file = opened(folder, name)
    return [] if file is None else list(csv.DictReader(file))


#: Options of sbatch in the column `extra`, by the long name.
SHORT = {"-N": "--nodes", "-c": "--cpus-per-task", "-L": "--licenses", "-C": "--constraint"}
#: Fields of a request by the option of sbatch, and the option's value as the field has it.
FIELDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "--cpus-per-task": ("cpus_per_task", int),
    "--mem-per-cpu": ("memory_per_cpu", int),
    "--nice": ("nice", int),
    "--no-requeue": ("requeue", lambda _: False),
    "--contiguous": ("contiguous", lambda _: True),
    "--spread-job": ("spread", lambda _: True),
    "--switches": ("switches", lambda text: int(text.partition("@")[0])),
    "--time-min": ("time_min", lambda text: 60 * int(text)),
    "--exclusive": ("exclusive", lambda _: True),
    "--nodelist": ("node_list", lambda text: tuple(text.split(","))),
    "--exclude": ("exclude", lambda text: tuple(text.split(","))),
    "--licenses": ("licences", lambda text: tuple(text.split(","))),
    "--threads-per-core": ("threads", int),
    "--use-min-nodes": ("fewest", lambda _: True),
    "--hint": ("threads", lambda text: int(text == "nomultithread")),
}
#: Options whose effect is in the column `eligible`.
DELAYS = {"--begin", "--hold"}
THERE = {field.name for field in fields(Request)}


def options_of(text: str) -> dict[str, str]:
    """Return the options of sbatch in a text by their long names, "" for one without a value."""
    words, options = text.split(), {}
    while words:
        name, _, value = words.pop(0).partition("=")
        if name[:2] in SHORT:
            name, value = SHORT[name[:2]], name[2:] or words.pop(0)
        # Older runs have instants as `BEGIN+900`.
        name, plus, _ = name.partition("+")
        options[f"--{name.lower()}" if plus else name] = value
    return options


def request_of(row: dict[str, str], arrays: dict[str, tuple[int, int]]) -> tuple[Request, list[str]]:
    """Make a request of a row of golden.csv; `arrays` are those of `arrays_of`.

    Return the options that a request cannot express too.
    """
    options = options_of(row.get("extra", ""))
    per_node = options.get("--gpus-per-node")
    gres = (row["gres"] or options.get("--gres", "") or (f"gpu:{per_node}" if per_node else "")).split(":")
    gres = gres if gres[0] else []
    partitions = row.get("part_asked") or row["partition"]
    old_component = "HET" in row.get("extra", "")
    leader = arrays[row["wid"]][0] if old_component else int(row.get("het_job") or 0)
    array, most = arrays[row["wid"]] if row.get("array_task") else (0, 0)
    after = [
        (item.partition(":")[0], arrays[number[1:]][0])
        for item in row.get("dependency", "").replace("?", ",").split(",")
        for number in item.split(":")[1:]
        if number[1:] in arrays
    ]
    asked = {FIELDS[name][0]: FIELDS[name][1](text) for name, text in options.items() if name in FIELDS}
    if "--nodes" in options:
        # A single number is the least and the most.
        least, _, most_nodes = options["--nodes"].partition("-")
        asked |= {"nodes": int(least), "most_nodes": int(most_nodes or least)}
    if "@" in options.get("--switches", ""):
        asked["switch_wait"] = 60 * int(options["--switches"].partition("@")[2])
    if "+" in options.get("--deadline", ""):
        asked["deadline"] = int(row["submit"]) + int(options["--deadline"].partition("+")[2])
    unknown = [name for name, (field, _) in FIELDS.items() if name in options and field not in THERE]
    unknown += sorted(
        set(options)
        - set(FIELDS)
        - DELAYS
        - {"--nodes", "--constraint", "--gres", "--gpus-per-node", "--mem", "--deadline"}
    )
    request = Request(
        int(row["job_id"]),
        int(row["submit"]),
        int(row["elapsed"] or -1),
        # Backfill may have shortened it.
        60 * int(row.get("wall_limit") or row["timelimit_min"]),
        row["user"],
        row["account"],
        tuple(partitions.split(",")),
        row["qos"],
        # Of an older run's heterogeneous jobs a component has as many tasks as it was given processors.
        int(row["cpus"] or 1) if old_component else int(row["n_tasks"] or 1),
        0 if old_component and leader != int(row["job_id"]) else int(row["ntasks_per_node"] or 0),
        memory=-1 if options.get("--mem") == "0" else int(row["mem_req"] or 0),
        gpus=int(gres[-1]) if gres else 0,
        gpu_type=gres[1] if len(gres) == 3 else "",
        features=features_of(row["constraint"] or options.get("--constraint", "")),
        array=array,
        task=int(row["array_task"]) if row.get("array_task", "").isdecimal() else 0,
        array_most=most,
        after=tuple(after),
        after_any="?" in row.get("dependency", ""),
        component_of=leader,
        **{field: value for field, value in asked.items() if field in THERE},
    )
    return request, unknown


def _of_components(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the submissions and starts of heterogeneous jobs, which the events of older runs do not have."""
    apart = [row for row in rows if "HET" in row.get("extra", "")]
    started = {row["wid"]: row["start_decided"] for row in apart if row.get("start_decided")}
    nothing = dict.fromkeys(("prio", "plan_start", "plan_end", "nodes", "info", "task"), "")
    submitted = [nothing | {"t": row["submit"], "kind": "submit", "job": row["job_id"]} for row in apart]
    return submitted + [
        nothing
        | {"t": started[row["wid"]], "kind": "start_bf", "job": row["job_id"], "nodes": row["nodelist"]}
        for row in apart
        if row["wid"] in started
    ]


def arrays_of(folder: Path, rows: list[dict[str, str]]) -> dict[str, tuple[int, int]]:
    """Return, by the row of workload.csv, a job's or an array's number and how many of its tasks may run."""
    first: dict[str, int] = {}
    for row in rows:
        number = int(row["job_id"])
        wid = row.get("wid", row["job_id"])
        first[wid] = min(first.get(wid, number), number)
    # Jobs that were cancelled before they could wait are in no list of sacct.
    for row in table(folder, "submit.csv"):
        if row.get("slurm_id", "").isdecimal():
            first.setdefault(row["job_id"], int(row["slurm_id"]))
    most = {row["job_id"]: row.get("array", "").partition("%")[2] for row in table(folder, "workload.csv")}
    return {wid: (number, int(most.get(wid) or 0)) for wid, number in first.items()}


def outages(folder: Path, cluster: SlurmCluster, zero: int) -> tuple[Outage, ...]:
    """Return the reservations and drained nodes that `scontrol` made during a run."""
    number_of = {node.name: number for number, node in enumerate(cluster.nodes)}
    made: list[Outage] = []
    drained: dict[str, int] = {}
    for row in table(folder, "control.csv"):
        words = dict(word.split("=", 1) for word in row["command"].split() if "=" in word)
        words = {name.lower(): value for name, value in words.items()}
        if "create reservation" in row["command"]:
            start = calendar.timegm(time.strptime(words["starttime"], "%Y-%m-%dT%H:%M:%S")) - zero
            nodes = tuple(number_of[name] for name in host_list(words["nodes"], folder / "control.csv", 1))
            made.append(Outage(start, start + 60 * int(words["duration"]), nodes, planned=True))
        elif words.get("state") in {"drain", "down"}:
            drained[words["nodename"]] = int(row["dt"])
        elif words.get("state") == "resume" and words["nodename"] in drained:
            node = words["nodename"]
            made.append(Outage(drained.pop(node), int(row["dt"]), (number_of[node],)))
    return tuple(made)


def read_run(folder: Path) -> Run:
    """Read the folder of one run."""
    meta = dict(
        line.strip().split("=", 1) for line in (folder / "meta.txt").read_text().splitlines() if "=" in line
    )
    cluster = read_cluster(folder, version=meta.get("version", "22.05").split()[-1])
    if not cluster.qos:
        # The first runs wrote no list: supporters alone had a priority.
        cluster = replace(cluster, qos={"supporters": Qos("supporters", 1)})
    cluster = replace(cluster, outages=outages(folder, cluster, int(meta["T0"])), zero=int(meta["T0"]))
    rows = table(folder, "golden.csv")
    events = table(folder, "events.csv")
    if apart := _of_components(rows):
        events = sorted([*events, *apart], key=lambda event: float(event["t"]))
    factor, zero = float(meta["factor"]), int(meta["T0"])
    arrays = arrays_of(folder, rows)
    requests, unknown = [], Counter[str]()
    for row in rows:
        request, options = request_of(row, arrays)
        requests.append(request)
        unknown.update(options)
    samples: dict[float, list[list[str]]] = defaultdict(list)
    for line in opened(folder, "prio_samples.txt") or ():
        kind, instant, *rest = line.strip().split("|")
        if kind == "sprio":
            samples[float(instant) - zero].append(rest)
    back: dict[int, list[tuple[int, int]]] = defaultdict(list)
    segments = table(folder, "segments.csv")
    for before, row in itertools.pairwise(segments):
        if int(row["restarts"]) and before["end"]:
            back[int(row["job_id"])].append((int(before["end"]), int(row["eligible"] or row["submit"])))
    tick = tick_of(samples, rows, cluster)
    if tick is None:
        text = config.read_text() if (config := folder / "scontrol_show_config.txt").is_file() else ""
        boot = re.search(r"^BOOT_TIME\s*= (\S+)", text, re.MULTILINE)
        start = calendar.timegm(time.strptime(boot[1], "%Y-%m-%dT%H:%M:%S")) - zero if boot else 0.0
        tick = start + 1.1 * factor if boot else 0.0
    tick %= cluster.priorities.period
    states = [
        (float(row["done_fake"]) - zero, match[1], match[2].upper() == "UP")
        for row in table(folder, "control.csv")
        if (match := re.search(r"update partition(?:name)?=(\S+) state=(\w+)", row["command"], re.IGNORECASE))
    ]
    return Run(cluster, requests, rows, events, factor, tick, dict(samples), back, unknown, states)


def tick_of(
    samples: dict[float, list[list[str]]], rows: list[dict[str, str]], cluster: SlurmCluster
) -> float | None:
    """Return an instant at which priorities were computed, from the ages sampled: a phase of that clock."""
    eligible = {row["job_id"]: int(row["eligible"] or row["submit"]) for row in rows}
    rules = cluster.priorities
    ticks = [
        eligible[job] + float(age) / rules.age * rules.max_age
        for sampled in samples.values()
        for job, _, _, age, *_ in sampled
        if job in eligible and 0 < float(age) < rules.age
    ]
    return Counter(np.round(np.array(ticks) % rules.period).tolist()).most_common(1)[0][0] if ticks else None
