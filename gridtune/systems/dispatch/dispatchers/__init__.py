"""Dispatchers that learn: they choose machines by what classifiers made of the jobs that have ended."""

from __future__ import annotations
