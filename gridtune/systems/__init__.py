"""The systems that come with gridtune, one folder each; they import nothing from one another."""

from __future__ import annotations
