"""Train agents that switch nodes off over τ: how long jobs may wait, as a share of their walltime.

    python scripts/tune_shutdown_tau.py --samples 20
    ray job submit --working-dir . -- env GRIDTUNE_HOME=/FOLDER python scripts/tune_shutdown_tau.py

A job is late once it has waited for the share τ of its walltime, and the reward counts late jobs: the longer
jobs may wait, the fewer nodes the agent keeps on. Every configuration is an agent of RLlib's PPO. Optuna
searches τ, the late jobs that the reward counts (variant), and the learning rate for energy and stretch at
once, and the Pareto front is printed. The bundled days are generated; --trace takes real ones. A job writes
its results to GRIDTUNE_HOME, a folder on the head node.
"""

from ray import tune
from ray.tune.search.optuna import OptunaSearch
from tuning import connected, options, print_front, run_config

import gridtune as gt

OBJECTIVES = {"energy_waste_per_day": "min", "stretch_mean": "min"}


def main() -> None:
    """Search, and print the front."""
    parser = options(__doc__, samples=20, replicates=1)
    parser.add_argument("--trace", default="taurus_days", help="days of a cluster (taurus_days)")
    parser.add_argument("--cluster", default="taurus", help="the cluster's power and boot times (taurus)")
    parser.add_argument("--iterations", type=int, default=40, help="iterations of PPO for each agent (40)")
    arguments = parser.parse_args()
    names = ("trace", "cluster", "iterations")
    fixed = {name: getattr(arguments, name) for name in names} | {"validate_every": arguments.iterations}
    with connected(arguments):
        tuner = tune.Tuner(
            gt.tune.trainable(
                "shutdown/ppo", fixed=fixed, replicates=arguments.replicates, metrics=OBJECTIVES
            ),
            param_space={
                "tau": tune.loguniform(0.05, 2),
                "variant": tune.choice(["paper", "exact"]),
                "learning_rate": tune.loguniform(2e-4, 3e-3),
            },
            tune_config=tune.TuneConfig(
                search_alg=OptunaSearch(
                    metric=list(OBJECTIVES), mode=list(OBJECTIVES.values()), seed=arguments.seed
                ),
                num_samples=arguments.samples,
                max_concurrent_trials=arguments.concurrent,
                reuse_actors=True,
            ),
            run_config=run_config("tune_shutdown_tau", arguments),
        )
        print_front(tuner.fit(), OBJECTIVES)


if __name__ == "__main__":
    main()
