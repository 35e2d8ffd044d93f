"""The compiled simulators of a cluster, and their plain-Python twins."""

from __future__ import annotations
