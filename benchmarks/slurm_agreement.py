"""How near the simulated cluster comes to a real Slurm: decision by decision, and as a whole.

    python -m benchmarks.slurm_agreement FOLDER... [--json]

A folder holds one run: slurm.conf and what lies beside it, golden.csv (jobs), events.csv[.xz] (decisions),
meta.txt and, where priorities were sampled, prio_samples.txt[.xz]. Each pass starts from the state that
the trace has then; within the pass nothing is taken from it.
"""

from __future__ import annotations

import argparse
import calendar
import csv
import json
import lzma
import re
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from gridtune.slurm.cluster import Outage, Qos, SlurmCluster
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.replay import Phases, replay
from gridtune.slurm.requests import Request
from gridtune.workload.slurm import host_list
from tests.slurm.reference import Priority, Record, Reference, mask_of

#: Seconds of the daemons' own clock for which the nodes of a job that was killed are completing.
EPILOG = 0.01


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
    #: By a job's id: when it could start again each time that it had to make room for another.
    back: dict[int, list[int]]


def opened(folder: Path, name: str) -> IO[str] | None:
    """Open a file of a run, packed or not; None where there is none."""
    if (folder / f"{name}.xz").is_file():
        return lzma.open(folder / f"{name}.xz", "rt")
    return (folder / name).open() if (folder / name).is_file() else None


def table(folder: Path, name: str) -> list[dict[str, str]]:
    """Read a table of a run; empty where there is none."""
    file = opened(folder, name)
    return [] if file is None else list(csv.DictReader(file))


def request_of(row: dict[str, str], arrays: dict[str, tuple[int, int]]) -> Request:
    """Make a request of a row of golden.csv; `arrays` are those of `arrays_of`."""
    gres = row["gres"].split(":") if row["gres"] else []
    partitions = row.get("part_asked") or row["partition"]
    array, most = arrays[row["wid"]] if row.get("array_task") else (0, 0)
    text, extra = row.get("dependency", ""), row.get("extra", "")
    nice = re.search(r"--nice=(-?\d+)", extra)
    after = [
        (item.partition(":")[0], arrays[number[1:]][0])
        for item in text.replace("?", ",").split(",")
        for number in item.split(":")[1:]
    ]
    return Request(
        int(row["job_id"]),
        int(row["submit"]),
        int(row["elapsed"] or -1),
        60 * int(row["timelimit_min"]),
        row["user"],
        row["account"],
        tuple(partitions.split(",")),
        row["qos"],
        int(row["n_tasks"]),
        int(row["ntasks_per_node"] or 0),
        memory=int(row["mem_req"] or 0),
        gpus=int(gres[-1]) if gres else 0,
        features=tuple(filter(None, row["constraint"].split("&"))),
        array=array,
        task=int(row.get("array_task") or 0),
        array_most=most,
        after=tuple(after),
        after_any="?" in text,
        requeue=False if "--no-requeue" in extra else None,
        nice=int(nice[1]) if nice else 0,
    )


def arrays_of(folder: Path, rows: list[dict[str, str]]) -> dict[str, tuple[int, int]]:
    """Return, by the row of workload.csv, a job's or an array's number and how many of its tasks may run."""
    first: dict[str, int] = {}
    for row in rows:
        number = int(row["job_id"])
        wid = row.get("wid", row["job_id"])
        first[wid] = min(first.get(wid, number), number)
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
    factor, zero = float(meta["factor"]), int(meta["T0"])
    arrays = arrays_of(folder, rows)
    requests = [request_of(row, arrays) for row in rows]
    samples: dict[float, list[list[str]]] = defaultdict(list)
    for line in opened(folder, "prio_samples.txt") or ():
        kind, instant, *rest = line.strip().split("|")
        if kind == "sprio":
            samples[float(instant) - zero].append(rest)
    back: dict[int, list[int]] = defaultdict(list)
    for row in table(folder, "segments.csv"):
        if int(row["restarts"]):
            back[int(row["job_id"])].append(int(row["eligible"]))
    tick = tick_of(samples, rows, cluster)
    if tick is None:
        config = (folder / "scontrol_show_config.txt").read_text().splitlines()
        boot = next((line.split()[-1] for line in config if line.startswith("BOOT_TIME")), None)
        tick = (
            calendar.timegm(time.strptime(boot, "%Y-%m-%dT%H:%M:%S")) - zero + 1.1 * factor if boot else 0.0
        )
    return Run(cluster, requests, rows, events, factor, tick % cluster.priorities.period, dict(samples), back)


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


