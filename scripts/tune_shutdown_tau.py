"""Tune τ: how long jobs may wait, as a share of their walltime, so that fewer nodes must be on.

    python scripts/tune_shutdown_tau.py --samples 40
    ray job submit --working-dir . -- python scripts/tune_shutdown_tau.py

The adaptive rule lets jobs wait for nodes that are on, at most for the share τ. The longer they may wait, the
less energy is wasted; Optuna searches τ and the idle time before a node is switched off for both objectives
at once, and the Pareto front is printed. The bundled days are generated; --trace takes real ones.
"""

from ray import tune
from ray.tune.search.optuna import OptunaSearch
from tuning import connected, options, print_front, run_config

import gridtune as gt

OBJECTIVES = {"energy_waste_per_day": "min", "wait_mean": "min"}


def main() -> None:
    """Search, and print the front."""
    parser = options(__doc__, samples=40, replicates=5)
    parser.add_argument("--trace", default="taurus_days", help="days of a cluster (taurus_days)")
    parser.add_argument("--cluster", default="taurus", help="the cluster's power and boot times (taurus)")
    arguments = parser.parse_args()
    fixed = {"trace": arguments.trace, "cluster": arguments.cluster, "policy": "adaptive", "subset": "train"}
    with connected(arguments):
        tuner = tune.Tuner(
            gt.tune.trainable(
                "shutdown", fixed=fixed, replicates={"windows": arguments.replicates}, metrics=OBJECTIVES
            ),
            param_space={"tau": tune.loguniform(0.05, 2), "timeout": tune.randint(0, 6)},
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
