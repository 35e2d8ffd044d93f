"""How near the EGEE-like workload is to the published site: run times, and waits with and without its limits.

    python -m benchmarks.egee_calibration [--first 200] [--seeds 32]

NAT, the real site's scheduler, is first come, first served with at most 17 running jobs of a user and 3 s
from a decision to the start; the others have neither. The process was fitted on the seeds 100 to 131, so the
default seeds played no part. Waits vary hugely between seeds: medians over seeds are shown, else means.
"""

from __future__ import annotations

import argparse

import numpy as np

from gridtune.systems.responsive.egee import TARGET_SHARES
from gridtune.systems.responsive.metrics import measure_site
from gridtune.systems.responsive.simulator.replay import Rule, replay
from gridtune.systems.responsive.simulator.site import SiteModel, build_jobs
from gridtune.workload.describe import offered_load
from gridtune.workload.generators import generate_workload

JOBS = 9500
NATIVE: Rule = "capped_fcfs"
RULES: tuple[Rule, ...] = (
    NATIVE,
    "fcfs",
    "fair_share",
    "lifo",
    "interactive_first",
    "youngest_interactive",
    "fair_index",
)
#: Each metric with NAT and RIG-EST-0.5 of Perez et al. 2009 (tables 2 and 3) and RL-ESN-EST of 2010.
SHOWN = {
    "interactive_responsiveness_mean": (0.628, 0.864, 0.95),
    "interactive_responsiveness_std": (0.418, 0.319, 0.19),
    "batch_responsiveness_mean": (0.830, 0.894, 0.93),
    "batch_responsiveness_std": (0.265, 0.223, 0.17),
    "interactive_wait_mean": (2756, 1087, 495),
    "interactive_wait_std": (8844, 4838, 3589),
    "interactive_wait_p99": (np.nan, np.nan, np.nan),
    "interactive_wait_max": (np.nan, np.nan, np.nan),
    "batch_wait_mean": (13041, np.nan, 3492),
    "batch_wait_std": (26726, np.nan, 12175),
    "interactive_wait_below_120": (0.63, 0.86, np.nan),
    "fairness_mean": (0.7, np.nan, np.nan),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--first", type=int, default=200, help="first seed (200)")
    parser.add_argument("--seeds", type=int, default=32, help="number of seeds (32)")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    workloads = [generate_workload("egee", jobs=JOBS, seed=seed, load=0.56) for seed in seeds]
    first = workloads[0].run_time
    for name, run in (("interactive", first[first < 900]), ("batch", first[first >= 900])):
        statistics = f"mean {run.mean():.0f}, median {np.median(run):.0f}, sd {run.std():.0f} s"
        print(f"{name}: {len(run)} jobs, {statistics}")
    print(f"load {offered_load(workloads[0]):.2f}; seeds {seeds[0]} to {seeds[-1]}: waits are medians")
    sites = [build_jobs(workload, vos=np.arange(1, 7), shares=TARGET_SHARES) for workload in workloads]
    columns = []
    for rule in RULES:
        model = SiteModel(start_latency=3 if rule == NATIVE else 0)
        metrics = [measure_site(jobs, replay(jobs, model, rule), weight=0.5) for jobs in sites]
        columns.append({name: _typical(name, [values[name] for values in metrics]) for name in SHOWN})
    print(f"{'':32}{'NAT':>9}{'2009':>9}{'2010':>9}" + "".join(f"{rule:>22}" for rule in RULES))
    for name, published in SHOWN.items():
        ours = "".join(f"{column[name]:>22.4g}" for column in columns)
        print(f"{name:32}" + "".join(f"{value:>9.4g}" for value in published) + ours)


def _typical(name: str, values: list[float]) -> float:
    is_wait = "_wait_" in name and not name.endswith("below_120")
    return float(np.median(values) if is_wait else np.mean(values))


if __name__ == "__main__":
    main()
