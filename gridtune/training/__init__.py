"""Learning agents: networks, PPO written out in torch and through RLlib, and playing what was learnt.

Needs the extra `agents`. Nothing here is imported before it is used: torch alone takes seconds.
"""

from __future__ import annotations
