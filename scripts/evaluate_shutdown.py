"""Compare a trained policy with the rules on days it was not trained on.

    python scripts/evaluate_shutdown.py taurus-days.tar.xz --checkpoint taurus-lstm
    python scripts/evaluate_shutdown.py FOLDER --weights weights.npz --subset all

Prints the metrics of the policy with sampled actions (mean of several repeats) and with the likeliest ones,
those of the rules, and the paired differences over the same days.
"""

import argparse
import sys
from itertools import product
from typing import Any

import numpy as np
import torch

from gridtune.statistics.inference import paired_difference
from gridtune.systems.shutdown.environment import read_training_days
from gridtune.systems.shutdown.metrics import combine_days, measure_days
from gridtune.systems.shutdown.parameters import CLUSTERS
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from gridtune.systems.shutdown.training import find_policy, load_published, play_days
from gridtune.training.networks import load_policy

RULES = {
    "T(0)": {"rule": "timeout", "timeout": 0},
    "T(1)": {"rule": "timeout", "timeout": 1},
    "T(5)": {"rule": "timeout", "timeout": 5},
    "OR*": {"rule": "oracle"},
    "adaptive": {"rule": "adaptive"},
    "lookahead": {"rule": "lookahead"},
}
COLUMNS = (
    ("energy_waste_per_day", "waste", ",.0f"),
    ("switches_per_day", "switches", ".1f"),
    ("stretch_mean", "stretch", ".3f"),
    ("wait_mean", "wait, s", ",.0f"),
    ("qos_delay_all_mean", "delay, s", ",.0f"),
    ("qos_violations", "violations", ",.0f"),
    ("qos_violations_all", "with unstarted", ",.0f"),
    ("jobs_finished", "finished", ",.0f"),
    ("score_per_day", "score", ".3f"),
)
#: Measures of a day whose changes are shown.
CHANGES = ("energy_waste", "switches", "stretch_mean")


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", help="the days: a folder or archive of logs, or the name of a bundled trace")
    policy = parser.add_mutually_exclusive_group(required=True)
    policy.add_argument("--checkpoint", help="a policy, as `checkpoint=` takes it")
    policy.add_argument("--weights", help="the authors' weights, as `weights=` takes them")
    parser.add_argument("--cluster", choices=CLUSTERS, default="taurus", help="cluster (taurus)")
    parser.add_argument("--subset", choices=("all", "train", "test"), default="test", help="days (test)")
    parser.add_argument("--groups", action="store_true", help="also by share of sequential submissions")
    parser.add_argument("--repeats", type=int, default=4, help="repeats with sampled actions (4)")
    parser.add_argument(
        "--tau", type=float, default=0.5, help="share of its walltime after which a job is late (0.5)"
    )
    return parser.parse_args()


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)
    days = read_training_days(options.trace, options.subset)
    platform, weights = Platform(*CLUSTERS[options.cluster]), options.weights
    network = load_published(weights) if weights else load_policy(find_policy(options.checkpoint))

    def measured(**rule: Any) -> dict[str, Any]:
        results, _ = replay(days, platform, tau=options.tau, **rule)
        return measure_days(days, results, platform, tau=options.tau)

    def played(rng: np.random.Generator | None) -> dict[str, Any]:
        return measured(rule=play_days(network, days, platform, rng=rng, tau=options.tau))

    results = {name: [measured(**rule)] for name, rule in RULES.items()}
    results["greedy"] = [played(None)]
    results["sampled"] = [played(np.random.default_rng(repeat)) for repeat in range(options.repeats)]
    print(f"{len(days)} days of {options.trace}, {options.subset}; policy {weights or options.checkpoint}")
    print("| policy |", " | ".join(title for _, title, _ in COLUMNS), "|")
    print("| --- |", " | ".join("---:" for _ in COLUMNS), "|")
    for name, repeats in results.items():
        metrics = [combine_days(measures) for measures in repeats]
        means = {metric: np.mean([values[metric] for values in metrics]) for metric, _, _ in COLUMNS}
        print(f"| {name} |", " | ".join(format(means[metric], form) for metric, _, form in COLUMNS), "|")
    groups = [np.ones(len(days), bool)]
    if options.groups:
        groups += [days.group == group for group in range(1, 6)]
    heads = ("policy", "against", "days", *(f"{column}, 95 %" for column in CHANGES))
    print("\n|", " | ".join(heads), "|\n|", " | ".join(["---"] * len(heads)), "|")
    for number, group in enumerate(groups):
        chosen = f"group {number}" if number else "all"
        for name, rival in product(("greedy", "sampled"), RULES):
            changes = (change(results[name], results[rival][0], column, group) for column in CHANGES)
            print(f"| {name} | {rival} | {chosen} |", " | ".join(changes), "|")


def change(ours: list[dict[str, Any]], rival: dict[str, Any], column: str, days: Any) -> str:
    """Return the paired change of a day's measure; only days with jobs have some."""
    mean = np.mean([measures[column] for measures in ours], axis=0)
    days = days & np.isfinite(mean) & np.isfinite(rival[column])
    if days.sum() < 2:
        return "–"
    difference = paired_difference(mean[days], rival[column][days], rng=np.random.default_rng(1))
    return f"{difference.relative:+.1%} [{difference.relative_low:+.1%}, {difference.relative_high:+.1%}]"


if __name__ == "__main__":
    sys.exit(main())
