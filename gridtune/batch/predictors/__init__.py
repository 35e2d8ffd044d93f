"""Predictors of run times: the interface, those that come with gridtune, and how kernels get theirs."""

from gridtune.batch.predictors.predictor import (
    EARLY,
    PREDICTORS,
    QUANTILES,
    PredictedJob,
    Prediction,
    Predictor,
    predictor,
)

__all__ = ["EARLY", "PREDICTORS", "QUANTILES", "PredictedJob", "Prediction", "Predictor", "predictor"]
