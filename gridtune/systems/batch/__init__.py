"""The batch system: a job log replayed on one machine."""

from __future__ import annotations
