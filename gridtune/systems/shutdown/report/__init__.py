"""The shutdown system's own tables and figures: the paper's beside ours, and how the policies behave."""

from __future__ import annotations
