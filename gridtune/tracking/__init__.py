"""Tracking: what a sweep did, in MLflow."""
