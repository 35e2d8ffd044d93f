"""Train a policy that switches nodes off, on a cluster's train days.

    python scripts/train_shutdown.py taurus-days.tar.xz results/taurus --seconds 3600

Started again, it goes on where it stopped. The folder then holds the best policy by held-out train days
(best.pt), the last one, and the learning curve; test days are never looked at.
"""

import argparse
import json
from dataclasses import replace

import torch

from gridtune.agents.networks import NETWORKS
from gridtune.agents.ppo import PPOSettings
from gridtune.agents.training import train_on_days
from gridtune.environments.shutdown import read_training_days
from gridtune.simulation.platform import Platform
from gridtune.systems.shutdown import CLUSTERS


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trace", help="the days: a folder or archive of logs, or the name of a bundled trace")
    parser.add_argument("folder", help="where the policy and its learning curve go")
    parser.add_argument("--cluster", choices=CLUSTERS, default="taurus")
    parser.add_argument("--network", choices=NETWORKS, default="recurrent")
    parser.add_argument("--environments", type=int, default=16, help="days between updates (16)")
    parser.add_argument("--steps", type=int, default=PPOSettings.steps, help="of each environment (1440)")
    parser.add_argument("--updates", type=int, default=PPOSettings.updates)
    parser.add_argument("--learning-rate", type=float, default=PPOSettings.learning_rate)
    parser.add_argument("--entropy-weight", type=float, default=PPOSettings.entropy_weight)
    parser.add_argument("--entropy-decay", type=float, default=PPOSettings.entropy_decay)
    parser.add_argument("--gamma", type=float, default=PPOSettings.gamma)
    parser.add_argument("--lam", type=float, default=PPOSettings.lam)
    parser.add_argument("--minibatches", type=int, default=PPOSettings.minibatches)
    parser.add_argument("--gradient-norm", type=float)
    parser.add_argument("--initial", help="a policy to begin from: a file, or the name of a bundled one")
    parser.add_argument("--seed", type=int, default=PPOSettings.seed)
    parser.add_argument("--validate-every", type=int, default=10, help="updates between validations (10)")
    parser.add_argument("--seconds", type=float, help="how long to train at most")
    parser.add_argument("--device", default="cpu", help="where the network is: cpu or cuda")
    parser.add_argument("--threads", type=int, default=1, help="torch's threads on the CPU (1)")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    torch.set_num_threads(given.threads)
    settings = replace(
        PPOSettings(),
        steps=given.steps,
        updates=given.updates,
        learning_rate=given.learning_rate,
        entropy_weight=given.entropy_weight,
        entropy_decay=given.entropy_decay,
        gamma=given.gamma,
        lam=given.lam,
        minibatches=given.minibatches,
        gradient_norm=given.gradient_norm,
        seed=given.seed,
    )
    best = train_on_days(
        read_training_days(given.trace),
        given.folder,
        platform=Platform(*CLUSTERS[given.cluster]),
        network=given.network,
        initial=given.initial,
        settings=settings,
        environments=given.environments,
        validate_every=given.validate_every,
        seconds=given.seconds,
        device=given.device,
        told=lambda line: print(json.dumps(line), flush=True),
    )
    print(best)


if __name__ == "__main__":
    main()
