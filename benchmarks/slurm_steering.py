"""Waits of a real Slurm under steering: predicted before the runs, and recorded.

    python -m benchmarks.slurm_steering SITE --predict FILE     predict the mean waits of each order
    python -m benchmarks.slurm_steering SITE --against FILE RUN...   compare runs with the prediction

SITE is a folder that `scripts/slurm_farm` runs; it has the jobs with their run times. A RUN is a folder that
the script leaves, named after its order and repeat, as in `24.11-saf-2`. Each order is replayed 20 times with
random phases of Slurm's clocks. The prediction carries a checksum of its content.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.slurm_runs import request_of
from gridtune.batch.policies.rollout import RECOMMENDED
from gridtune.core.cells import content_id
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.kernel.arrays import Phases
from gridtune.slurm.replay import replay
from gridtune.slurm.requests import Request

#: Order and guard by the name of a run; multifactor is not steered.
ORDERS: dict[str, tuple[str | None, int | None]] = {
    "multifactor": (None, None),
    "fcfs": ("fcfs", None),
    "saf": ("saf", 7200),
    "rollout": (RECOMMENDED, 7200),
}
RELEASES = {"22.05": "22.05.8", "24.11": "24.11.5", "26.05": "26.05.5"}
DRAWS = 20
#: A job without a run time runs to its limit.
NEVER_ENDS = 1_000_000


def requests_of(site: Path) -> list[Request]:
    """Return the jobs of a site as they are submitted."""
    requests = []
    with (site / "workload.csv").open() as file:
        for row in csv.DictReader(file):
            run = int(row["wall_time"])
            told = {
                "submit": row["dt"],
                "elapsed": str(run if run >= 0 else NEVER_ENDS),
                "wid": row["job_id"],
            }
            request, unknown = request_of({**row, **told, "mem_req": row["mem"]}, {})
            if unknown:
                raise SystemExit(f"job {row['job_id']} has options without a field: {unknown}")
            requests.append(request)
    return requests


def predict(site: Path) -> dict[str, Any]:
    """Return mean and longest waits, and the deviation of the draws, by release and order."""
    requests = requests_of(site)
    submits = np.array([request.submit for request in requests])
    predicted: dict[str, Any] = {}
    for release, version in RELEASES.items():
        with tempfile.TemporaryDirectory() as folder:
            # The replay reads sacctmgr's commands under another name.
            shutil.copytree(site, folder, dirs_exist_ok=True)
            shutil.copy(site / "sacctmgr.txt", Path(folder) / "sacctmgr.script")
            cluster = read_cluster(Path(folder), version=version)
        for name, (order, guard) in ORDERS.items():
            drawn = [Phases.draw(cluster, np.random.default_rng([1, draw])) for draw in range(DRAWS)]
            waits = np.array(
                [replay(cluster, requests, phases, order=order, guard=guard).start for phases in drawn]
            )
            waits -= submits
            predicted[f"{release} {name}"] = {
                "mean": round(float(waits.mean()), 1),
                "deviation": round(float(waits.mean(axis=1).std(ddof=1)), 1),
                "longest": round(float(waits.max(axis=1).mean())),
            }
    return predicted


def recorded_waits(run: Path) -> list[int]:
    """Return the waits of a run's jobs from eligibility, seconds."""
    with (run / "golden.csv").open() as file:
        return [int(row["wait"]) for row in csv.DictReader(file) if row["start"]]


def compare(predicted: dict[str, Any], runs: list[Path]) -> list[str]:
    """Return a table in Markdown of mean waits, predicted: recorded in each run, and lines on those missed.

    In brackets are the differences to multifactor. A prediction is right within 5 % or twice the spread of
    the repeats of its order, or of multifactor's where there is one run alone.
    """
    means: dict[str, list[float]] = {}
    for run in sorted(runs):
        release, name, _ = run.name.split("-")
        means.setdefault(f"{release} {name}", []).append(float(np.mean(recorded_waits(run))))
    rows, lines = [["order", *RELEASES], ["---"] * (1 + len(RELEASES))], []
    for name in ORDERS:
        row = [name]
        for release in RELEASES:
            key, base = f"{release} {name}", f"{release} multifactor"
            values, others = means.get(key, []), means.get(base, [])
            if not values or not others:
                row.append("")
                continue
            told, mean = predicted[key]["mean"], float(np.mean(values))
            signs = [told / predicted[base]["mean"] - 1, mean / float(np.mean(others)) - 1]
            differences = ["" if key == base else f" ({100 * sign:+.0f} %)" for sign in signs]
            recorded = ", ".join(f"{value:.0f}" for value in values)
            row.append(f"{told:.0f}{differences[0]}: {recorded}{differences[1]}")
            spread = np.ptp(values if len(values) > 1 else others)
            allowed = max(0.05 * mean, 2 * float(spread))
            if abs(told - mean) > allowed:
                lines.append(f"{key}: {told - mean:+.0f} s off, {allowed:.0f} s allowed")
            if signs[0] * signs[1] < 0:
                lines.append(f"{key}: the sign of the difference is wrong")
        rows.append(row)
    return [f"| {' | '.join(row)} |" for row in rows] + lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("site", type=Path)
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN")
    parser.add_argument("--predict", type=Path, metavar="FILE")
    parser.add_argument("--against", type=Path, metavar="FILE")
    arguments = parser.parse_intermixed_args()
    if arguments.predict:
        workload = (arguments.site / "workload.csv").read_text()
        content = {"workload": content_id(workload), "draws": DRAWS, "waits": predict(arguments.site)}
        text = json.dumps({**content, "checksum": content_id(content)}, indent=2)
        arguments.predict.write_text(text + "\n")
        print(text)
        return
    stored = json.loads(arguments.against.read_text())
    content = {key: value for key, value in stored.items() if key != "checksum"}
    if content_id(content) != stored["checksum"]:
        raise SystemExit(f"{arguments.against} was changed after it was written")
    print("\n".join(compare(stored["waits"], arguments.runs)))


if __name__ == "__main__":
    main()
