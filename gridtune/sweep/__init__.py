"""Sweeps: search spaces, cells and their journal, and running them on Ray."""