class Replay:
    """A run followed event by event; at each pass the model is asked what it would do."""

    def __init__(self, run: Run, epilog: float = EPILOG) -> None:
        self.run = run
        self.index = {request.number: k for k, request in enumerate(run.requests)}
        self.node = {node.name: number for number, node in enumerate(run.cluster.nodes)}
        self.state = Reference(run.cluster, run.requests)
        self.priority = Priority(run.cluster, run.requests)
        self.stored: dict[tuple[int, str], int] = {}
        self.age_from: dict[int, float] = {}
        #: Processors that a job's size counted when its priority was last computed.
        self.sizes: dict[int, int] = {}
        self.waiting: set[int] = set()
        #: Whether each job that has ended did so without an error.
        self.ended: dict[int, bool] = {}
        self.members: dict[int, list[int]] = defaultdict(list)
        for k, request in enumerate(run.requests):
            self.members[request.array or request.number].append(k)
        self.completing: list[tuple[float, int]] = []
        #: When jobs wait again that had to make room, and since when jobs age.
        self.back: dict[int, int] = {}
        self.eligible = [
            min(int(run.rows[task]["eligible"] or run.requests[task].submit) for task in self.tasks(job))
            for job in range(len(run.requests))
        ]
        self.epilog = epilog * run.factor
        self.next_tick = run.tick - run.cluster.priorities.period
        self.counts: Counter[str] = Counter()
        self.misses: list[str] = []

    def tasks(self, job: int) -> list[int]:
        """Return the tasks of a job's array, or the job."""
        request = self.run.requests[job]
        return self.members[request.array] if request.array else [job]

    def nodes(self, text: str) -> list[int]:
        """Return the numbers of the nodes in a list of hosts."""
        return sorted(self.node[name] for name in host_list(text, Path("events.csv"), 1))

    def advance(self, now: float) -> None:
        """Bring priorities and completing nodes to an instant."""
        period = self.run.cluster.priorities.period
        while self.next_tick <= now:
            intervals = [
                (part.job, sum(part.cpus), part.start, 1 << 60) for part in self.state.running.values()
            ]
            self.priority.tick(self.next_tick, intervals)
            for job in self.waiting | set(self.back):
                self.store(job, self.next_tick)
            self.next_tick += period
        for job in [job for job, instant in self.back.items() if instant <= now]:
            self.waiting.add(job)
            del self.back[job]
        self.state.go_to(now)
        self.completing = [(until, mask) for until, mask in self.completing if until > now]
        self.state.completing = 0
        for _, mask in self.completing:
            self.state.completing |= mask

    def store(self, job: int, now: float) -> None:
        """Compute a job's priority in each of its partitions."""
        request = self.run.requests[job]
        self.age_from[job], self.sizes[job] = now, self.state.sizes[job]
        for partition in request.partitions:
            if self.run.cluster.priorities.multifactor:
                value = self.priority.of(job, partition, now, self.eligible[job], self.state.sizes[job])
            else:
                value = (1 << 32) - request.number
            self.stored[job, partition] = value

    def may_start(self, job: int) -> bool:
        """Tell whether what a job waits for has ended as it must."""
        request = self.run.requests[job]
        met = [
            all(
                self.ended.get(parent) is not None and (kind != "afterok" or self.ended[parent])
                for parent in self.members[number]
            )
            for kind, number in request.after
        ]
        return not met or (any(met) if request.after_any else all(met))

    def queue(self) -> list[Record]:
        """Return what waits, in the order of the queue."""
        records = [
            Record(job, partition, self.stored[job, partition])
            for job in self.waiting
            if self.may_start(job)
            for partition in self.run.requests[job].partitions
        ]
        tier = {name: partition.tier for name, partition in self.run.cluster.partitions.items()}
        requests = self.run.requests
        return sorted(
            records,
            key=lambda r: (-tier[r.partition], -r.priority, requests[r.job].rank),
        )

    def follow(self) -> None:
        """Go through all events."""
        events = self.run.events
        passes = [i for i, event in enumerate(events) if event["kind"] in {"main_pass", "bf_pass"}]
        following = dict(zip(passes, [*passes[1:], len(events)], strict=True))
        samples = sorted(self.run.samples)
        for i, event in enumerate(events):
            now = float(event["t"])
            while samples and samples[0] <= now:
                # A sample takes some milliseconds of the daemons' own clock: priorities may change meanwhile.
                self.advance(samples[0] + 0.01 * self.run.factor)
                self.compare_priorities(samples.pop(0))
            self.advance(now)
            kind = event["kind"]
            if i in following:
                if self.waiting:
                    self.judge(kind, now, events[i + 1 : following[i]], event["info"] == "default")
                continue
            job = self.index.get(int(event["job"])) if event["job"] else None
            if job is None:
                continue
            if kind == "submit":
                for task in self.tasks(job):
                    self.waiting.add(task)
                    self.store(task, now)
            elif kind in {"start_main", "start_bf"}:
                self.waiting.discard(job)
                nodes = self.nodes(event["nodes"])
                partition = self.run.rows[job]["partition"]
                self.state.begin(self.state.part_on(job, partition, nodes, int(now)))
            elif kind in {"complete", "timeout", "preempt"} and job in self.state.running:
                self.end(job, now, kind)
                by = re.search(r"for JobId=(\d+)", event["info"])
                if by and int(by[1]) in self.index:
                    self.state.since[self.index[int(by[1])]] = int(now)

    def end(self, job: int, now: float, kind: str) -> None:
        """End a job that is complete, was killed or had to make room."""
        part = self.state.end(job, int(now))
        last = self.priority.last if self.priority.last is not None else now
        self.priority.add(job, sum(part.cpus), max(0, int(now) - max(part.start, last)))
        if kind != "complete":
            self.completing.append((now + self.epilog, part.mask))
        if kind == "preempt" and self.state.requeues(part):
            instants = self.run.back.get(self.run.requests[job].number) or [int(now) + 121]
            self.back[job] = self.eligible[job] = instants.pop(0)
        else:
            self.ended[job] = kind == "complete" and self.run.rows[job]["state"] == "COMPLETED"

    def compare_priorities(self, now: float) -> None:
        """Compare the priorities sampled at an instant."""
        for number, _, total, *parts in self.run.samples[now]:
            job = self.index.get(int(number)) if number.isdecimal() else None
            if job is None or job not in self.waiting:
                continue
            recorded, request = [float(part) for part in parts], self.run.requests[job]
            per_second = self.run.cluster.priorities.age / self.run.cluster.priorities.max_age
            # There is a row for each of a job's partitions, without its name.
            own = [
                self.priority.parts(job, name, self.age_from[job], self.eligible[job], self.sizes[job])
                for name in request.partitions
            ]
            equal = any(
                abs(mine[0] - recorded[0]) <= 3 * per_second + 1
                and all(round(a) == b for a, b in zip(mine[1:5], recorded[1:], strict=True))
                # What is left is that of TRES and the job's nice value; all parts are rounded.
                and abs(mine[5] - request.nice - (float(total) - sum(recorded))) <= len(recorded)
                for mine in own
            )
            self.counts["samples"] += 1
            self.counts["samples_equal"] += equal
            if not equal:
                self.misses.append(f"prio {now} {number} {total} {own} {recorded}")

    def judge(self, kind: str, now: float, events: list[dict[str, str]], default: bool) -> None:
        """Compare the starts and plans of one pass with those of the trace."""
        start_kind = "start_main" if kind == "main_pass" else "start_bf"
        recorded = {
            self.index[int(e["job"])]: mask_of(self.nodes(e["nodes"]))
            for e in events
            if e["kind"] == start_kind
        }
        depth = self.run.cluster.clocks.default_queue_depth if default else 1 << 60
        plans: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
        since = dict(self.state.since)
        if kind == "main_pass":
            begun = self.state.main_pass(self.queue(), int(now), depth)
        else:
            begun, planned = self.state.backfill_pass(self.queue(), int(now))
            for plan in planned:
                request = self.run.requests[plan.job]
                plans[request.array or request.number, plan.partition].append((plan.start, plan.nodes))
        own = {part.job: part.mask for part in begun}
        for part in begun:
            self.state.end(part.job, int(now))
        for part in self.state.preempted:
            self.state.begin(part, int(now))
        self.state.since = since
        name = "main" if kind == "main_pass" else "backfill"
        self.counts[f"{name}_passes"] += 1
        self.counts[f"{name}_passes_equal"] += set(own) == set(recorded)
        self.counts["starts"] += len(recorded)
        self.counts["starts_equal"] += sum(own.get(job) == mask for job, mask in recorded.items())
        if set(own) != set(recorded):
            ids = self.run.requests
            self.misses.append(
                f"{kind} {now} ours {[ids[j].number for j in own if j not in recorded]} "
                f"theirs {[ids[j].number for j in recorded if j not in own]}"
            )
        if kind == "bf_pass":
            first = True
            partition = ""
            for event in events:
                if event["kind"] == "bf_test":
                    partition = event["info"]
                if event["kind"] != "bf_plan":
                    continue
                job = self.index[int(event["job"])]
                request = self.run.requests[job]
                own_plans = plans[request.array or request.number, partition]
                start, mask = own_plans.pop(0) if own_plans else (None, 0)
                self.counts["plans"] += 1
                near = start is not None and abs(start - float(event["plan_start"])) <= 5
                same = mask == mask_of(self.nodes(event["nodes"]))
                self.counts["plans_near"] += near
                self.counts["plans_same"] += same
                if not (near and same) and first:
                    first = False
                    self.misses.append(
                        f"plan {now} job {event['job']} ours {start} {mask:b} theirs {event['plan_start']} "
                        f"{event['nodes']} {event['plan_end']} completing {self.state.completing:b}"
                    )


