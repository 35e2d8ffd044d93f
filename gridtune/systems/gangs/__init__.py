"""Gangs of GPUs over time: which training jobs run in each round, and which are preempted."""
