"""The provisioning system's simulator: sites that offer free slots, and workflows that run on them."""

from __future__ import annotations
