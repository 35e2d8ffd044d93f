"""Tracking of sweeps and trainings in MLflow."""
