"""How near the simulated cluster comes to a real Slurm: decision by decision, and as a whole.

    python -m benchmarks.slurm_agreement FOLDER... [--json] [--first]

A folder holds one run, such as `scripts/slurm_farm` leaves: slurm.conf and what lies beside it, golden.csv
(jobs), events.csv[.xz] (decisions), meta.txt and, where priorities were sampled, prio_samples.txt[.xz]. Each
pass starts from the state that the trace has then; within the pass nothing is taken from it. `--first` prints
the first pass that differs, and the state before it.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.slurm_runs import DELAYS, Run, options_of, read_run
from gridtune.slurm.kernel.arrays import Phases
from gridtune.slurm.replay import replay
from gridtune.workload.slurm import host_list
from tests.slurm.reference import Priority, Record, Reference, mask_of

#: Seconds of the daemons' own clock for which the nodes of a job that was killed are completing.
EPILOG = 0.01


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
        #: Whether each job that has ended did so without an error; by minus its number one of no list.
        self.ended: dict[int, bool] = {}
        self.members: dict[int, list[int]] = defaultdict(list)
        for k, request in enumerate(run.requests):
            self.members[request.component_of or request.array or request.number].append(k)
        self.completing: list[tuple[float, int]] = []
        #: Partitions that `scontrol` took down and has not put back.
        self.down: set[str] = set()
        #: Instants and nodes of the messages that a job's node is free, by job, where the log has them.
        self.freed: dict[int, list[tuple[float, str]]] = defaultdict(list)
        for event in run.events:
            if event["kind"] == "epilog" and int(event["job"]) in self.index:
                self.freed[self.index[int(event["job"])]].append((float(event["t"]), event["nodes"]))
        #: When jobs wait again that had to make room, and when those do that were held or begin later.
        self.back: dict[int, int] = {}
        self.later: dict[int, int] = {}
        self.eligible = [
            min(int(run.rows[task]["eligible"] or run.requests[task].submit) for task in self.tasks(job))
            for job in range(len(run.requests))
        ]
        self.epilog, self.longest_epilog = epilog * run.factor, max(30, run.factor)
        #: Seconds that the accounting may be ahead of the log.
        self.slack = 2 + run.factor / 10
        #: The first pass that differs, and the state before it.
        self.first: list[str] = []
        self.next_tick = run.tick - run.cluster.priorities.period
        self.counts: Counter[str] = Counter()
        self.misses: list[str] = []

    def tasks(self, job: int) -> list[int]:
        """Return the tasks of a job's array, the components of a heterogeneous job, or the job."""
        request = self.run.requests[job]
        several = request.component_of or request.array
        return self.members[several] if several else [job]

    def nodes(self, text: str) -> list[int]:
        """Return the numbers of the nodes in a list of hosts."""
        return sorted(self.node[name] for name in host_list(text, Path("events.csv"), 1))

    def end_unlogged(self, now: float) -> None:
        """End what no line of the log has ended: jobs that were cancelled, and those of nodes that died."""
        for job in [job for job in self.state.running if now > self.ends_by(job) + self.slack]:
            self.end(job, now, "complete")
        for job in list(self.waiting | set(self.later)):
            row = self.run.rows[job]
            if not row["start"] and row["end"] and now > int(row["end"]):
                self.waiting.discard(job)
                self.later.pop(job, None)
                self.ended[job] = False

    def ends_by(self, job: int) -> float:
        """Return when a job that runs ended, by the accounting; never is infinite."""
        ends = [end for end, _ in self.run.back.get(self.run.requests[job].number, ())]
        ends += [int(end)] if (end := self.run.rows[job]["end"]) else []
        return next((end for end in ends if end >= self.state.running[job].start), math.inf)

    def advance(self, now: float) -> None:
        """Bring priorities and completing nodes to an instant."""
        self.end_unlogged(now)
        for job in [job for job, instant in self.later.items() if instant <= now]:
            self.waiting.add(job)
            self.store(job, self.later.pop(job))
        for job in [job for job, instant in self.back.items() if instant <= now]:
            self.waiting.add(job)
            instant = self.back.pop(job)
            if self.state.holds_since(24_05_05):
                self.store(job, instant)
        period = self.run.cluster.priorities.period
        while self.next_tick <= now:
            intervals = [
                (part.job, self.state.billed(part), part.start, 1 << 60)
                for part in self.state.running.values()
            ]
            if self.run.cluster.priorities.multifactor:
                self.state.ticked = self.next_tick
            self.priority.tick(self.next_tick, intervals)
            for job in self.waiting | set(self.back):
                self.store(job, self.next_tick)
            self.next_tick += period
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
        as_it_must = {"afterany": (True, False), "afterok": (True,), "afternotok": (False,)}
        met = [
            all(self.ended.get(parent) in as_it_must[kind] for parent in self.members.get(number, [-number]))
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
            if partition not in self.down
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
            while self.run.partition_states and self.run.partition_states[0][0] <= now:
                _, partition, up = self.run.partition_states.pop(0)
                (self.down.discard if up else self.down.add)(partition)
            kind = event["kind"]
            if i in following:
                if self.waiting:
                    self.judge(kind, now, events[i + 1 : following[i]], event["info"] == "default")
                continue
            job = self.index.get(int(event["job"])) if event["job"] else None
            if kind == "cancel":
                self.waiting.discard(-1 if job is None else job)
                self.ended[-int(event["job"]) if job is None else job] = False
            if job is None:
                continue
            if kind == "submit":
                for task in self.tasks(job):
                    if task in self.state.running or task in self.ended:
                        continue
                    if DELAYS & set(options_of(self.run.rows[task].get("extra", ""))):
                        self.later[task] = self.eligible[task] if self.run.rows[task]["eligible"] else 1 << 40
                        continue
                    # The log has a start before the submission where both fall into some milliseconds.
                    if task in self.state.running or task in self.ended:
                        continue
                    self.waiting.add(task)
                    # The log has the end of the submission; its age was 0.
                    self.store(task, min(now, self.eligible[task]))
            elif kind in {"start_main", "start_bf"}:
                self.waiting.discard(job)
                nodes = self.nodes(event["nodes"])
                partition = self.run.rows[job]["partition"]
                part = self.state.part_on(job, partition, nodes, int(now))
                # Backfill may have shortened its limit.
                part.limit = min(part.limit, 60 * int(self.run.rows[job]["timelimit_min"]))
                part.end = part.start + part.limit
                self.state.begin(part)
            elif kind in {"complete", "timeout", "preempt"} and job in self.state.running:
                self.end(job, now, kind)
                by = re.search(r"for JobId=(\d+)", event["info"])
                if by and int(by[1]) in self.index:
                    self.state.since[self.index[int(by[1])]] = int(now)

    def end(self, job: int, now: float, kind: str) -> None:
        """End a job that is complete, was killed or had to make room."""
        part = self.state.end(job, int(now))
        last = self.priority.last if self.priority.last is not None else now
        self.priority.add(job, self.state.billed(part), max(0, int(now) - max(part.start, last)))
        if kind != "complete":
            self.completing.append((now + self.epilog, part.mask))
        for instant, name in self.freed[job]:
            if now <= instant < now + self.longest_epilog:
                self.completing.append((instant, 1 << self.node[name]))
        instants = self.run.back.get(self.run.requests[job].number, [])
        if instants or (kind == "preempt" and self.state.requeues(part)):
            _, instant = instants.pop(0) if instants else (0, int(now) + 121)
            self.back[job] = self.eligible[job] = instant
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
            if e["kind"] == start_kind and int(e["job"]) in self.index
        }
        for job in set(recorded) - self.waiting - set(self.later):
            # The log has the end of a submission: a pass may have come before it.
            self.waiting.add(job)
            self.store(job, self.eligible[job])
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
            if self.run.requests[part.job].time_min and part.job in recorded:
                limit = 60 * int(self.run.rows[part.job]["timelimit_min"])
                self.counts["limits"] += 1
                self.counts["limits_equal"] += part.limit == limit
                if part.limit != limit:
                    self.misses.append(
                        f"{now:.0f} s: limit of {self.names({part.job})} {part.limit}, not {limit}"
                    )
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
            ours, theirs = set(own) - set(recorded), set(recorded) - set(own)
            self.differ(now, f"{name} pass: starts {self.names(ours)}, recorded {self.names(theirs)}")
        elif own != recorded:
            other = [job for job in own if own[job] != recorded[job]]
            places = ", ".join(f"{self.hosts(own[job])} for {self.hosts(recorded[job])}" for job in other)
            self.differ(now, f"{name} pass: starts {self.names(other)} on {places}")
        if kind == "bf_pass":
            self.compare_plans(now, events, plans)

    def compare_plans(
        self,
        now: float,
        events: list[dict[str, str]],
        plans: dict[tuple[int, str], list[tuple[int, int]]],
    ) -> None:
        """Compare the plans of a backfill pass, by array or job and partition, with the trace's."""
        first, partition = True, ""
        for event in events:
            if event["kind"] == "bf_test":
                partition = event["info"]
            if event["kind"] != "bf_plan" or int(event["job"]) not in self.index:
                continue
            request = self.run.requests[self.index[int(event["job"])]]
            own = plans[request.array or request.number, event["info"] or partition]
            start, mask = own.pop(0) if own else (None, 0)
            near = start is not None and abs(start - float(event["plan_start"])) <= 5
            same = mask == mask_of(self.nodes(event["nodes"]))
            self.counts["plans"] += 1
            self.counts["plans_near"] += near
            self.counts["plans_same"] += same
            if not (near and same) and first:
                first = False
                mine = f"at {start} on {self.hosts(mask)}" if start is not None else "never"
                recorded = f"at {event['plan_start']} on {event['nodes']}"
                self.differ(now, f"backfill pass: plans {event['job']} {mine}, recorded {recorded}")

    def names(self, jobs: Iterable[int]) -> str:
        """Return the numbers of jobs as text."""
        return ",".join(str(self.run.requests[job].number) for job in jobs) or "none"

    def hosts(self, mask: int) -> str:
        """Return the names of a set of nodes as text."""
        return ",".join(name for name, number in self.node.items() if mask >> number & 1)

    def differ(self, now: float, text: str) -> None:
        """Note a difference; of the first one, the state before the pass too."""
        self.misses.append(f"{now:.0f} s, {text}")
        if not self.first:
            self.first = [self.misses[-1], *self.state_lines()]

    def state_lines(self) -> list[str]:
        """Return the state as text: what is free, runs and waits."""
        free, lines = self.state.free, []
        for name, number in self.node.items():
            amounts = f"{free.cpus[number]} processors, {free.memory[number]} MB, {free.gpus[number]} GPUs"
            out = "" if self.state.available >> number & 1 else ", out of service"
            cleaning = ", completing" if self.state.completing >> number & 1 else ""
            lines.append(f"{name} has free {amounts}{out}{cleaning}")
        for part in self.state.running.values():
            number, until = self.run.requests[part.job].number, f"{part.start} to {part.end} s at most"
            lines.append(f"{number} runs on {self.hosts(part.mask)} with {part.cpus} processors, {until}")
        for record in self.queue():
            job, row = self.run.requests[record.job], self.run.rows[record.job]
            asked = f"{job.tasks} tasks, {job.tasks_per_node} a node, {job.memory} MB, {job.gpus} GPUs"
            asked += f", {job.time_limit} s {','.join(job.features)} {row.get('extra', '')}"
            lines.append(f"{job.number} waits in {record.partition} at {record.priority}: {asked}")
        return lines


