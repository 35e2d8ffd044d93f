"""The memory of one cell has a limit: what passes it fails, and what comes after does not."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

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


def test_a_worker_that_ray_ends_for_its_memory_has_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    from gridtune.sweep.execution.workers import _Actors  # noqa: PLC0415

    def fail(reference: Any) -> NoReturn:
        raise ray.exceptions.OutOfMemoryError("Task was killed.\nTop processes:\n1 2 3")

    actors = object.__new__(_Actors)
    actors._calls = {"a call": "worker 1"}
    monkeypatch.setattr(ray, "wait", lambda calls, **options: (calls, []))
    monkeypatch.setattr(ray, "get", fail)
    ((name, answer),) = actors.answers()
    assert (name, str(answer)) == ("worker 1", "Ray ended it because its machine ran out of memory")
