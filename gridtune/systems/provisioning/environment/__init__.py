"""The provisioning system's environment: an agent that goes through slots and keeps or drops each."""

from __future__ import annotations
