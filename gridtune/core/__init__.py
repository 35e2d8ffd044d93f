"""Base of every system: its contract, cells and their ids, schedules, compiled helpers."""

from __future__ import annotations
