"""Which pool and which order give an elastic site most responsiveness for its cost, judged on later data.

    python -m benchmarks.responsive_autoscalers [--sites 12 29 …] [--trials 24] [--keep FOLDER]

Fifteen sites of LCG-2005 with at least 1,500 jobs and 8 running jobs on average, with as many cores to begin
with as make their load 0.56. The second half of each log is set aside. On the first half, gridtune's own
search (Optuna's TPE, two objectives: W and cost) tunes each rule of the pool with --trials configurations,
under the order `fair_index`, and all are judged on the second quarter. Of
each rule, up to nine configurations that no other dominates are measured on the second half, under every
order; those of "best rule" are not dominated by any rule's. There, W at equal cost is interpolated between
neighbours in cost; two policies are compared over the costs that both reach, up to 3 × the work. Intervals:
over sites, and over days within the sites.

Finished sites are kept in --keep (results/responsive_autoscalers) and are not run again.
"""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measure import arguments, print_machine, print_table
from gridtune.core.style import MARKERS, PALETTE, figure, head, save
from gridtune.sweep.run import run_space
from gridtune.systems.responsive.metrics import counted_jobs, measure_site
from gridtune.systems.responsive.parameters import ResponsiveParameters
from gridtune.systems.responsive.simulator.replay import replay
from gridtune.systems.responsive.system import (
    ResponsiveSystem,
)
from gridtune.workload.files import WorkloadReference

#: Partitions of LCG-2005, with as many cores as make their load 0.56.
SITES = {
    **{2: 28, 3: 75, 6: 68, 8: 136, 12: 81, 14: 25, 17: 111, 28: 61, 29: 79},
    **{40: 648, 41: 323, 42: 77, 52: 446, 55: 21, 156: 109},
}
#: Configurations of a rule that are measured on the later data, at most.
MOST = 9
#: Cost over work at which policies are compared.
GRID = (1.2, 1.35, 1.5, 1.75, 2.0, 2.5)
ORDERS = ("fcfs", "sjf", "interactive_first", "youngest_interactive", "fair_index")
RULES = ("demand", "keda")
#: The largest cost over work that is compared, and what is: [over sites], W also [over days].
DEAREST = 3.0
COMPARED = ("responsiveness_mean", "interactive_wait_p95")
DAY = 86_400


