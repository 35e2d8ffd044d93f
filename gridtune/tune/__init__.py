"""Systems as trainables of Ray Tune, for a `tune.Tuner` of the user.

    from ray import tune
    from ray.air.integrations.mlflow import MLflowLoggerCallback
    import gridtune as gt

    tuner = tune.Tuner(
        gt.tune.trainable("shutdown", fixed={"trace": "taurus_days", "policy": "timeout"}, replicates=10),
        param_space={"timeout": tune.randint(0, 20)},
        tune_config=tune.TuneConfig(metric="energy_waste_per_day", mode="min", num_samples=20),
        run_config=tune.RunConfig(callbacks=[MLflowLoggerCallback(experiment_name="timeouts")]),
    )
    print(tuner.fit().get_best_result().config)

For sweeps that are resumed, ranked and reported, use `gridtune.run_sweep`. `train` trains a single
agent.
"""

from __future__ import annotations

from typing import Any

from gridtune.tune.trainable import SystemTrainable, trainable

__all__ = ["SystemTrainable", "train", "trainable"]


def __getattr__(name: str) -> Any:
    if name == "train":
        # It imports torch.
        from gridtune.tune.training import train  # noqa: PLC0415

        return train
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
