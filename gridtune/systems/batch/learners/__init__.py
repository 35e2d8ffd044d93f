"""Policies for the batch system that are trained with PPO, and how they are played."""

from __future__ import annotations
