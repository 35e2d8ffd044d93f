"""Tune what trades a workflow's makespan for the cost of the slots that are reserved for it.

    python scripts/tune_provisioning_tradeoff.py --samples 40
    ray job submit --working-dir . -- env GRIDTUNE_HOME=/FOLDER python scripts/tune_provisioning_tradeoff.py

α chooses a plan from the front that a search has found, by its makespan (0) or by its cost (1). Optuna
searches α together with how tasks may use slots and whether unused ones are released, for both objectives at
once; the Pareto front is printed. Slots are drawn at random, 100 tasks are placed in them. A job writes its
results to GRIDTUNE_HOME, a folder on the head node.
"""

from ray import tune
from ray.tune.search.optuna import OptunaSearch
from tuning import connected, options, print_front, run_config

import gridtune as gt

OBJECTIVES = {"workflow_makespan": "min", "allocation_cost": "min"}


def main() -> None:
    """Search, and print the front."""
    parser = options(__doc__, samples=40, replicates=10)
    parser.add_argument("--tasks", type=int, default=100, help="tasks of the workflow (100)")
    arguments = parser.parse_args()
    fixed = {
        "offers": "poisson",
        "run_time": 100,
        "task_processors": 1,
        "communication": 1,
        "tasks": arguments.tasks,
        "search": "memetic",
    }
    with connected(arguments):
        tuner = tune.Tuner(
            gt.tune.trainable(
                "provisioning", fixed=fixed, replicates=arguments.replicates, metrics=OBJECTIVES
            ),
            param_space={
                "alpha": tune.uniform(0, 1),
                "cross_slot": tune.choice(["never", "narrow", "always"]),
                "release": tune.choice([False, True]),
            },
            tune_config=tune.TuneConfig(
                search_alg=OptunaSearch(
                    metric=list(OBJECTIVES), mode=list(OBJECTIVES.values()), seed=arguments.seed
                ),
                num_samples=arguments.samples,
                max_concurrent_trials=arguments.concurrent,
                reuse_actors=True,
            ),
            run_config=run_config("tune_provisioning_tradeoff", arguments),
        )
        print_front(tuner.fit(), OBJECTIVES)


if __name__ == "__main__":
    main()
