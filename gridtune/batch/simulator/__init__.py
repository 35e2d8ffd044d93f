"""The compiled simulators of a pool of processors."""

from __future__ import annotations
