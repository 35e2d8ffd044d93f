"""The `slurm` system: a log on the nodes of a slurm.conf, whose settings are searched."""
