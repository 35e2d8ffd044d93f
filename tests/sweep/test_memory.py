"""The memory of one cell has a limit: what passes it fails, and what comes after does not."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from gridtune.sweep.execution.runner import limited_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="private data is counted on Linux alone")

MIB = 2**20


@pytest.mark.parametrize("take", [lambda: bytearray(512 * MIB), lambda: np.ones(64 * MIB)])
def test_what_takes_more_than_its_limit_fails_alone(take: object) -> None:
    assert callable(take)
    with limited_memory(64 * MIB):
        assert len(bytearray(MIB)) == MIB
        with pytest.raises(MemoryError):
            take()
    assert len(take()) > 0


def test_no_limit_is_none() -> None:
    with limited_memory(0):
        assert len(bytearray(512 * MIB)) == 512 * MIB
