"""Workflows: applications whose tasks wait for one another."""

from __future__ import annotations

from gridtune.workload.workflows.files import WORKFLOW_RULES, read_workflow
from gridtune.workload.workflows.workflow import (
    Neighbours,
    Workflow,
    cybershake_workflow,
    generate_workflow,
)

__all__ = [
    "WORKFLOW_RULES",
    "Neighbours",
    "Workflow",
    "cybershake_workflow",
    "generate_workflow",
    "read_workflow",
]
