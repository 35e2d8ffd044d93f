"""Predictors of run times: the interface, those that come with gridtune, and how kernels get theirs."""

from gridtune.batch.predictors import early_end as _early_end  # noqa: F401
from gridtune.batch.predictors import histories as _histories  # noqa: F401  (both register predictors)
from gridtune.batch.predictors.predictor import (
    EARLY,
    PREDICTORS,
    QUANTILES,
    PredictedJob,
    Prediction,
    Predictor,
    predictor,
)

__all__ = [
    "EARLY",
    "PREDICTORS",
    "QUANTILES",
    "PredictedJob",
    "Prediction",
    "Predictor",
    "predictor",
]
