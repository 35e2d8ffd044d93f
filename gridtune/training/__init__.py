"""Training agents: networks, PPO in plain torch and through RLlib, checkpoints. Needs the extra `agents`."""

from __future__ import annotations
