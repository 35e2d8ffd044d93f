"""Agents that choose slots: how they are trained, and how they play."""

from __future__ import annotations
