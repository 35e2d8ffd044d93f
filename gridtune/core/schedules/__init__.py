"""Schedules of jobs: in memory, as files, and drawn."""
