"""The provisioning system's own tables and figures: those of the paper, beside its published figures."""

from __future__ import annotations
