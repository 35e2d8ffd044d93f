"""The batch simulator stepped decision by decision, for the environment and for trained policies."""

from __future__ import annotations
