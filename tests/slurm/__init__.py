"""Tests of the cluster that schedules as Slurm does."""
