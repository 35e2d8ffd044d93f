"""Predicted starts of pending jobs against what a real Slurm planned, and what then happened.

    python -m benchmarks.slurm_waits FOLDER... [--instants 40] [--draws 50] [--json]

A folder holds one run, as for `slurm_agreement`. At backfill passes spread over the run, every job that Slurm
made a plan for is predicted from what was known then: what ran on which nodes, what waited, and the jobs that
had ended. The recorded start is the truth.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import print_machine, print_table
from benchmarks.slurm_runs import Run, read_run
from gridtune.slurm.forecast import INTERVAL, Past, forecast
from gridtune.slurm.shares import decayed_usage
from gridtune.workload.slurm import host_list


@dataclass
class Predictions:
    """Seconds from each prediction to the start: real, planned by Slurm, ours, and the interval's ends."""

    real: list[float]
    planned: list[float]
    middle: list[float]
    low: list[float]
    high: list[float]

    def summary(self) -> dict[str, Any]:
        """Return coverage and median errors."""
        real, planned, middle, low, high = (
            np.array(column) for column in (self.real, self.planned, self.middle, self.low, self.high)
        )
        ours, theirs = np.abs(middle - real), np.abs(planned - real)
        # A pass or a tick of the clock is as near as starts can be told.
        inside = (real >= low - 1) & (real <= high + 1)
        return {
            "predictions": len(real),
            "coverage": float(inside.mean()),
            "median_error": float(np.median(ours)),
            "median_error_of_plans": float(np.median(theirs)),
            "mean_error": float(ours.mean()),
            "mean_error_of_plans": float(theirs.mean()),
            "median_width": float(np.median(high - low)),
        }


def predict(folder: Path, instants: int, draws: int) -> Predictions:
    """Predict at passes spread evenly over a run."""
    run = read_run(folder)
    passes: list[tuple[float, dict[int, float]]] = []
    for event in run.events:
        if event["kind"] == "bf_pass":
            passes.append((float(event["t"]), {}))
        elif event["kind"] == "bf_plan" and passes and event["job"]:
            passes[-1][1].setdefault(int(event["job"]), float(event["plan_start"]))
    planning = [one for one in passes if one[1]]
    if not planning:
        sys.exit(f"{folder}: Slurm made no plans in this run")
    chosen = [planning[k] for k in np.linspace(0, len(planning) - 1, instants).astype(int)]
    result = Predictions([], [], [], [], [])
    for instant, plans in chosen:
        _predict_at(run, int(instant), plans, draws, result)
    return result


def _predict_at(run: Run, now: int, plans: dict[int, float], draws: int, result: Predictions) -> None:
    pending, running, ended = [], [], []
    node = {one.name: number for number, one in enumerate(run.cluster.nodes)}
    real: list[float] = []
    for request, row in zip(run.requests, run.rows, strict=True):
        if request.submit > now:
            continue
        start = int(row["start"]) if row["start"] else 1 << 40
        end = int(row["end"]) if row["end"] else 1 << 40
        if start > now:
            pending.append(request)
            real.append(start)
        elif end > now:
            nodes = tuple(sorted(node[name] for name in host_list(row["nodelist"], folder_of(row), 1)))
            running.append((request, start, nodes))
        else:
            ended.append((end, request, start))
    ended.sort(key=lambda one: one[0])
    known = [one for one in run.requests if one.submit <= now]
    usage = decayed_usage(
        run.cluster.priorities,
        now,
        [(request, start, end) for end, request, start in ended]
        + [(request, start, now) for request, start, _ in running],
    )
    past = Past(now, [request for _, request, _ in ended], known, usage)
    # When a node that is drained comes back is not known, nor which ones will be.
    known_outages = (
        one if one.planned else replace(one, end=now + 86_400)
        for one in run.cluster.outages
        if one.planned or one.start <= now < one.end
    )
    cluster = replace(run.cluster, outages=tuple(known_outages))
    starts = forecast(cluster, pending, running, past, draws=draws, seed=now)
    ends = np.quantile(starts, [INTERVAL[0], 0.5, INTERVAL[1]], axis=0, method="nearest")
    for place, request in enumerate(pending):
        if request.number not in plans or real[place] >= 1 << 40:
            continue
        low, middle, high = ends[:, place]
        result.real.append(real[place] - now)
        result.planned.append(max(0.0, plans[request.number] - now))
        result.middle.append(middle - now)
        result.low.append(low - now)
        result.high.append(high - now)


def folder_of(row: dict[str, str]) -> Path:
    """Return what errors name as the place of a row."""
    return Path(f"golden.csv, job {row['job_id']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--instants", type=int, default=40, help="passes predicted at (40)")
    parser.add_argument("--draws", type=int, default=50, help="replays of each (50)")
    parser.add_argument("--json", action="store_true", help="print one object for each run")
    arguments = parser.parse_args()
    rows = []
    if not arguments.json:
        print_machine()
    for folder in arguments.folders:
        summary = predict(folder, arguments.instants, arguments.draws).summary()
        if arguments.json:
            print(json.dumps({"run": folder.name, **summary}))
        rows.append(
            (
                folder.name,
                f"{summary['predictions']:,}",
                f"{summary['coverage']:.1%}",
                *(f"{summary[name]:,.0f}" for name in list(summary)[2:]),
            )
        )
    if not arguments.json:
        heads = (
            "run",
            "predictions",
            "inside",
            "median error",
            "of Slurm's plan",
            "mean",
            "of the plan",
            "width",
        )
        print_table("Starts of pending jobs, intervals of 80 %, seconds", heads, rows)


if __name__ == "__main__":
    main()
