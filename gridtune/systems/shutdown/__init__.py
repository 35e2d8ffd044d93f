"""The shutdown system: idle nodes are reserved and switched off."""

from __future__ import annotations
