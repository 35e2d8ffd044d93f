"""Gymnasium environments, and vectorised twins that step many of them in one compiled call.

Importing this package registers the environments, so `gymnasium.make("gridtune/Shutdown-v0")` finds them.
Needs the extra `agents`.
"""

from __future__ import annotations
