"""Gymnasium environments, and vectorised twins that step many of them in one compiled call.

Importing this package registers them: `gymnasium.make("gridtune/Shutdown-v0")` and `make_vec` find them then,
or with the package's name before theirs (`gridtune.environments:gridtune/Shutdown-v0`) do without the import.
Needs the extra `agents`.
"""

from __future__ import annotations

import gymnasium

from gridtune.environments.responsive import ResponsiveEnv, ResponsiveVectorEnv
from gridtune.environments.shutdown import ShutdownEnv, ShutdownVectorEnv

__all__ = ["ResponsiveEnv", "ResponsiveVectorEnv", "ShutdownEnv", "ShutdownVectorEnv"]

gymnasium.register(
    id="gridtune/Responsive-v0",
    entry_point="gridtune.environments.responsive:ResponsiveEnv",
    vector_entry_point="gridtune.environments.responsive:ResponsiveVectorEnv",
)
gymnasium.register(
    id="gridtune/Shutdown-v0",
    entry_point="gridtune.environments.shutdown:ShutdownEnv",
    vector_entry_point="gridtune.environments.shutdown:ShutdownVectorEnv",
)
