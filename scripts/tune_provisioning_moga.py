"""Tune the genetic algorithm that searches for plans: population, crossover and mutation.

    python scripts/tune_provisioning_moga.py --samples 40
    ray job submit --working-dir . -- env GRIDTUNE_HOME=/FOLDER python scripts/tune_provisioning_moga.py

Every configuration evaluates about as many plans, so it is a question of how, not of how much. Its fronts are
measured by their hypervolume (1 is the least cost and the least makespan in one plan). Optuna proposes
configurations; ASHA stops those early that are worse after 1, 3, 9, … replicates. A job writes its results
to GRIDTUNE_HOME, a folder on the head node.
"""

from typing import Any

from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.optuna import OptunaSearch
from tuning import connected, options, print_best, run_config

import gridtune as gt


def main() -> None:
    """Search, and print the best."""
    parser = options(__doc__, samples=40, replicates=27)
    parser.add_argument("--plans", type=int, default=600, help="plans that each search evaluates (600)")
    arguments = parser.parse_args()
    fixed = {"offers": "poisson", "run_time": 100, "task_processors": 1, "communication": 1, "search": "moga"}
    search = gt.tune.trainable(
        "provisioning", fixed=fixed, replicates=arguments.replicates, metrics=["hypervolume"]
    )

    class SameEffort(search):
        """The larger the population, the fewer generations."""

        def reset_config(self, new_config: dict[str, Any]) -> bool:
            iterations = max(1, arguments.plans // new_config["population"])
            return super().reset_config({**new_config, "iterations": iterations})

    with connected(arguments):
        tuner = tune.Tuner(
            SameEffort,
            param_space={
                "population": tune.randint(6, 61),
                "crossover_points": tune.randint(1, 9),
                "crossover_rate": tune.uniform(0, 1),
                "mutation": tune.uniform(0, 4),
            },
            tune_config=tune.TuneConfig(
                metric="hypervolume",
                mode="max",
                search_alg=OptunaSearch(seed=arguments.seed),
                scheduler=ASHAScheduler(max_t=arguments.replicates, grace_period=1, reduction_factor=3),
                num_samples=arguments.samples,
                max_concurrent_trials=arguments.concurrent,
                reuse_actors=True,
            ),
            run_config=run_config("tune_provisioning_moga", arguments),
        )
        print_best(tuner.fit(), "hypervolume", "max")


if __name__ == "__main__":
    main()
