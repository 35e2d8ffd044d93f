"""Policies for the shutdown system that are trained with PPO, and how they are played."""

from __future__ import annotations
