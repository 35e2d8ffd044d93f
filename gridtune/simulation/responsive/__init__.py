"""The responsive system's simulator: one queue of sequential jobs, identical cores, a pool that may be sized."""

from __future__ import annotations