def free_run(run: Run, draws: int) -> dict[str, Any]:
    """Replay the whole run unaided, with the clocks' phases drawn anew each time."""
    delayed = [bool(DELAYS & set(options_of(row.get("extra", "")))) for row in run.rows]
    # A job that was held to the end takes no part.
    kept = [k for k, row in enumerate(run.rows) if row["start"] or not delayed[k]]
    rows = [run.rows[k] for k in kept]
    ended = [k for k, row in enumerate(rows) if row["start"] and row["end"]]
    if not ended or not draws:
        return {}
    requests = [
        replace(
            run.requests[k],
            run_time=run.requests[k].run_time if row["end"] and row["state"] != "TIMEOUT" else 1 << 40,
            begin=int(row["eligible"]) if delayed[k] and row["eligible"] else run.requests[k].begin,
        )
        for k, row in zip(kept, rows, strict=True)
    ]
    stream = np.random.default_rng(0)
    submit = np.array([request.submit for request in requests])
    recorded = np.array([int(row["start"] or 0) for row in rows])
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
        "makespan": max(int(rows[k]["end"]) for k in ended),
        "makespan_simulated": round(float(np.mean([result.end[ended].max() for result in results]))),
        "starts_before_divergence": round(float(np.mean(before)), 1),
        "error_median": float(np.median(errors)) if errors else None,
        "error_p95": float(np.quantile(errors, 0.95)) if errors else None,
    }


