"""What learned schedulers reach on a real site's last half, and by how much, seed for seed.

    python -m benchmarks.responsive_reach [--log FILE] [--seeds 10] [--policies …] [--keep results.jsonl]

The site is `rl.ac.uk` of LCG-2005 (partition 12) on 81 cores: learned on the first half of its jobs, measured
on the second. Each seed moves every submission by up to ten seconds and draws other networks; all policies
of a seed see the same submissions. Differences are paired, with a 95 % bootstrap interval. Cells in the
file are not run again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import arguments, print_machine, print_table
from gridtune.statistics.inference import paired_difference
from gridtune.systems.responsive.system import ResponsiveSystem
from gridtune.workload import read_workload
from gridtune.workload.catalogue import resolve_trace

SITE = {"partition": 12, "cores": 81, "shake": 10, "weight": 0.5}
LEARNED: dict[str, dict[str, Any]] = {
    "improved": {"policy": "esn-counterfactual", "variant": "improved"},
    "paper, SARSA": {"policy": "esn-sarsa"},
    "paper, fitted Q": {"policy": "esn-fq"},
}
RULES: dict[str, dict[str, Any]] = {
    "FCFS": {"policy": "fcfs"},
    "fair share": {"policy": "fair_share"},
    "SJF": {"policy": "sjf"},
    "interactive first": {"policy": "interactive_first"},
    "SJF, oracle": {"policy": "sjf", "estimates": "oracle"},
}
ELASTIC: dict[str, dict[str, Any]] = {
    **{
        f"elastic improved, λ={weight}": {
            **LEARNED["improved"],
            "site": "elastic-paper",
            "weight": weight,
            "reservoirs": 5,
        }
        for weight in (0.3, 0.5, 0.7, 0.9)
    },
    **{
        f"fixed {cores}": {"policy": "interactive_first", "cores": cores}
        for cores in (81, 100, 120, 140, 160)
    },
    **{
        f"demand × {headroom}": {"policy": "interactive_first", "site": "elastic-paper", "headroom": headroom}
        for headroom in (1.2, 1.5, 2.0, 2.6, 3.0)
    },
    **{
        f"elastic improved, demand × {headroom}": {
            **LEARNED["improved"],
            "site": "elastic-paper",
            "reservoirs": 5,
            "headroom": headroom,
        }
        for headroom in (1.2, 1.5, 2.0, 2.6, 3.0)
    },
}
SHOWN = (
    "rigid_reward_mean",
    "interactive_responsiveness_mean",
    "responsiveness_mean",
    "fairness_mean",
    "core_hours",
)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--log", default="lcg-2005", help="the log: a file or a catalogued name (lcg-2005)")
    parser.add_argument("--seeds", type=int, default=10, help="replicates (10)")
    parser.add_argument("--policies", nargs="*", help="which to run; by default all of the rigid site")
    parser.add_argument("--keep", type=Path, help="file of finished cells, to resume from")
    options = parser.parse_args()
    policies = {**LEARNED, **RULES, **ELASTIC}
    names = options.policies or [*LEARNED, *RULES]
    print_machine()
    results = run(names, policies, options.log, options.seeds, options.keep)
    print_table(
        f"Means over {options.seeds} seeds",
        ["", *SHOWN],
        [[name, *(f"{results[name][m].mean():.4f}" for m in SHOWN)] for name in names],
    )
    for name in [name for name in names if name in LEARNED or name.startswith("elastic improved")]:
        differences(name, [other for other in names if other != name], results)


def run(
    names: list[str], policies: dict[str, dict[str, Any]], log: str, seeds: int, keep: Path | None
) -> dict[str, dict[str, np.ndarray]]:
    system, workload = ResponsiveSystem(), read_workload(resolve_trace(log))
    done: dict[tuple[str, int], dict[str, float]] = {}
    if keep is not None and keep.exists():
        for line in keep.read_text(encoding="utf-8").splitlines():
            cell = json.loads(line)
            done[cell["name"], cell["seed"]] = cell["metrics"]
    for seed in range(seeds):
        for name in names:
            if (name, seed) in done:
                continue
            parameters = system.Parameters(trace=log, **{**SITE, **policies[name]})
            streams = lambda purpose, seed=seed: np.random.default_rng((seed, *purpose.encode()))  # noqa: E731
            outcome = system.run(parameters, streams=streams, load=lambda _: workload, tables=False)
            done[name, seed] = dict(outcome.metrics)
            if keep is not None:
                with keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"name": name, "seed": seed, "metrics": done[name, seed]}) + "\n")
    return {
        name: {m: np.array([done[name, seed][m] for seed in range(seeds)]) for m in done[name, 0]}
        for name in names
    }


def differences(name: str, others: list[str], results: dict[str, dict[str, np.ndarray]]) -> None:
    rows = []
    for other in others:
        row = [other]
        for metric in SHOWN:
            pair = results[name][metric], results[other][metric]
            pair_difference = paired_difference(*pair, rng=np.random.default_rng(0))
            row.append(
                f"{pair_difference.difference:+.4f} [{pair_difference.low:+.4f}, {pair_difference.high:+.4f}]"
            )
        rows.append(row)
    print_table(f"{name}, less …", ["", *SHOWN], rows)


if __name__ == "__main__":
    main()
