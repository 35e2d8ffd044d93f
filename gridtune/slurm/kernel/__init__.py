"""The compiled simulation of a cluster that schedules as Slurm does."""
