"""The dispatch system: a broker chooses machines that have queues of their own."""

from __future__ import annotations
