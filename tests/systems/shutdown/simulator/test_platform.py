"""Clusters: which numbers are refused."""

from __future__ import annotations

import pytest

from gridtune.core.usage import NodePower
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.platform import Platform


def test_numbers_are_checked():
    with pytest.raises(SimulationError, match="finite number of watts"):
        NodePower(idle=-1)
    with pytest.raises(SimulationError, match="at least one step"):
        Platform(power=NodePower(switch_on_time=0))
    with pytest.raises(SimulationError, match="at least 1"):
        Platform(0, 4)
