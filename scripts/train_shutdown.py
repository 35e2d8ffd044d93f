"""Train a policy that switches nodes off on the train days of a cluster.

    python scripts/train_shutdown.py taurus-days.tar.xz results/taurus --seconds 3600

Started again, it continues where it stopped. The folder gets the best policy by held-out train days
(best.pt), the last one (last.pt), and the learning curve; test days are not used. With --track, MLflow
gets the learning curve while the training goes on, and both policies: `gridtune ui` shows them.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gridtune.systems.shutdown.environment import read_training_days
from gridtune.systems.shutdown.learners.training import train_on_days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.system import CLUSTERS
from gridtune.tracking.training import TrainingOutcome, TrainingTracker
from gridtune.training.networks import NETWORKS
from gridtune.training.ppo import PPOSettings


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", help="the days: a folder or archive of logs, or the name of a bundled trace")
    parser.add_argument("folder", help="folder for the policy and its learning curve")
    parser.add_argument("--initial", help="initial policy: a file, or the name of a bundled one")
    parser.add_argument("--gradient-norm", type=float, help="maximum norm of gradients (no limit)")
    parser.add_argument("--seconds", type=float, help="time limit (none)")

    def option(name: str, kind: type, default: Any, text: str, **more: Any) -> None:
        parser.add_argument(name, type=kind, default=default, help=f"{text} ({default})", **more)

    option("--cluster", str, "taurus", "cluster", choices=CLUSTERS)
    option("--network", str, "recurrent", "kind of policy", choices=NETWORKS)
    option("--environments", int, 16, "number of environments, each with a day of its own")
    option("--steps", int, PPOSettings.steps, "steps of each environment per update")
    option("--updates", int, PPOSettings.updates, "number of updates")
    option("--learning-rate", float, PPOSettings.learning_rate, "step size of the first update")
    option(
        "--entropy-weight", float, PPOSettings.entropy_weight, "weight of the policy's entropy in the loss"
    )
    option("--entropy-decay", float, PPOSettings.entropy_decay, "final share of the entropy weight")
    option("--gamma", float, PPOSettings.gamma, "discount of rewards, per step")
    option("--lam", float, PPOSettings.lam, "λ of generalised advantage estimation")
    option("--minibatches", int, PPOSettings.minibatches, "minibatches per pass over the collected steps")
    option("--seed", int, PPOSettings.seed, "seed of all random numbers")
    option("--validate-every", int, 10, "updates between validations")
    option("--device", str, "cpu", "device of the network: cpu or cuda")
    option("--threads", int, 1, "torch's threads on the CPU")
    parser.add_argument("--track", action="store_true", help="track the training in MLflow")
    parser.add_argument("--tracking-uri", help="the MLflow store (MLFLOW_TRACKING_URI, else mlflow.db here)")
    return parser.parse_args()


def tracker_of(options: argparse.Namespace) -> TrainingTracker | None:
    """Return the tracker of the training, None without --track."""
    if not options.track:
        return None
    folder = Path(options.folder)
    tracker = TrainingTracker(
        "train_shutdown",
        folder.name,
        folder,
        parameters={
            name: value
            for name, value in vars(options).items()
            if name not in {"folder", "track", "tracking_uri", "threads"} and value is not None
        },
        uri=options.tracking_uri,
        on_trouble=lambda text: print(text, file=sys.stderr),
    )
    # A training that continues may have gone on without a store.
    curve = folder / "learning_curve.jsonl"
    for line in curve.read_text(encoding="utf-8").splitlines() if curve.exists() else ():
        if line.endswith("}"):
            point = json.loads(line)
            tracker.log(point["update"], point)
    return tracker


def main() -> None:
    options = arguments()
    tracker = tracker_of(options)

    def validated(line: dict[str, Any]) -> None:
        print(json.dumps(line), flush=True)
        if tracker is not None:
            tracker.log(line["update"], line)
            for name in ("best.pt", "last.pt"):
                tracker.checkpoint(Path(options.folder, name))

    status = "FAILED"
    try:
        print(train(options, validated))
        status = "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        if tracker is not None:
            report(tracker.close(status))


def report(outcome: TrainingOutcome) -> None:
    """Print where the policy is, or what is missing."""
    if outcome.unsent:
        print(
            f"{len(outcome.unsent)} items were not sent to {outcome.uri}: {outcome.fault}\n"
            "the same command sends what is missing of the learning curve",
            file=sys.stderr,
        )
    else:
        print(f"tracked in {outcome.uri}: checkpoint={outcome.checkpoint('best.pt')}")


def train(options: argparse.Namespace, on_validation: Callable[[dict[str, Any]], None]) -> Path:
    """Train and return the best policy's file."""
    torch.set_num_threads(options.threads)
    settings = replace(
        PPOSettings(),
        steps=options.steps,
        updates=options.updates,
        learning_rate=options.learning_rate,
        entropy_weight=options.entropy_weight,
        entropy_decay=options.entropy_decay,
        gamma=options.gamma,
        lam=options.lam,
        minibatches=options.minibatches,
        gradient_norm=options.gradient_norm,
        seed=options.seed,
    )
    return train_on_days(
        read_training_days(options.trace),
        options.folder,
        platform=Platform(*CLUSTERS[options.cluster]),
        network=options.network,
        initial=options.initial,
        settings=settings,
        environments=options.environments,
        validate_every=options.validate_every,
        seconds=options.seconds,
        device=options.device,
        on_validation=on_validation,
    )


if __name__ == "__main__":
    main()
