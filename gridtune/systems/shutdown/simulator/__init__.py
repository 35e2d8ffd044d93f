"""The shutdown system's simulator: an agent reserves nodes, and idle ones among them are switched off."""

from __future__ import annotations
