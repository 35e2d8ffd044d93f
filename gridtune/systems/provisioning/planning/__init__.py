"""Schedulers that lay a workflow onto free slots, compiled and, as their specification, in plain Python."""

from __future__ import annotations
