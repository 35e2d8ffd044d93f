"""The dispatch system's simulator: a broker sends each job to a machine with a queue of its own."""

from __future__ import annotations
