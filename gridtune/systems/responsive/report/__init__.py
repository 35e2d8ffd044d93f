"""The responsive system's own tables and figures: our results next to the papers', and their curves."""

from __future__ import annotations
