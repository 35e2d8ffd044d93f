"""How near the EGEE-like workload is to the published site: run times, and waits under simple rules.

python -m benchmarks.egee_calibration
"""

from __future__ import annotations

import argparse

import numpy as np

from gridtune.systems.responsive.egee import TARGET_SHARES
from gridtune.systems.responsive.metrics import measure_site
from gridtune.systems.responsive.simulator.jobs import build_jobs
from gridtune.systems.responsive.simulator.replay import Rule, replay
from gridtune.systems.responsive.simulator.site import SiteModel
from gridtune.workload.describe import offered_load
from gridtune.workload.generators import generate_workload

JOBS, SEEDS = 9500, 12
RULES: tuple[Rule, ...] = ("fair_share", "fcfs", "sjf")
SHOWN = (
    "interactive_responsiveness_mean",
    "interactive_responsiveness_std",
    "batch_responsiveness_mean",
    "batch_responsiveness_std",
    "interactive_wait_mean",
    "interactive_wait_std",
    "batch_wait_mean",
    "batch_wait_std",
    "interactive_wait_below_120",
    "fairness_mean",
)
#: NAT in tables 2 and 3 of Perez et al. 2009 and of 2010, and in their text.
PUBLISHED = (0.628, 0.418, 0.830, 0.265, 2756, 8844, 13041, 26726, 0.63, 0.7)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    workloads = [generate_workload("egee", jobs=JOBS, seed=seed, load=0.56) for seed in range(SEEDS)]
    first = workloads[0].run_time
    for name, run in (("interactive", first[first < 900]), ("batch", first[first >= 900])):
        statistics = f"mean {run.mean():.0f}, median {np.median(run):.0f}, sd {run.std():.0f} s"
        print(f"{name}: {len(run)} jobs, {statistics}")
    print(f"load {offered_load(workloads[0]):.2f}; mean over {SEEDS} seeds (standard deviation over seeds):")
    sites = [build_jobs(workload, vos=np.arange(1, 7), shares=TARGET_SHARES) for workload in workloads]
    measures = {}
    for rule in RULES:
        metrics = [measure_site(jobs, replay(jobs, SiteModel(), rule), weight=0.5) for jobs in sites]
        measures[rule] = np.array([[values[name] for name in SHOWN] for values in metrics])
    print(f"{'':32}{'published':>10}" + "".join(f"{rule:>22}" for rule in RULES))
    for place, name in enumerate(SHOWN):
        columns = [(measures[rule][:, place].mean(), measures[rule][:, place].std()) for rule in RULES]
        row = "".join(f"{f'{mean:.4g} ({spread:.3g})':>22}" for mean, spread in columns)
        print(f"{name:32}{PUBLISHED[place]:>10g}{row}")


if __name__ == "__main__":
    main()
