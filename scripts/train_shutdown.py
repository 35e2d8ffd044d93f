"""Train a policy that switches nodes off, on a cluster's train days.

    python scripts/train_shutdown.py taurus-days.tar.xz results/taurus --seconds 3600

Started again, it goes on where it stopped. The folder then holds the best policy by held-out train days
(best.pt), the last one, and the learning curve; test days are never looked at.
"""

import argparse
import json
from dataclasses import replace
from typing import Any

import torch

from gridtune.systems.shutdown.environment import read_training_days
from gridtune.systems.shutdown.learners.training import train_on_days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.system import CLUSTERS
from gridtune.training.networks import NETWORKS
from gridtune.training.ppo import PPOSettings


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", help="the days: a folder or archive of logs, or the name of a bundled trace")
    parser.add_argument("folder", help="where the policy and its learning curve go")
    parser.add_argument("--initial", help="a policy to begin from: a file, or the name of a bundled one")
    parser.add_argument("--gradient-norm", type=float, help="longest gradient (as long as it is)")
    parser.add_argument("--seconds", type=float, help="how long to train at most (all updates)")

    def option(name: str, kind: type, default: Any, told: str, **more: Any) -> None:
        parser.add_argument(name, type=kind, default=default, help=f"{told} ({default})", **more)

    option("--cluster", str, "taurus", "whose nodes and watts", choices=CLUSTERS)
    option("--network", str, "recurrent", "kind of policy", choices=NETWORKS)
    option("--environments", int, 16, "days between updates")
    option("--steps", int, PPOSettings.steps, "minutes of each environment between updates")
    option("--updates", int, PPOSettings.updates, "how often the policy is updated")
    option("--learning-rate", float, PPOSettings.learning_rate, "step size of the first update")
    option(
        "--entropy-weight", float, PPOSettings.entropy_weight, "weight of the policy's entropy in the loss"
    )
    option(
        "--entropy-decay", float, PPOSettings.entropy_decay, "share of that weight left at the last update"
    )
    option("--gamma", float, PPOSettings.gamma, "discount of rewards, per step")
    option("--lam", float, PPOSettings.lam, "λ of generalised advantage estimation")
    option("--minibatches", int, PPOSettings.minibatches, "parts of each pass over what was collected")
    option("--seed", int, PPOSettings.seed, "of everything drawn")
    option("--validate-every", int, 10, "updates between validations")
    option("--device", str, "cpu", "where the network is: cpu or cuda")
    option("--threads", int, 1, "torch's threads on the CPU")
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
        on_validation=lambda line: print(json.dumps(line), flush=True),
    )
    print(best)


if __name__ == "__main__":
    main()