def free_run(run: Run, draws: int) -> dict[str, Any]:
    """Replay the whole run unaided, with the clocks' phases drawn anew each time."""
    ended = [k for k, row in enumerate(run.rows) if row["start"] and row["end"]]
    if not ended or not draws:
        return {}
    requests = [
        replace(request, run_time=request.run_time if row["end"] and row["state"] != "TIMEOUT" else 1 << 40)
        for request, row in zip(run.requests, run.rows, strict=True)
    ]
    stream = np.random.default_rng(0)
    submit = np.array([request.submit for request in requests])
    recorded = np.array([int(row["start"] or 0) for row in run.rows])
    results = [replay(run.cluster, requests, Phases.draw(run.cluster, stream)) for _ in range(draws)]
    waits = np.array([(result.start - submit)[ended].mean() for result in results])
    by_start = np.array(ended)[np.argsort(recorded[ended], kind="stable")]
    before: list[int] = []
    errors: list[float] = []
    for result in results:
        late = np.abs(result.start - recorded)[by_start]
        same = int(np.argmax(late > 60)) if (late > 60).any() else len(late)
        before.append(same)
        errors += late[:same].tolist()
    return {
        "wait_mean": round(float((recorded - submit)[ended].mean()), 1),
        "wait_mean_simulated": round(float(waits.mean()), 1),
        "wait_mean_range": [round(float(waits.min()), 1), round(float(waits.max()), 1)],
        "makespan": max(int(run.rows[k]["end"]) for k in ended),
        "makespan_simulated": round(float(np.mean([result.end[ended].max() for result in results]))),
        "starts_before_divergence": round(float(np.mean(before)), 1),
        "error_median": float(np.median(errors)) if errors else None,
        "error_p95": float(np.quantile(errors, 0.95)) if errors else None,
    }


