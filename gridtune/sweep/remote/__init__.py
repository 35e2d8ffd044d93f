"""Sweeps at URLs: results stored by the driver, and copies for those who look."""
