"""Learned policies of batch beside rules and rollouts: one continuous replay of a log each.

    python -m benchmarks.batch_learners kth-sp2:2/2 ctc-sp2-reconstructed FILE --policy ppo-0 net-0.npz …

A policy is the folder of a training, a file of `benchmarks.batch_search` or `benchmarks.batch_stock`, or the
weights of a network as text (`benchmarks/networks`). All of them start the oldest job first once it has
waited for four days. J and its intervals are those of `benchmarks.lookahead`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gridtune as gt
from benchmarks.batch_search import GUARD, Player
from benchmarks.batch_stock import OPTIONS
from benchmarks.lookahead import DAY, ROLLOUTS, RULES, Comparison, log_of, table
from gridtune.batch.environment import BatchVectorEnv
from gridtune.batch.simulator.machines import STATE
from gridtune.study.predicting import block_sums, delay_of, resampled_blocks
from gridtune.systems.batch.learners.candidate_network import ENVIRONMENT
from gridtune.tracking.checkpoints import find_policy
from gridtune.training.networks import load_policy, read_checkpoint

#: The rules that rows of changes refer to; the first is J's baseline.
AGAINST = ("fcfs", "unicef", "f1, 2 days", "f1, 4 days", "saf, 2 days", "saf, 4 days", "wait", "index")
CLAIRVOYANT = "index, true run times"


def play(
    log: gt.Workload, choose: Callable[[Any], Any], *, guarded: bool = True, **options: Any
) -> gt.Schedule:
    """Replay a log by an agent, with a guard or without: `choose` returns an action for the machines."""
    machines = BatchVectorEnv(1, log, jobs=len(log), **options)
    everywhere, oldest = np.ones(1, np.bool_), np.zeros(1, np.int64)
    machines.begin(everywhere, oldest)
    limit = GUARD / (GUARD + DAY) if guarded else 1.0
    while not machines.over[0]:
        late = machines.observed[0, STATE + 5] > limit
        machines.decide(oldest if late else choose(machines), everywhere)
    return machines.schedule()


@torch.no_grad()
def by_checkpoint(file: Path, log: gt.Workload) -> gt.Schedule:
    """Replay a log by a policy that `gridtune train` has trained, by its likeliest choices."""
    options = {**read_checkpoint(file)["notes"][ENVIRONMENT], "candidates": 128}
    begins, state = torch.zeros(1, 1, dtype=torch.bool), torch.zeros(1, 0)
    network = load_policy(file).resized(options["candidates"] + (options["mode"] == "backfill"))

    def choose(machines: Any) -> Any:
        return network(torch.from_numpy(machines.observed)[None], begins, state).logits[0].argmax(-1).numpy()

    return play(log, choose, **options)


def by_layers(parts: list[np.ndarray], log: gt.Workload) -> gt.Schedule:
    """Replay a log by plain layers with a mask."""

    def choose(machines: Any) -> Any:
        value = machines.observed[0]
        rows = value[STATE:].reshape(machines.actions, -1)
        for place in range(0, len(parts), 2):
            value = parts[place] @ value + parts[place + 1]
            value = np.tanh(value) if place + 2 < len(parts) else value
        return np.array([np.where(rows[:, 0] > 0, value, -np.inf).argmax()])

    names = ("candidates", "predict", "order")
    return play(log, choose, **{name: OPTIONS[name] for name in names})


def by_file(place: Path, log: gt.Workload, extended: bool) -> gt.Schedule:
    """Replay a log by a learned policy."""
    if place.suffix == ".csv":
        player = Player("network", log)
        player.extended = extended
        return player.schedule(np.loadtxt(place))
    if place.suffix != ".npz":
        return by_checkpoint(find_policy(place), log)
    with np.load(place) as stored:
        kind = str(stored["kind"])
        if kind != "layers":
            player = Player(kind, log, stored["network"])
            player.extended = extended
            return player.schedule(stored["weights"])
        parts = [stored[name] for name in sorted(n for n in stored.files if n.startswith("arr_"))]
    return by_layers(parts, log)


class Learned(Comparison):
    """Policies, rules and rollouts on one log."""

    def __init__(self, label: str, log: gt.Workload, places: list[Path], extended: bool) -> None:
        self.label, self.jobs = label, len(log)
        self.learned = [place.name.removesuffix(".npz").removesuffix(".csv") for place in places] + [
            CLAIRVOYANT
        ]
        others = {**RULES, **{name: ROLLOUTS[name] for name in ("index", "wait")}}
        others[CLAIRVOYANT] = {**ROLLOUTS["index"], "walltime": "exact"}
        schedules = {name: gt.simulate(log, **options) for name, options in others.items()}
        schedules |= dict(
            zip(self.learned, (by_file(place, log, extended) for place in places), strict=False)
        )
        drawn = resampled_blocks(len(block_sums(schedules["fcfs"])))
        self.value, self.resampled, self.longest = {}, {}, {}
        for name, schedule in schedules.items():
            blocks = block_sums(schedule)
            self.value[name], self.resampled[name] = delay_of(blocks), delay_of(blocks[drawn])
            self.longest[name] = schedule.wait_time.max() / DAY


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logs", nargs="+", help="files or catalogued traces, with a part: kth-sp2:2/2")
    parser.add_argument("--policy", nargs="+", type=Path, default=[], help="learned policies")
    parser.add_argument("--extend", action="store_true", help="extend the guard of networks by the backlog")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for text in options.logs:
        label, log = log_of(text)
        one = Learned(label, log, options.policy, options.extend)
        best = one.best(3)
        rows = []
        for name in [*one.learned, "index", "wait", best, *(n for n in RULES if n != best)]:
            slowdown, response, wait, index = one.value[name]
            rows.append(
                [
                    name,
                    *(f"{value:,.1f}" for value in (slowdown, response / 1000)),
                    *(f"{wait:,.0f}", f"{index:,.0f}", f"{one.longest[name]:.1f}"),
                    *(one.change(name, other) if name != other else "" for other in (*AGAINST, best)),
                ]
            )
        table(
            [f"{label}: {len(log):,} jobs", "slowdown", "response 1,000 s", "mean wait s", "J", "longest d",
             *AGAINST, f"best in hindsight: {best}"],
            rows,
        )  # fmt: skip


if __name__ == "__main__":
    main()
