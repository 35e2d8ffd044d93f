"""The `slurm` system: a log on the nodes of a slurm.conf, with settings to search."""
