"""PPO in the batch environment, judged by whole replays of the jobs held out.

    python -m benchmarks.batch_ppo --decisions 20e6 --seed 0 --out ppo-0.pt

The training is that of `gridtune train batch`, in this process, on the first 70 % of KTH's first half, with
warm machines, predictions and the reward `delay`. Judged is J (`delay_index`) on the rest of the half, by
the likeliest choices, with a guard of four days and without, and by drawn ones with the guard. FILE has the
network of the least J by the likeliest choices, of the six that are judged.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

import gridtune as gt
from benchmarks.batch_learners import play
from benchmarks.batch_stock import learned_jobs
from gridtune.batch.environment import BatchVectorEnv, read_jobs
from gridtune.systems.batch.learners.candidate_network import ENVIRONMENT, CandidateNetwork
from gridtune.training.acting import Actor
from gridtune.training.networks import write_checkpoint
from gridtune.training.ppo import ADAM_EPSILON, PPOSettings, collect, ppo_losses, update_seed

OPTIONS = {"predict": True, "order": "sjf"}


@torch.no_grad()
def judged(network: CandidateNetwork, log: gt.Workload, *, drawn: bool, guarded: bool = True) -> float:
    """Return J of a replay."""
    wide, begins, state = network.resized(128), torch.zeros(1, 1, dtype=torch.bool), torch.zeros(1, 0)

    def choose(machines: BatchVectorEnv) -> np.ndarray:
        logits = wide(torch.from_numpy(machines.observed)[None], begins, state).logits[0]
        return (torch.multinomial(logits.softmax(-1), 1)[:, 0] if drawn else logits.argmax(-1)).numpy()

    schedule = play(log, choose, guarded=guarded, candidates=128, **OPTIONS)
    return float(gt.evaluate(schedule, only=["delay_index"])["delay_index"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--decisions", type=float, default=8e6)
    parser.add_argument("--environments", type=int, default=32)
    parser.add_argument("--steps", type=int, default=2048, help="decisions of each in an iteration")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--gamma", type=float, default=0.9998)
    parser.add_argument("--lam", type=float, default=0.97)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="the file of the best network")
    options = parser.parse_args()
    torch.set_num_threads(1)
    learned = learned_jobs("kth-sp2")
    held_out = read_jobs("kth-sp2", "first-half").take(slice(len(learned), None))
    env = BatchVectorEnv(
        options.environments, learned, candidates=32, jobs=options.jobs, warm=512, reward="delay", flat=True,
        copy=False, **OPTIONS,
    )  # fmt: skip
    torch.manual_seed(options.seed)
    network = CandidateNetwork(env.single_observation_space.shape[0], env.actions)
    updates = int(options.decisions / (options.environments * options.steps))
    settings = PPOSettings(
        steps=options.steps, epochs=options.epochs, gamma=options.gamma, lam=options.lam, updates=updates,
        learning_rate=options.rate, entropy_weight=0.001, entropy_decay=0.1, seed=options.seed,
    )  # fmt: skip
    optimizer = torch.optim.Adam(network.parameters(), settings.learning_rate, eps=ADAM_EPSILON)
    actor, decisions, seconds, least = Actor(network, options.environments), 0, 0.0, np.inf
    for update in range(updates):
        began = time.process_time()
        rollout = collect(env, actor, options.steps, seed=update_seed(settings.seed, update, "rollout"))
        decisions += rollout.steps
        optimizer.param_groups[0]["lr"] = settings.learning_rate_at(update)
        for batch in rollout.minibatches(network, settings, update):
            output = network(batch.observations, batch.begins, batch.state)
            optimizer.zero_grad()
            ppo_losses(output, batch, settings, update).total.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
            optimizer.step()
        seconds += time.process_time() - began
        if (update + 1) % max(1, updates // 6) == 0:
            likeliest, drawn = (judged(network, held_out, drawn=one) for one in (False, True))
            if likeliest < least:
                least = likeliest
                played = {"candidates": 32, "mode": "pick", "backfill": "easy", "protect": True, **OPTIONS}
                write_checkpoint(options.out, network, notes={ENVIRONMENT: played})
            free = judged(network, held_out, drawn=False, guarded=False)
            line = (
                f"{decisions:,} decisions, {seconds:.0f} s: J {likeliest:,.0f}, without the guard {free:,.0f}"
            )
            print(f"{line}, drawn {drawn:,.0f}", flush=True)


if __name__ == "__main__":
    main()
