"""The dispatch system's own tables and figures: the paper's with ours beside, learning, calibration."""

from __future__ import annotations
