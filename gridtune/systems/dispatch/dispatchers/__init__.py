"""Dispatchers that learn: a broker that chooses machines by a learner of ended jobs' outcomes."""

from __future__ import annotations