def dimensions(pool: str, cores: int) -> dict[str, Any]:
    """Return what is tuned of a rule: all keep a number of cores warm, and idle cores for a while."""
    idle = {"idle_seconds": {"integer": [0, 14_400]}}
    cooldown = {"cooldown": {"integer": [0, 14_400]}}
    headroom = {"headroom": {"uniform": [1.0, 4.0]}}
    of_rules: dict[str, dict[str, Any]] = {
        "demand": {**headroom, **idle},
        "keda": {"jobs_per_core": {"loguniform": [0.25, 2.0]}, **cooldown},
    }
    return {"floor": {"integer": [1, cores // 2]}, **of_rules[pool]}


class GridSite:
    """One site: its jobs, and what policies make of its second half."""

    def __init__(self, name: str, log: dict[str, Any], cores: int) -> None:
        self.name, self.log, self.cores = name, log, cores
        self.fixed = {**log, "cores": cores, "largest": 4 * cores, "site": "elastic"}
        self.system = ResponsiveSystem()
        parameters = ResponsiveParameters(**log, cores=cores)
        workload = self.system.selected(parameters, _load)
        self.half = len(workload) // 2
        first, last = parameters.split_log(workload, _streams)
        _, self.jobs = parameters.site_jobs(first, last)

    def tuned(self, pool: str, trials: int, folder: Path) -> list[dict[str, Any]]:
        """Return the configurations that no other of the rule dominates in W and cost on the tuning data."""
        names = dimensions(pool, self.cores)
        space = {
            "name": f"{self.name}_{pool}",
            "system": "responsive",
            "fixed": {**self.fixed, "first": self.half, "pool": pool, "policy": "fair_index"},
            "dimensions": names,
            "objective": ["responsiveness_mean", "cost"],
            "strategy": {"optuna": {"trials": trials, "seed": 1}},
        }
        results = run_space(space, directory=folder / f"{self.name}_{pool}", executor="inline").results
        tried = [
            {
                "pool": pool,
                **{name: result.parameters[name] for name in names},
                "tuned": (result.metrics["responsiveness_mean"], result.metrics["cost"]),
            }
            for result in results
            if result.state == "done"
        ]
        return front(tried)

    def measured(self, order: str, configuration: dict[str, Any]) -> dict[str, Any]:
        """Return cost over work, W and waits on the second half, and W of the jobs of each day."""
        values = {name: value for name, value in configuration.items() if name != "tuned"}
        if configuration["pool"] == "static":
            fixed = {**self.log, "cores": values["cores"]}
            parameters = ResponsiveParameters(**fixed)
        else:
            parameters = ResponsiveParameters(**{**self.fixed, **values})
        model = parameters.site_model(parameters.cores or self.cores)
        outcome = replay(self.jobs, model, order)  # type: ignore[arg-type]
        metrics = measure_site(self.jobs, outcome, weight=0.5)
        counted = counted_jobs(len(self.jobs))
        wait = (outcome.start - self.jobs.submit)[counted]
        run = self.jobs.run[counted]
        day = (self.jobs.submit[counted] - self.jobs.submit[0]) // DAY
        return {
            "cost": metrics["cost"] * 3600 / float(self.jobs.run.sum()),
            **{
                name: metrics[name]
                for name in (
                    "responsiveness_mean",
                    "interactive_responsiveness_mean",
                    "interactive_wait_p95",
                    "interactive_wait_mean",
                    "batch_wait_mean",
                    "boots",
                )
            },
            "days": np.bincount(day, run / (run + wait)).tolist(),
            "jobs": np.bincount(day).tolist(),
        }


@cache
def _load(reference: str) -> Any:
    parsed = WorkloadReference.parse(reference)
    return parsed.read(Path.cwd())


def _streams(purpose: str) -> np.random.Generator:
    return np.random.default_rng(0)


def front(tried: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the configurations that no other dominates, by cost; at most `MOST` of them, evenly."""
    kept: list[dict[str, Any]] = []
    for one in sorted(tried, key=lambda one: (one["tuned"][1], -one["tuned"][0])):
        if not kept or one["tuned"][0] > kept[-1]["tuned"][0]:
            kept.append(one)
    places = np.unique(np.linspace(0, len(kept) - 1, min(len(kept), MOST)).round().astype(int))
    return [kept[place] for place in places]


def run_site(site: GridSite, trials: int, folder: Path) -> dict[str, Any]:
    """Tune every rule on the first half, and measure what was chosen on the second."""
    chosen = {pool: site.tuned(pool, trials, folder) for pool in RULES}
    chosen["best rule"] = front([one for pool in RULES for one in chosen[pool]])
    chosen["static"] = [
        {"pool": "static", "cores": max(1, round(site.cores * share))}
        for share in (0.5, 0.6, 0.75, 0.9, 1.1, 1.3, 1.6)
    ]
    results: dict[str, Any] = {}
    for pool, configurations in chosen.items():
        for order in ORDERS:
            results[f"{pool} | {order}"] = [
                {**configuration, **site.measured(order, configuration)} for configuration in configurations
            ]
    return {"site": site.name, "results": results}


def at_cost(points: list[dict[str, Any]], cost: float, metric: str) -> tuple[float, list[tuple[int, float]]]:
    """Return a metric at a cost by linear interpolation, and the points with their weights; NaN outside."""
    order = np.argsort([point["cost"] for point in points])
    costs = np.array([points[place]["cost"] for place in order])
    if len(points) == 0 or not costs[0] <= cost <= costs[-1]:
        return float("nan"), []
    above = int(np.searchsorted(costs, cost))
    if above == 0:
        return points[order[0]][metric], [(int(order[0]), 1.0)]
    share = (cost - costs[above - 1]) / max(costs[above] - costs[above - 1], 1e-12)
    weights = [(int(order[above - 1]), 1 - share), (int(order[above]), share)]
    return sum(weight * points[place][metric] for place, weight in weights), weights


def along(points: list[dict[str, Any]], costs: npt.NDArray[np.float64], metric: str) -> tuple[float, Any]:
    """Return the mean of a metric over costs, and the weight of each point in it."""
    values, total = [], np.zeros(len(points))
    for cost in costs:
        value, weights = at_cost(points, cost, metric)
        values.append(value)
        for place, weight in weights:
            total[place] += weight / len(costs)
    return float(np.mean(values)), total


def compare(sites: list[dict[str, Any]], one: str, other: str, metric: str) -> str:
    """Return the mean difference over the costs that both reach, with intervals over sites and over days."""
    rng = np.random.default_rng(0)
    differences, days = [], []
    for site in sites:
        pair = [site["results"][name] for name in (one, other)]
        reached = [[point["cost"] for point in points] for points in pair]
        least, most = max(min(costs) for costs in reached), min(max(costs) for costs in reached)
        if least >= min(most, DEAREST):
            continue
        costs = np.geomspace(least, min(most, DEAREST), 21)
        (mine, my_weights), (theirs, their_weights) = (along(points, costs, metric) for points in pair)
        differences.append(mine - theirs)
        daily = [
            weights @ np.array([point["days"] for point in points])
            for points, weights in zip(pair, (my_weights, their_weights), strict=True)
        ]
        days.append((daily[0] - daily[1], np.array(pair[0][0]["jobs"])))
    values = np.array(differences)
    over_sites = values[rng.integers(len(values), size=(4000, len(values)))].mean(axis=1)
    over_days = np.zeros(4000)
    for change, jobs in days:
        drawn = rng.integers(len(jobs), size=(4000, len(jobs)))
        over_days += change[drawn].sum(axis=1) / np.maximum(jobs[drawn].sum(axis=1), 1) / len(days)
    # Only W is a sum over days.
    intervals = [over_sites, over_days] if metric == "responsiveness_mean" else [over_sites]
    digits = 4 if metric == "responsiveness_mean" else 0
    text = " ".join(
        f"[{np.quantile(drawn, 0.025):+.{digits}f}, {np.quantile(drawn, 0.975):+.{digits}f}]"
        for drawn in intervals
    )
    return f"{values.mean():+.{digits}f} {text}, {(values > 0).sum()} of {len(values)}"


def draw(sites: list[dict[str, Any]], path: Path) -> None:
    """Draw W against cost of each pool, under the same order, on the first six sites."""
    pools = RULES
    with figure(11, 6.4, 2, ncols=3, sharey=True) as (drawing, axes):
        for panel, site in zip(axes.flat, sites, strict=False):
            for number, pool in enumerate(pools):
                points = site["results"][f"{pool} | fair_index"]
                line = np.array(sorted((point["cost"], point["responsiveness_mean"]) for point in points))
                look = {
                    "color": PALETTE[number % len(PALETTE)],
                    "marker": MARKERS[number],
                    "markersize": 4,
                    "linewidth": 0.8,
                }
                panel.plot(*line.T, label=pool, **look)
            head(panel, site["site"].replace("lcg_", "LCG site "))
            panel.set_xlim(1, DEAREST)
            panel.set_ylim(0.6, 1.01)
        for panel in axes[1]:
            panel.set_xlabel("cost, times the work of the jobs")
        for panel in axes[:, 0]:
            panel.set_ylabel("mean responsiveness W")
        drawing.legend(
            *axes[0, 0].get_legend_handles_labels(), title="rule of the pool", loc="outside right upper"
        )
        save(drawing, path)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--sites", type=int, nargs="*", default=sorted(SITES), help="partitions (all)")
    parser.add_argument("--trials", type=int, default=24, help="configurations of each rule (24)")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no site after this many seconds")
    parser.add_argument("--figure", type=Path, help="draw W against cost here")
    parser.add_argument("--keep", type=Path, default=Path("results/responsive_autoscalers"))
    options = parser.parse_args()
    lcg = {"trace": "lcg-2005", "clean": "default,drop_zero_run_time"}
    logs = {f"lcg_{site}": ({**lcg, "partition": site}, SITES[site]) for site in options.sites}
    sites, begin = [], time.perf_counter()
    for name, (log, cores) in logs.items():
        file = options.keep / f"{name}.json"
        if not file.exists():
            if time.perf_counter() - begin > options.seconds:
                continue
            started = time.perf_counter()
            result = run_site(GridSite(name, log, cores), options.trials, options.keep)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(result), encoding="utf-8")
            print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)
        sites.append(json.loads(file.read_text(encoding="utf-8")))
    print_machine()
    report(sites)
    if options.figure:
        draw(sites, options.figure)


def report(sites: list[dict[str, Any]]) -> None:
    """Print W and waits at equal cost, and the differences that the study asks for."""
    pools = (*RULES, "best rule", "static")
    names = [*(f"{pool} | fair_index" for pool in pools), *(f"demand | {order}" for order in ORDERS)]
    for metric, digits in (("responsiveness_mean", 4), ("interactive_wait_p95", 0)):
        rows = []
        for name in names:
            row: list[object] = [name.replace("|", "·")]
            for cost in GRID:
                values = [at_cost(site["results"][name], cost, metric)[0] for site in sites]
                there = [value for value in values if not np.isnan(value)]
                row.append(f"{np.mean(there):.{digits}f} ({len(there)})" if there else "–")
            rows.append(row)
        print_table(f"{metric} at a cost of … × work (sites)", ["pool · order", *map(str, GRID)], rows)
    pairs = [
        *(("demand | fair_index", f"{pool} | fair_index") for pool in (*RULES[1:], "static", "best rule")),
    ]
    rows = [
        [f"{one} − {other}".replace("|", "·"), *(compare(sites, one, other, metric) for metric in COMPARED)]
        for one, other in pairs
    ]
    print_table("Mean difference over the costs that both reach", ["", *COMPARED], rows)


if __name__ == "__main__":
    main()
