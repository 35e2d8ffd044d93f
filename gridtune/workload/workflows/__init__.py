"""Workflows: applications whose tasks wait for one another."""

from __future__ import annotations

from gridtune.workload.workflows.workflow import Neighbours, Workflow

__all__ = ["Neighbours", "Workflow"]
