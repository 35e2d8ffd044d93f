"""Speed of PPO training: through RLlib, as gridtune configures it, and in a plain torch loop.

    python -m benchmarks.ppo_throughput [--network recurrent] [--environments 16]

Both train the same network on the same days with the same settings and random numbers, in turns. The
benchmark checks that they end with the same weights, so neither can be faster by doing less. It prints steps
of the environment per second of the processor, sampling and learning together.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import replace
from functools import partial

import torch

from benchmarks.comparators.torch_loop import TorchLoop
from benchmarks.measure import arguments, interleave, median_ratio, print_machine, print_table
from gridtune.systems.shutdown.environment import ShutdownVectorEnv
from gridtune.training.networks import NETWORKS, make_network
from gridtune.training.ppo import PPOSettings


def make_env(trace: str, count: int) -> ShutdownVectorEnv:
    return ShutdownVectorEnv(count, trace, copy=False)


def timed(run) -> float:
    # Both are one thread of this process: its own time holds where others use the machine, too.
    before = time.process_time()
    run()
    return time.process_time() - before


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--trace", default="taurus_days", help="days to train on (the bundled taurus_days)")
    parser.add_argument("--network", choices=NETWORKS, action="append", help="may be given several times")
    parser.add_argument("--environments", type=int, default=16, help="environments (16)")
    options = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray  # noqa: PLC0415 - after its settings

    from gridtune.training.rllib import network_of, ppo_config  # noqa: PLC0415

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, address="local")
    torch.set_num_threads(1)
    print_machine()
    make, rows = partial(make_env, options.trace), []
    settings = replace(PPOSettings(), seed=1)
    steps = settings.steps * options.environments
    for kind in options.network or ["mlp", "recurrent"]:
        network = make_network(kind, 48, 15, seed=settings.seed)
        trainer = TorchLoop(make(options.environments), network, settings)
        algorithm = ppo_config(make, kind, settings, environments=options.environments).build_algo()
        contestants = {"loop": partial(timed, trainer.update), "rllib": partial(timed, algorithm.train)}
        # The first update compiles and allocates.
        interleave(contestants, 1)
        seconds = interleave(contestants, options.rounds)
        ours, theirs = network.parameters(), network_of(algorithm).parameters()
        if not all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True)):
            raise AssertionError("the two paths have trained different weights")
        algorithm.stop()
        rates = [f"{steps / statistics.median(seconds[name]):,.0f}" for name in ("loop", "rllib")]
        rows.append((kind, *rates, f"{median_ratio(seconds['loop'], seconds['rllib']):.2f}"))
    ray.shutdown()
    title = f"PPO, {options.environments} environments × {settings.steps} steps, {settings.epochs} epochs"
    print_table(title, ("network", "torch loop, steps/s", "RLlib, steps/s", "RLlib : loop"), rows)


if __name__ == "__main__":
    main()
