"""Training agents through RLlib: the contract, networks, PPO, checkpoints. Needs the extra `agents`."""

from __future__ import annotations
