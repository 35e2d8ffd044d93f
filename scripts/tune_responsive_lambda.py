"""Train a grid site's learner over λ, the weight of responsiveness in its reward.

    python scripts/tune_responsive_lambda.py --samples 30
    ray job submit --working-dir . -- env GRIDTUNE_HOME=/FOLDER python scripts/tune_responsive_lambda.py

λ has no best value: it trades how soon interactive jobs start for how fairly organisations are served (on a
rigid site) or for core hours (on an elastic one). Every configuration is an agent of ESN-Q through RLlib,
judged on the jobs held out. Optuna searches λ and the size of the network for both objectives at once, and
the Pareto front is printed. The log `egee` is generated; --trace takes a real one. A job writes its results
to GRIDTUNE_HOME, a folder on the head node.
"""

from ray import tune
from ray.tune.search.optuna import OptunaSearch
from tuning import connected, options, print_front, run_config

import gridtune as gt

#: What each kind of site trades responsiveness for.
PRICES = {"rigid": ("fairness_mean", "max"), "elastic-paper": ("core_hours", "min")}


def main() -> None:
    """Search, and print the front."""
    parser = options(__doc__, samples=30, replicates=3)
    parser.add_argument("--trace", default="egee", help="log of sequential jobs (egee)")
    parser.add_argument("--first", type=int, default=3000, help="jobs of it (3000)")
    parser.add_argument("--cores", type=int, default=60, help="cores of the site (60: jobs wait)")
    parser.add_argument(
        "--site", choices=PRICES, default="elastic-paper", help="kind of site (elastic-paper)"
    )
    arguments = parser.parse_args()
    price, direction = PRICES[arguments.site]
    objectives = {"responsiveness_mean": "max", price: direction}
    fixed = {
        "trace": arguments.trace,
        "first": arguments.first,
        "site": arguments.site,
        "cores": arguments.cores,
        "policy": "esn-sarsa",
        "held_out": 0.5,
    }
    with connected(arguments):
        tuner = tune.Tuner(
            gt.tune.trainable(
                "responsive/esnq", fixed=fixed, replicates=arguments.replicates, metrics=objectives
            ),
            param_space={"weight": tune.uniform(0, 1), "neurons": tune.randint(20, 201)},
            tune_config=tune.TuneConfig(
                search_alg=OptunaSearch(
                    metric=list(objectives), mode=list(objectives.values()), seed=arguments.seed
                ),
                num_samples=arguments.samples,
                max_concurrent_trials=arguments.concurrent,
                reuse_actors=True,
            ),
            run_config=run_config("tune_responsive_lambda", arguments),
        )
        print_front(tuner.fit(), objectives)


if __name__ == "__main__":
    main()
