"""A cluster of nodes, scheduled as Slurm does: partitions, priorities, the main and the backfill pass."""
