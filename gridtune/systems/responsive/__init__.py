"""The responsive system: a grid site with short and long jobs."""

from __future__ import annotations
