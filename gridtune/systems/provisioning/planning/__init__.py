"""Compiled schedulers that place a workflow on free slots."""

from __future__ import annotations
