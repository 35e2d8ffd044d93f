"""Learning curves of the training through RLlib and of the plain torch loop, over several seeds.

    python -m benchmarks.ppo_learning [--figure curves.png]

With the same seed both train the same weights, bit for bit (`benchmarks.ppo_throughput` checks it), so RLlib
has other seeds here. Figure and table show the mean return of a day during training.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import print_machine, print_table
from gridtune.systems.shutdown.environment import ShutdownVectorEnv
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.system import CLUSTERS
from gridtune.training.networks import NETWORKS, make_network
from gridtune.training.ppo import PPOSettings, PPOTrainer

#: Offset of RLlib's seeds.
_OTHER_SEEDS = 100


def make_env(trace: str, cluster: str, view: Any, count: int) -> ShutdownVectorEnv:
    platform = Platform(*CLUSTERS[cluster])
    return ShutdownVectorEnv(count, trace, platform, view=view, decisions=view == "effects", copy=False)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trace", default="taurus_days", help="days to train on (the bundled taurus_days)")
    parser.add_argument("--cluster", choices=CLUSTERS, default="taurus")
    parser.add_argument("--network", choices=NETWORKS, default="effects")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--environments", type=int, default=8)
    parser.add_argument("--steps", type=int, default=384)
    parser.add_argument("--figure", type=Path, help="PNG to draw the curves into")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray  # noqa: PLC0415 - after its settings

    from gridtune.training.rllib import ppo_config  # noqa: PLC0415

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, address="local")
    torch.set_num_threads(1)
    print_machine()
    make = partial(make_env, options.trace, options.cluster, NETWORKS[options.network].view)
    curves: dict[str, list[list[float]]] = {"loop": [], "RLlib": []}
    for seed in range(1, options.seeds + 1):
        settings = PPOSettings(
            steps=options.steps, updates=options.updates, learning_rate=1e-3, gamma=0.998, seed=seed
        )
        env = make(options.environments)
        features, actions = env.single_observation_space.shape[0], env.single_action_space.n
        network = make_network(options.network, features, int(actions), seed=seed)
        trainer = PPOTrainer(env, network, settings)
        curves["loop"].append([trainer.update()["return_mean"] for _ in range(options.updates)])
        others = replace(settings, seed=_OTHER_SEEDS + seed)
        algorithm = ppo_config(make, options.network, others, environments=options.environments).build_algo()
        returns = [_mean_return(algorithm.train()) for _ in range(options.updates)]
        curves["RLlib"].append([float(value) for value in returns])
        algorithm.stop()
    ray.shutdown()
    arrays = {name: np.array(seeds) for name, seeds in curves.items()}
    places = sorted({0, options.updates // 4, options.updates // 2, options.updates - 1})
    rows = []
    for place in places:
        near = slice(max(0, place - 1), place + 2)
        means = [np.nanmean(array[:, near], axis=1) for array in arrays.values()]
        texts = [f"{mean.mean():.2f} ± {mean.std(ddof=1):.2f}" for mean in means]
        rows.append((str(place + 1), *texts))
    title = f"return of a day while training, {options.network}, mean ± deviation over {options.seeds} seeds"
    print_table(title, ("update", *arrays), rows)
    if options.figure is not None:
        draw(arrays, options.figure)


def _mean_return(result: dict[str, Any]) -> float:
    # Where no day ended there is no mean.
    return float(result.get("env_runners", {}).get("episode_return_mean", np.nan))


def draw(curves_by_name: dict[str, np.ndarray], figure: Path) -> None:
    """Draw each seed's curve thin and the mean thick."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    _, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for number, (name, curves) in enumerate(curves_by_name.items()):
        updates = np.arange(1, curves.shape[1] + 1)
        for curve in curves:
            axes.plot(updates, curve, color=f"C{number}", alpha=0.3, linewidth=0.8)
        axes.plot(updates, np.nanmean(curves, axis=0), color=f"C{number}", linewidth=2, label=name)
    axes.set_xlabel("update")
    axes.set_ylabel("return of a day")
    axes.grid(alpha=0.3)
    axes.legend()
    plt.savefig(figure, dpi=120)


if __name__ == "__main__":
    main()
