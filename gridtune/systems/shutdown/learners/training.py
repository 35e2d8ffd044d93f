"""Training a shutdown policy on days; the best checkpoint is the one with the best score on held-out days."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch

from gridtune.errors import PolicyError
from gridtune.systems.shutdown.environment import Draw, ShutdownVectorEnv
from gridtune.systems.shutdown.learners.playing import score_days
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.model import View
from gridtune.systems.shutdown.simulator.observing import features_of
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.trained import find_policy
from gridtune.training.checkpoints import load_policy
from gridtune.training.networks import NETWORKS, make_network
from gridtune.training.ppo import PPOSettings, PPOTrainer

__all__ = ["VALIDATED", "hold_out", "train_on_days"]

#: One train day in this many is held out for validation.
HELD_OUT = 10
#: The metrics of a validation: the learning curve has them for sampled and for greedy actions.
VALIDATED = (
    "score_per_day",
    "energy_waste_per_day",
    "switches_per_day",
    "stretch_mean",
    "qos_violations",
)


def hold_out(days: Days, one_in: int = HELD_OUT) -> tuple[Days, Days]:
    """Return the days to train on and those to validate on: every tenth one."""
    held_out = np.arange(len(days)) % one_in == one_in - 1
    if held_out.all() or not held_out.any():
        raise PolicyError(f"{len(days)} days are too few to hold out one in {one_in}")
    return days.take(~held_out), days.take(held_out)


def train_on_days(
    days: Days,
    folder: str | Path,
    *,
    platform: Platform | None = None,
    network: str = "recurrent",
    frames: int | None = None,
    settings: PPOSettings | None = None,
    initial: str | Path | None = None,
    until: int | None = None,
    environments: int = 16,
    tau: float = 0.5,
    variant: Literal["paper", "exact"] = "paper",
    draw: Draw = "days",
    validate_every: int = 10,
    seconds: float | None = None,
    device: str = "cpu",
    threads: int | None = None,
    on_validation: Callable[[dict[str, Any]], None] | None = None,
) -> Path:
    """Train until the settings' `updates` are made or time is up; called again, continue from there.

    Parameters
    ----------
    days
        Train days; `hold_out` takes some of them for validation.
    folder
        Gets `last.pt`, `best.pt` (the highest score on the held-out days, actions sampled as in training)
        and `learning_curve.jsonl`, a line for each validation.
    platform, tau, variant, draw
        See `gridtune.systems.shutdown.environment.ShutdownVectorEnv`.
    network, frames
        See `gridtune.training.networks.make_network`.
    settings
        By default the paper's. A training that continues keeps its own.
    initial
        A policy to start from instead of random weights: a checkpoint, or the name of a bundled policy.
    until
        Stop after this many updates, if the settings have more.
    environments
        Number of environments, each with a day of its own.
    validate_every
        Updates between validations; checkpoints are written with them.
    seconds
        Time limit.
    threads
        Threads of torch on the CPU: the same number gives the same bits. None leaves it as it is.
    on_validation
        Called with each line of the learning curve.

    Returns
    -------
    Path
        The best checkpoint.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    folder, cluster = Path(folder), platform or Platform()
    train_days, validation_days = hold_out(days)
    view = cast("View", NETWORKS[network].view)
    env = ShutdownVectorEnv(
        environments,
        train_days,
        cluster,
        tau=tau,
        variant=variant,
        draw=draw,
        view=view,
        decisions=view == "effects",
        copy=False,
    )
    if (folder / "last.pt").exists():
        trainer = PPOTrainer.resume(folder / "last.pt", env, device=device)
    else:
        settings, actions = settings or PPOSettings(), cluster.nodes + 1
        features = features_of(view, cluster.nodes)
        policy = make_network(network, features, actions, frames=frames, seed=settings.seed)
        if initial is not None:
            policy.load_state_dict(load_policy(find_policy(initial)).resized(actions).state_dict())
        trainer = PPOTrainer(env, policy.to(device), settings)
    last = trainer.settings.updates if until is None else min(until, trainer.settings.updates)
    curve, best = folder / "learning_curve.jsonl", _best_so_far(folder / "learning_curve.jsonl", trainer)
    deadline = None if seconds is None else time.monotonic() + seconds
    done = trainer.update_number >= last
    while not done:
        figures = trainer.update()
        number = trainer.update_number
        done = number >= last or (deadline is not None and time.monotonic() >= deadline)
        if number % validate_every and not done:
            continue
        line: dict[str, Any] = {"update": number, **figures}
        for name, rng in (
            ("sampled", np.random.default_rng([trainer.settings.seed, number])),
            ("greedy", None),
        ):
            scores = score_days(trainer.network, validation_days, cluster, rng=rng, tau=tau, variant=variant)
            line |= {f"{name}_{metric}": scores[metric] for metric in VALIDATED}
        if best is None or line["sampled_score_per_day"] > best:
            best = line["sampled_score_per_day"]
            trainer.save(folder / "best.pt", **line)
        with curve.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(line) + "\n")
        trainer.save(folder / "last.pt", **line)
        if on_validation is not None:
            on_validation(line)
    return folder / "best.pt"


def _best_so_far(curve: Path, trainer: PPOTrainer) -> float | None:
    """Return the best score of the learning curve; remove lines that are newer than the checkpoint."""
    if not curve.exists():
        return None
    lines = [
        json.loads(line) for line in curve.read_text(encoding="utf-8").splitlines() if line.endswith("}")
    ]
    lines = [line for line in lines if line["update"] <= trainer.update_number]
    curve.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return max((line["sampled_score_per_day"] for line in lines), default=None)
