"""Tables of a run: its jobs, and the decisions that slurmctld wrote to its log."""

from __future__ import annotations

import calendar
import csv
import io
import lzma
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

#: A job as slurmctld names it: its number, the task of an array, and the task's own number, or the component
#: of a heterogeneous job, and the component's own.
JOB = r"JobId=(?P<job>\d+)(?:_(?P<task>[^( .,:]*)(?:\((?P<own>\d+)\))?|\+\d+\((?P<part>\d+)\))?"
#: Events by a pattern of their line, the first that fits.
EVENTS = {
    kind: re.compile(pattern.replace("@", JOB))
    for kind, pattern in {
        "submit": r"_slurm_rpc_submit_batch_(?:het_)?job: @(?: InitPrio=(?P<prio>\d+))?",
        "main_pass": r"sched: Running job scheduler for (?P<info>default|full)",
        "bf_pass": r"_attempt_backfill: beginning",
        "bf_test": r"BACKFILL: test for @ Prio=(?P<prio>\d+) Partition=(?P<info>\S+)",
        "bf_plan": r"_dump_job_sched: (?:BACKFILL: )?@ to start at (?P<start>\S+), end at (?P<end>\S+)"
        r" on nodes (?P<nodes>\S+)",
        "start_main": r"sched: Allocate @ NodeList=(?P<nodes>\S+)",
        "start_bf": r"_start_job: (?:HETJOB: )?Started @ in (?P<info>\S+) on (?P<nodes>\S+)",
        "fail_part": r"sched: @\.? unable to schedule in Partition=(?P<info>\S+?)(?:\.|\s|$)",
        "complete": r"_job_complete: @ done",
        "epilog": r"_slurm_rpc_epilog_complete: @ Node=(?P<nodes>\S+)",
        "timeout": r"Time limit exhausted for @",
        "cancel": r"cancelling @",
        "preempt": r"preempted @ (?P<info>has been .*|had to be .*)",
        "suspend": r"gang: suspending @",
        "resume": r"gang: resuming @",
        "requeue": r"(?:job_requeue\w*|batch_requeue\w*|Requeuing|requeue job):? @ ?(?P<info>.*)",
        "limit": r"debug2: @ being held, (?P<info>.*)",
        "resv": r"(?P<info>(?:Created|Purging|Deleted|Updat)\S* .*reservation.*)",
    }.items()
}
COLUMNS = ("t", "kind", "job", "prio", "plan_start", "plan_end", "nodes", "info", "task")
#: Columns of golden.csv that are sacct's, by its names.
NAMES = {
    "user": "User",
    "account": "Account",
    "partition": "Partition",
    "qos": "QOS",
    "elapsed": "ElapsedRaw",
    "timelimit_min": "TimelimitRaw",
    "req_nodes_sacct": "NNodes",
    "cpus": "NCPUS",
    "req_cpus": "ReqCPUS",
    "req_mem": "ReqMem",
    "req_tres": "ReqTRES",
    "alloc_tres": "AllocTRES",
    "nodelist": "NodeList",
    "state": "State",
    "priority_at_record": "Priority",
    "flags": "Flags",
}
#: Columns of sacct that golden.csv is made of.
WANTED = ("JobIDRaw", "JobID", "Comment", "Submit", "Eligible", "Start", "End", *NAMES.values())
#: Columns of golden.csv that are the workload's, by its names.
ASKED = {
    "dt": "dt",
    "wall_time": "wall_time",
    "wall_limit": "wall_limit",
    "n_tasks": "n_tasks",
    "ntasks_per_node": "ntasks_per_node",
    "constraint": "constraint",
    "mem_req": "mem",
    "gres": "gres",
    "wid": "job_id",
    "part_asked": "partition",
    "dependency": "dependency",
    "extra": "extra",
}
#: Files of a run that a comparison needs, as they are and packed.
NEEDED = (
    "slurm.conf",
    "gres.conf",
    "topology.conf",
    "sacctmgr_assoc.txt",
    "sacctmgr_qos.txt",
    "meta.txt",
    "control.csv",
)
TABLES = ("golden.csv", "segments.csv", "workload.csv", "submit.csv")
#: Files that are packed.
PACKED = "events.csv", "sacct_all.txt", "prio_samples.txt", "slurmctld.log"


def instant(text: str, zero: int) -> float | None:
    """Return the seconds since `zero` of a date of Slurm; None if it is none."""
    if not text.startswith("2"):
        return None
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) + float(f"0{text[19:23]}") - zero


def events_in(log: Iterable[str], zero: int) -> Iterator[dict[str, Any]]:
    """Yield the events in a log of slurmctld."""
    for line in log:
        if not line.startswith("["):
            continue
        # Releases from 26.05 on write a second name beside each number.
        text = re.sub(r" SLUID=\S+", "", line)
        for kind, pattern in EVENTS.items():
            match = pattern.search(text)
            if match is None:
                continue
            found = defaultdict(str, {key: value or "" for key, value in match.groupdict().items()})
            start, end = (instant(found[name], zero) for name in ("start", "end"))
            yield {
                "t": round(instant(text[1:24], zero) or 0, 3),
                "kind": kind,
                "job": found["own"] or found["part"] or found["job"],
                "prio": found["prio"],
                "plan_start": "" if start is None else int(start),
                "plan_end": "" if end is None else int(end),
                "nodes": found["nodes"],
                "info": found["info"].strip(),
                "task": f"{found['job']}_{found['task']}" if found["task"] else "",
            }
            break


