"""What the suites share that test things of a registry by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from gridtune.registry import Registry

__all__ = ["RegistryConformance"]


class RegistryConformance:
    """Runs each of its tests once for each name.

    Attributes
    ----------
    names
        What is tested; by default everything that is registered.
    """

    registry: ClassVar[Registry[Any]]
    names: ClassVar[Sequence[str] | None] = None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each test the names, one at a time."""
        if "name" in metafunc.fixturenames:
            metafunc.parametrize("name", list(self.registry if self.names is None else self.names))

    def test_is_registered_under_its_name(self, name: str) -> None:
        """The registry finds it, and it has the name that it is registered under."""
        assert name in self.registry
        assert self.registry.find(name).name == name