def share(counts: Counter[str], part: str, whole: str) -> float | None:
    """Return a share in per cent; None of nothing."""
    return round(100 * counts[part] / counts[whole], 2) if counts[whole] else None


def judge_run(folder: Path, misses: int = 0, draws: int = 20, first: bool = False) -> dict[str, Any]:
    """Return the figures of one folder; `draws` replays of the whole run, 0 for its decisions alone."""
    run = read_run(folder)
    replay = Replay(run)
    replay.follow()
    for line in [*replay.misses[:misses], *(replay.first if first else ())]:
        print(line, file=sys.stderr)
    counts = replay.counts
    counts["passes"] = counts["main_passes"] + counts["backfill_passes"]
    counts["passes_equal"] = counts["main_passes_equal"] + counts["backfill_passes_equal"]
    return {
        "run": folder.name,
        "version": run.cluster.version,
        "priority_equal": share(counts, "samples_equal", "samples"),
        "passes_equal": share(counts, "passes_equal", "passes"),
        "main_passes_equal": share(counts, "main_passes_equal", "main_passes"),
        "backfill_passes_equal": share(counts, "backfill_passes_equal", "backfill_passes"),
        "starts_same_nodes": share(counts, "starts_equal", "starts"),
        "plans_within_5s": share(counts, "plans_near", "plans"),
        "plans_same_nodes": share(counts, "plans_same", "plans"),
        "limits_equal": share(counts, "limits_equal", "limits"),
        **free_run(run, draws),
        "first_difference": replay.first[0] if replay.first else None,
        "options_not_read": dict(run.unknown),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    parser.add_argument("--misses", type=int, default=0, help="print the first so many differences")
    parser.add_argument("--first", action="store_true", help="print the state before the first difference")
    parser.add_argument("--draws", type=int, default=20, help="replays of the whole run (20)")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        figures = judge_run(folder, arguments.misses, arguments.draws, arguments.first)
        if arguments.json:
            print(json.dumps(figures))
        else:
            print(", ".join(f"{name} {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
