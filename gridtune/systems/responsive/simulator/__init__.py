"""The responsive system's simulator: one queue of sequential jobs on identical cores."""

from __future__ import annotations
