"""Slurm's own files: its configuration, tables of sacctmgr and sshare, the queue that squeue prints."""
