"""Training a shutdown policy on days: its learning curve, and the best checkpoint by held-out train days."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from gridtune.errors import PolicyError
from gridtune.systems.shutdown.environment import Draw, ShutdownVectorEnv
from gridtune.systems.shutdown.learners.playing import score_days
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.observing import features_of
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.trained import find_policy
from gridtune.training.checkpoints import load_policy
from gridtune.training.networks import NETWORKS, make_network
from gridtune.training.ppo import PPOSettings, PPOTrainer

__all__ = ["hold_out", "train_on_days"]

#: One train day in so many is kept back to judge by.
HELD_OUT = 10
#: What a learning curve has of a validation, beside the score.
_JUDGED = (
    "score_per_day",
    "energy_waste_per_day",
    "switches_per_day",
    "mean_stretch",
    "qos_violations",
)


def hold_out(days: Days, one_in: int = HELD_OUT) -> tuple[Days, Days]:
    """Return the days to learn from and those to judge by: every tenth one."""
    judged = np.arange(len(days)) % one_in == one_in - 1
    if judged.all() or not judged.any():
        raise PolicyError(f"{len(days)} days are too few to hold one in {one_in} back")
    return days.take(~judged), days.take(judged)


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
    told: Callable[[dict[str, Any]], None] | None = None,
) -> Path:
    """Train until the settings' `updates` are made or time is up; started again, go on from there.

    Parameters
    ----------
    days
        Train days; `hold_out` keeps some of them back.
    folder
        Gets `last.pt`, `best.pt` (of the highest score on the held-out days, actions drawn as in training)
        and `learning_curve.jsonl`, a line for each validation.
    platform, tau, variant, draw
        See `gridtune.systems.shutdown.environment.ShutdownVectorEnv`.
    network, frames
        See `gridtune.training.networks.make_network`.
    settings
        By default the paper's. A training that goes on keeps those it was begun with.
    initial
        A policy to begin from instead of random weights: a checkpoint, or the name of a bundled one.
    until
        Stop after so many updates, if the settings have more.
    environments
        How many days are lived through between updates.
    validate_every
        Updates between validations; checkpoints are written with them.
    seconds
        How long to train at most.
    threads
        torch's on the CPU: the same number gives the same bits. None leaves them as they are.
    told
        Called with each line of the learning curve.

    Returns
    -------
    Path
        The best checkpoint.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    place, cluster = Path(folder), platform or Platform()
    learnt, judged = hold_out(days)
    told_by: Any = {"tau": tau, "variant": variant, "draw": draw, "view": NETWORKS[network].view}
    told_by["decisions"] = NETWORKS[network].view == "effects"
    env = ShutdownVectorEnv(environments, learnt, cluster, copy=False, **told_by)
    if (place / "last.pt").exists():
        trainer = PPOTrainer.resume(place / "last.pt", env, device=device)
    else:
        chosen, actions = settings or PPOSettings(), cluster.nodes + 1
        features = features_of(NETWORKS[network].view, cluster.nodes)
        made = make_network(network, features, actions, frames=frames, seed=chosen.seed)
        if initial is not None:
            made.load_state_dict(load_policy(find_policy(initial)).resized(actions).state_dict())
        trainer = PPOTrainer(env, made.to(device), chosen)
    last = trainer.settings.updates if until is None else min(until, trainer.settings.updates)
    curve, best = place / "learning_curve.jsonl", _best_so_far(place / "learning_curve.jsonl", trainer)
    deadline = None if seconds is None else time.monotonic() + seconds
    done = trainer.update_number >= last
    while not done:
        figures = trainer.update()
        number = trainer.update_number
        late = deadline is not None and time.monotonic() >= deadline
        done = late or number >= last
        if number % validate_every and not done:
            continue
        line: dict[str, Any] = {"update": number, **figures}
        for name, rng in (
            ("sampled", np.random.default_rng([trainer.settings.seed, number])),
            ("greedy", None),
        ):
            scores = score_days(trainer.network, judged, cluster, rng=rng, tau=tau, variant=variant)
            line |= {f"{name}_{each}": scores[each] for each in _JUDGED}
        if best is None or line["sampled_score_per_day"] > best:
            best = line["sampled_score_per_day"]
            trainer.save(place / "best.pt", **line)
        with curve.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(line) + "\n")
        trainer.save(place / "last.pt", **line)
        if told is not None:
            told(line)
    return place / "best.pt"


def _best_so_far(curve: Path, trainer: PPOTrainer) -> float | None:
    """Return the best score of the learning curve, after taking lines off that were not yet saved."""
    if not curve.exists():
        return None
    lines = [
        json.loads(line) for line in curve.read_text(encoding="utf-8").splitlines() if line.endswith("}")
    ]
    kept = [line for line in lines if line["update"] <= trainer.update_number]
    curve.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
    return max((line["sampled_score_per_day"] for line in kept), default=None)
