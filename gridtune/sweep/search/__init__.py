"""Strategies: configurations proposed, raced and stopped early, with Optuna, Tune's schedulers and races."""
