"""The provisioning system: workflows on slots held for them, against the queue."""

from __future__ import annotations
