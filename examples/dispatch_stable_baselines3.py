"""Train a dispatcher with Stable-Baselines3, whose PPO knows nothing of gridtune.

    pip install 'gridtune[agents]' 'stable-baselines3>=2.7'
    python examples/dispatch_stable_baselines3.py --steps 300000

The environment is made by Gymnasium alone, and the training is that of Stable-Baselines3's own first page. An
agent sends each job of a batch to one of three machines of different speed. After training it plays batches
that it has not seen, beside two rules: each machine in turn, and the machine on which the job is expected to
end first. A return is minus the mean tardiness over the mean length of a job: 0 is the best there is.
"""

import argparse
from collections.abc import Callable, Iterable

import gymnasium
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

#: The part before the colon is imported by Gymnasium, and registers gridtune's environments.
ENVIRONMENT = "gridtune.environments:gridtune/Dispatch-v0"
MACHINES = {"factors": [1.32, 0.8, 0.91], "cpus": 2, "batch_jobs": 200}
Choice = Callable[[int, np.ndarray], int]


def returns(choose: Choice, seeds: Iterable[int]) -> np.ndarray:
    """Return the return of an episode for each seed; `choose` gets the job's number and the observation."""
    env = gymnasium.make(ENVIRONMENT, **MACHINES)
    gained = []
    for seed in seeds:
        seen, _ = env.reset(seed=seed)
        job, total, over = 0, 0.0, False
        while not over:
            seen, reward, terminated, truncated, _ = env.step(choose(job, seen))
            job, total, over = job + 1, total + float(reward), terminated or truncated
        gained.append(total)
    return np.array(gained)


def in_turn(job: int, seen: np.ndarray) -> int:
    """Each machine in turn."""
    return job % len(MACHINES["factors"])


def earliest_end(job: int, seen: np.ndarray) -> int:
    """Where the deadline is missed by least; of equals where the job ends first: the last two features."""
    features = seen.reshape(len(MACHINES["factors"]), -1)
    late = np.maximum(0, -features[:, -1])
    return int(np.lexsort((features[:, -2], late))[0])


def main() -> None:
    """Train, and print the mean returns."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=300_000, help="decisions to learn from (300,000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the training (1)")
    parser.add_argument("--batches", type=int, default=20, help="batches that are played at the end (20)")
    arguments = parser.parse_args()

    environments = make_vec_env(ENVIRONMENT, n_envs=8, seed=arguments.seed, env_kwargs=MACHINES)
    model = PPO("MlpPolicy", environments, n_steps=256, seed=arguments.seed, device="cpu")
    model.learn(arguments.steps)

    def agent(job: int, seen: np.ndarray) -> int:
        return int(model.predict(seen, deterministic=True)[0])

    batches = range(1_000_000, 1_000_000 + arguments.batches)
    rules = {"in turn": in_turn, "earliest end": earliest_end, f"PPO, {arguments.steps:,} steps": agent}
    for name, choose in rules.items():
        value = returns(choose, batches)
        print(f"{name:<20} {value.mean():8.3f} ± {value.std(ddof=1) / np.sqrt(len(value)):.3f}")


if __name__ == "__main__":
    main()