def share(counts: Counter[str], part: str, whole: str) -> float | None:
    """Return a share in per cent; None of nothing."""
    return round(100 * counts[part] / counts[whole], 2) if counts[whole] else None


def judge_run(folder: Path, misses: int = 0, draws: int = 20) -> dict[str, Any]:
    """Return the figures of one folder; `draws` replays of the whole run, 0 for its decisions alone."""
    run = read_run(folder)
    replay = Replay(run)
    replay.follow()
    for line in replay.misses[:misses]:
        print(line, file=sys.stderr)
    counts = replay.counts
    counts["passes"] = counts["main_passes"] + counts["backfill_passes"]
    counts["passes_equal"] = counts["main_passes_equal"] + counts["backfill_passes_equal"]
    return {
        "run": folder.name,
        "priority_equal": share(counts, "samples_equal", "samples"),
        "passes_equal": share(counts, "passes_equal", "passes"),
        "main_passes_equal": share(counts, "main_passes_equal", "main_passes"),
        "backfill_passes_equal": share(counts, "backfill_passes_equal", "backfill_passes"),
        "starts_same_nodes": share(counts, "starts_equal", "starts"),
        "plans_within_5s": share(counts, "plans_near", "plans"),
        "plans_same_nodes": share(counts, "plans_same", "plans"),
        **free_run(run, draws),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    parser.add_argument("--misses", type=int, default=0, help="print the first so many differences")
    parser.add_argument("--draws", type=int, default=20, help="replays of the whole run (20)")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        figures = judge_run(folder, arguments.misses, arguments.draws)
        if arguments.json:
            print(json.dumps(figures))
        else:
            print(", ".join(f"{name} {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
