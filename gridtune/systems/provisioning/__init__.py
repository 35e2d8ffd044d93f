"""The provisioning system: workflows on slots reserved for them, against the queue."""

from __future__ import annotations
