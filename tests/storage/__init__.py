"""Logs and results at URLs."""
