"""What every system builds on: its contract, cells and their ids, schedules, compiled helpers."""

from __future__ import annotations