def components_of(extra: str) -> list[str]:
    """Return the options of each component of a job, which a colon parts."""
    return re.split(r"(?:^| +):(?: +|$)", extra)


def _component(asked: Mapping[str, str], part: str) -> Mapping[str, str]:
    """Return the row of a component of a heterogeneous job; only the first has the columns of the job."""
    extra = components_of(asked["extra"])[int(part)]
    if part == "0":
        return {**asked, "extra": extra}
    found = re.findall(r"(-n |--ntasks-per-node=)(\d+) ?", extra)
    own = {"n_tasks" if name == "-n " else "ntasks_per_node": count for name, count in found}
    same = {name: asked[name] for name in ("dt", "job_id", "partition", "wall_limit", "wall_time")}
    return {**same, **own, "extra": re.sub(r"(-n |--ntasks-per-node=)(\d+) ?", "", extra).strip()}


def jobs_in(accounting: Path, workload: Path, zero: int) -> dict[str, list[dict[str, Any]]]:
    """Return rows of golden.csv by the job's number: one for its submission and each requeue."""
    with workload.open() as file:
        asked = {row["job_id"]: row for row in csv.DictReader(file)}
    jobs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with accounting.open(errors="replace") as file:
        for row in csv.DictReader(file, delimiter="|", quoting=csv.QUOTE_NONE):
            if row["Comment"] not in asked:
                continue
            times = {
                name: instant(row[name.title()], zero) for name in ("submit", "eligible", "start", "end")
            }
            whole: dict[str, Any] = {name: "" if time is None else int(time) for name, time in times.items()}
            job = {"job_id": row["JobIDRaw"]} | whole | {name: row[of] for name, of in NAMES.items()}
            leader, component, part = row["JobID"].partition("+")
            own = _component(asked[row["Comment"]], part) if component else asked[row["Comment"]]
            job |= {name: own.get(of, "") for name, of in ASKED.items()}
            job["het_job"] = leader if component else ""
            job["array_task"] = row["JobID"].partition("_")[2]
            jobs[row["JobIDRaw"]].append(job)
    for rows in jobs.values():
        rows.sort(key=lambda job: (job["submit"], job["start"] if job["start"] != "" else 1 << 40))
        for restarts, job in enumerate(rows):
            job["restarts"] = restarts
    return jobs


def write(path: Path, rows: list[dict[str, Any]], columns: Sequence[str] | None = None) -> None:
    """Write a table."""
    with path.open("w") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def record(run: Path, workload: Path) -> str:
    """Write golden.csv, segments.csv and events.csv of a run and pack long files; return a line on it."""
    (run / "workload.csv").write_text(workload.read_text())
    meta: Mapping[str, str] = dict(line.split("=", 1) for line in (run / "meta.txt").read_text().splitlines())
    zero = int(meta["T0"])
    with (run / "slurmctld.log").open(errors="replace") as log:
        write(run / "events.csv", list(events_in(log, zero)), COLUMNS)
    jobs = jobs_in(run / "sacct_x.txt", workload, zero)
    last = []
    for _, rows in sorted(jobs.items(), key=lambda item: int(item[0])):
        job = rows[-1] | {name: rows[0][name] for name in ("submit", "eligible")}
        job["wait"] = job["start"] - job["submit"] if job["start"] != "" else ""
        last.append(job)
    write(run / "golden.csv", last)
    again = [job for rows in jobs.values() if len(rows) > 1 for job in rows]
    if again:
        write(run / "segments.csv", again)
    for name in PACKED:
        (run / f"{name}.xz").write_bytes(lzma.compress((run / name).read_bytes(), preset=3))
        (run / name).unlink()
    ended = [job for job in last if job["start"] != "" and job["end"] != ""]
    wait = sum(job["wait"] for job in ended) / max(1, len(ended))
    makespan = max((job["end"] for job in ended), default=0)
    return (
        f"{run.name}: {len(ended)} of {len(last)} jobs ended, mean wait {wait:.0f} s, makespan {makespan} s"
    )


def read(path: Path) -> str | None:
    """Return the text of a file that may be packed; None if it is not there."""
    packed = path.with_name(f"{path.name}.xz")
    if packed.exists():
        return lzma.decompress(packed.read_bytes()).decode()
    return path.read_text() if path.exists() else None


def compact(run: Path, out: Path) -> int:
    """Copy what a comparison needs of a run to a small folder; return its bytes."""
    out.mkdir(parents=True, exist_ok=True)
    for name in NEEDED:
        if (text := read(run / name)) and text.count("\n") > name.endswith(".csv"):
            (out / name).write_text(text)
    packed = {name: read(run / name) for name in TABLES}
    samples = (read(run / "prio_samples.txt") or "").splitlines(keepends=True)
    packed["prio_samples.txt"] = "".join(line for line in samples if line.startswith("sprio"))
    events, partition = io.StringIO(), ""
    writer = csv.DictWriter(events, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for event in csv.DictReader((read(run / "events.csv") or "").splitlines()):
        if event["kind"] == "bf_test":
            partition = event["info"]
        elif event["kind"] not in {"fail_part", "resv", "limit", "bf_other"}:
            if event["kind"] == "bf_plan":
                event |= {"info": partition, "plan_end": "", "t": event["t"].partition(".")[0]}
            writer.writerow(event)
    packed["events.csv"] = events.getvalue()
    for name, text in packed.items():
        if text:
            data = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
            (out / f"{name}.xz").write_bytes(data)
    return sum(path.stat().st_size for path in out.iterdir())
