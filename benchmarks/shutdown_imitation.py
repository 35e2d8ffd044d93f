"""Whether a network that imitates plans made in hindsight wastes less than rules that need no training.

    python -m benchmarks.shutdown_imitation DAYS --out policy.pt [--days 120] [--rounds 3]

The network of effects learns, by cross-entropy, the reservations that `policy=hindsight` makes on train days,
where it knows all run times and submissions. In the first round it learns from days that hindsight plays; in
each later one also from days that the network of the round before plays, with what hindsight would do in the
situations that it gets into (S. Ross et al., "A reduction of imitation learning and structured prediction to
no-regret online learning", 2011: DAgger). Time goes on at midnight: two days, one after the other. The file
is played with `gridtune run shutdown … policy=ppo checkpoint=policy.pt greedy=true`.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.measure import arguments
from gridtune.core.compiled import bare, kernel, record_of
from gridtune.systems.shutdown.environment import read_training_days
from gridtune.systems.shutdown.learners.effect_network import EffectNetwork
from gridtune.systems.shutdown.learners.playing import play_days
from gridtune.systems.shutdown.simulator.clusters import ClusterBatch
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.observing import features_of
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.rules import (
    LOOKAHEAD,
    LookaheadRule,
    lookahead_reservation,
    rule_record,
)
from gridtune.systems.shutdown.simulator.state import build_model, cluster_at, jobs_of, new_arena
from gridtune.systems.shutdown.simulator.stepping import act, is_over, pass_minute, reset_cluster
from gridtune.training.networks import make_network, write_checkpoint

Int64s = npt.NDArray[np.int64]

#: Days in an episode; passes over the examples, their number in a minibatch, the learning rate.
CHAIN, EPOCHS, EXAMPLES, RATE = 2, 8, 1024, 1e-3


@kernel()
def advise(model, arena, rules, played, advised):
    """Write what hindsight would reserve in each minute of days: shape (days, minutes), int64.

    What is `played` may be something else; where it is below 0, the advice is played and written there.
    """
    cluster, rule = cluster_at(model, arena, 0), rules[0]
    guesses = np.zeros(model.first[-1] + 1, np.int64)
    for day in range(model.minutes.size):
        jobs, horizon = jobs_of(model, day), model.minutes[day]
        reset_cluster(cluster, jobs, day)
        while not is_over(cluster, jobs, horizon):
            now = record_of(cluster.memory).now
            advised[day, now] = lookahead_reservation(model, arena, jobs, bare(guesses), rule, horizon)
            if played[day, now] < 0:
                played[day, now] = advised[day, now]
            act(cluster, jobs, played[day, now])
            pass_minute(cluster, jobs, horizon)


def advice_on(days: Days, platform: Platform, played: Int64s) -> Int64s:
    """Return hindsight's reservations on days that are played: shape (days, minutes)."""
    model, advised = build_model(days, platform), np.zeros_like(played)
    rule = rule_record(LOOKAHEAD, **asdict(LookaheadRule(run_times=True, hindsight=True)))
    advise(model, new_arena(model, 2), rule, played, advised)
    return advised


def examples_of(
    days: Days, platform: Platform, played: Int64s, advised: Int64s, network: EffectNetwork
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what is seen at the decisions of days that are played, and the row that is advised there."""
    batch = ClusterBatch(days, platform, count=len(days), view="effects")
    batch.reset(np.arange(len(days)))
    seen, chosen = [], []
    for minute in range(played.shape[1]):
        observations = torch.from_numpy(batch.observations)
        rows = network._rows(observations)[..., 0] > 0.5
        asked = rows.sum(-1) > 1
        if asked.any():
            advice = torch.from_numpy(advised[:, minute])[asked].unsqueeze(-1)
            # The largest of the reservations with one effect has the row.
            numbers = torch.arange(network.actions)
            behind = rows[asked] & (numbers >= advice)
            last = (rows[asked] * numbers).argmax(-1)
            chosen.append(torch.where(behind.any(-1), behind.int().argmax(-1), last))
            seen.append(observations[asked].clone())
        batch.step(played[:, minute])
    return torch.cat(seen), torch.cat(chosen)


def fit(network: EffectNetwork, seen: torch.Tensor, chosen: torch.Tensor) -> float:
    """Train a network on examples; return the share of the last pass in which it chose what was advised."""
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    steps = EPOCHS * -(-len(seen) // EXAMPLES)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.05, steps)
    generator, state = torch.Generator().manual_seed(0), network.initial_state(1)
    for _ in range(EPOCHS):
        right = 0
        for part in torch.randperm(len(seen), generator=generator).split(EXAMPLES):
            logits = network(seen[part][None], torch.zeros(1, len(part), dtype=torch.bool), state).logits[0]
            loss = torch.nn.functional.cross_entropy(logits, chosen[part])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            right += int((logits.argmax(-1) == chosen[part]).sum())
    return right / len(seen)


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("trace", help="the days, of which the train days are used")
    parser.add_argument("--out", type=Path, required=True, help="file for the policy")
    parser.add_argument("--days", type=int, default=120, help="train days of each round (120)")
    parser.set_defaults(rounds=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    platform, everything = Platform(), read_training_days(options.trace)
    network = make_network("effects", features_of("effects", platform.nodes), platform.nodes + 1, seed=0)
    assert isinstance(network, EffectNetwork)
    drawn = np.random.default_rng(0).permutation(len(everything))
    all_seen, all_chosen = [], []
    for number in range(options.rounds):
        began = time.perf_counter()
        part = drawn[number * options.days : (number + 1) * options.days]
        days = everything.take(np.sort(part)).chained(CHAIN)
        minutes = int(days.minutes.max())
        played = np.full((len(days), minutes), -1, np.int64)
        if number:
            played = play_days(network, days, platform)
        advised = advice_on(days, platform, played)
        seen, chosen = examples_of(days, platform, played, advised, network)
        all_seen.append(seen)
        all_chosen.append(chosen)
        right = fit(network, torch.cat(all_seen), torch.cat(all_chosen))
        print(
            f"round {number + 1}: {sum(map(len, all_seen)):,} decisions, {right:.3f} as advised, "
            f"{time.perf_counter() - began:.0f} s",
            flush=True,
        )
        write_checkpoint(options.out, network, notes={"round": number + 1, "as_advised": right})


if __name__ == "__main__":
    main()
