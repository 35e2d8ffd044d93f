"""Searches for resource plans: which slots to take for a workflow, at what cost, for what makespan."""

from __future__ import annotations
