"""Set a trained policy beside the rules on days it has not been trained on.

    python scripts/evaluate_shutdown.py taurus-days.tar.xz --checkpoint taurus

Prints, per day, what the policy wastes when its actions are drawn (several times) and when the likeliest is
taken, what the rules waste, and the paired differences over the same days.
"""

import argparse
import sys
from typing import Any

import numpy as np
import torch

from gridtune.statistics.inference import paired_difference
from gridtune.systems.shutdown.environment import read_training_days
from gridtune.systems.shutdown.learners.playing import play_days
from gridtune.systems.shutdown.metrics import combine_days, measure_days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from gridtune.systems.shutdown.system import CLUSTERS
from gridtune.training.checkpoints import load_policy

RULES = {
    "T(0)": {"rule": "timeout", "timeout": 0},
    "T(1)": {"rule": "timeout", "timeout": 1},
    "T(5)": {"rule": "timeout", "timeout": 5},
    "OR*": {"rule": "oracle"},
}
SHOWN = (
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


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", help="the days: a folder or archive of logs, or the name of a bundled trace")
    parser.add_argument("--checkpoint", required=True, help="file of a policy, or the name of a bundled one")
    parser.add_argument("--cluster", choices=CLUSTERS, default="taurus", help="its nodes (taurus)")
    parser.add_argument(
        "--subset", choices=("all", "train", "test"), default="test", help="which of the days (test)"
    )
    parser.add_argument("--repeats", type=int, default=4, help="times that actions are drawn (4)")
    parser.add_argument("--tau", type=float, default=0.5, help="share of its walltime a job may wait (0.5)")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    torch.set_num_threads(1)
    days = read_training_days(given.trace, given.subset)
    platform, network = Platform(*CLUSTERS[given.cluster]), load_policy(given.checkpoint)

    def measured(**rule: Any) -> dict[str, Any]:
        outcome, _ = replay(days, platform, tau=given.tau, **rule)
        return measure_days(days, outcome, platform, tau=given.tau)

    def played(rng: np.random.Generator | None) -> dict[str, Any]:
        return measured(rule=play_days(network, days, platform, rng=rng, tau=given.tau))

    told = {name: [measured(**rule)] for name, rule in RULES.items()}
    told["greedy"] = [played(None)]
    told["sampled"] = [played(np.random.default_rng(repeat)) for repeat in range(given.repeats)]
    print(f"{len(days)} days of {given.trace}, {given.subset}; policy {given.checkpoint}")
    print("| policy |", " | ".join(title for _, title, _ in SHOWN), "|")
    print("| --- |", " | ".join("---:" for _ in SHOWN), "|")
    for name, each in told.items():
        sums = [combine_days(measures) for measures in each]
        means = {metric: np.mean([one[metric] for one in sums]) for metric, _, _ in SHOWN}
        print(f"| {name} |", " | ".join(format(means[metric], form) for metric, _, form in SHOWN), "|")
    print("\n| waste | less than | by | 95 % | | switches | by | 95 % |")
    print("| --- | --- | ---: | --- | --- | --- | ---: | --- |")
    for name in ("greedy", "sampled"):
        for rival in RULES:
            parts = []
            for column in ("energy_waste", "switches"):
                ours = np.mean([measures[column] for measures in told[name]], axis=0)
                found = paired_difference(ours, told[rival][0][column], rng=np.random.default_rng(1))
                low, high = found.relative_low, found.relative_high
                parts.append(f"{found.relative:+.1%} | [{low:+.1%}, {high:+.1%}]")
            print(f"| {name} | {rival} | {parts[0]} | | | {parts[1]} |")


if __name__ == "__main__":
    sys.exit(main())
