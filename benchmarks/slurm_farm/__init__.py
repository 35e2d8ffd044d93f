"""Real Slurms on one machine, with a fast clock: see `scripts/slurm_farm`."""
