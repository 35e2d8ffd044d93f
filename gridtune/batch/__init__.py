"""Batch scheduling of rigid parallel jobs: policies, compiled kernels, and metrics of schedules."""
