"""Coins as rivals of the shutdown system's trained networks.

    python -m benchmarks.shutdown_blind DAYS

Policies that toss a coin every minute: reserve all nodes or none. One is blind; the other has one coin for
minutes in which jobs wait and one for those in which none does. Their odds are chosen on the train days by
the paper's reward, and judged on the test days, beside T(0) and the adaptive rule. An agent that has not
passed them has learnt nothing from what it observes.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Literal

import numpy as np

from benchmarks.measure import print_table
from gridtune.systems.shutdown.environment import read_training_days
from gridtune.systems.shutdown.metrics import combine_days, measure_days
from gridtune.systems.shutdown.simulator.clusters import ClusterBatch
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from gridtune.types import IntArray

#: Odds of reserving all nodes that are tried.
ODDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
#: The queue length among the numbers of an observation.
QUEUE_LENGTH = 6

Odds = tuple[float, float]


def toss(days: Days, odds: Odds, seed: int) -> IntArray:
    """Return reservations of shape (days, minutes): all nodes with the odds of the minute, otherwise none.

    The odds are those while no job waits, and while one does.
    """
    rng, count = np.random.default_rng(seed), len(days)
    batch = ClusterBatch(days, Platform(), count=count)
    batch.reset(np.arange(count))
    reserved = np.zeros((count, int(days.minutes.max())), np.int64)
    for minute in range(reserved.shape[1]):
        waiting = batch.observations[:, QUEUE_LENGTH] > 0
        all_off = rng.random(count) < np.where(waiting, odds[1], odds[0])
        reserved[:, minute] = np.where(all_off, Platform().nodes, 0)
        batch.step(reserved[:, minute])
    return reserved


def measure(days: Days, reserved: IntArray | Literal["timeout", "adaptive"]) -> dict[str, float]:
    """Return the shutdown system's metrics of reservations or of a rule; `timeout` is T(0)."""
    results, _ = replay(days, rule=reserved, timeout=0)
    return combine_days(measure_days(days, results, Platform()))


def main() -> None:
    """Choose the odds on train days and print what they come to on test days."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("days", metavar="DAYS", help="archive of days with a part to train on")
    parser.add_argument("--train", type=int, default=200, help="train days that choose the odds (200)")
    parser.add_argument("--repeats", type=int, default=4, help="tosses of the test days (4)")
    chosen = parser.parse_args()
    train = read_training_days(chosen.days, "train")
    train = train.take(np.linspace(0, len(train) - 1, min(chosen.train, len(train))).astype(np.int64))
    test = read_training_days(chosen.days, "test")

    def score(odds: Odds) -> float:
        return measure(train, toss(train, odds, seed=0))["score_per_day"]

    blind = max(((odds, odds) for odds in ODDS), key=score)
    seeing = max(product(ODDS, ODDS), key=score)
    played = {"T(0)": [measure(test, "timeout")], "adaptive": [measure(test, "adaptive")]}
    for name, odds in (("blind coin", blind), ("coin that sees whether jobs wait", seeing)):
        label = f"{name}: all nodes with odds {odds[0]} (none waits), {odds[1]} (some wait)"
        played[label] = [measure(test, toss(test, odds, seed)) for seed in range(chosen.repeats)]
    likeliest = float(seeing[0] >= 0.5), float(seeing[1] >= 0.5)
    played["its likeliest choices"] = [measure(test, toss(test, likeliest, seed=0))]
    names = ("score_per_day", "energy_waste_per_day", "switches_per_day", "stretch_mean", "qos_violations")
    rows = [
        (label, *(f"{np.mean([values[name] for values in runs]):,.2f}" for name in names))
        for label, runs in played.items()
    ]
    print_table(f"{len(test)} test days", ("policy", *names), rows)


if __name__ == "__main__":
    main()
