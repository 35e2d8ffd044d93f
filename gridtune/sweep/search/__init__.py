"""Adaptive strategies: configurations proposed by Optuna and stopped early by Tune's schedulers."""
