"""Conformance suites of systems, environments, formats, metrics, orders and predictors.

Each suite is a class of pytest tests, one rule a test. A package that adds something to gridtune derives from
the suite of its kind in its own tests:

    from gridtune.testing import QueueOrderConformance, SystemConformance

    class TestQueueDemo(SystemConformance):
        system = "queue_demo"
        example = {"servers": 2, "customers": 500}

    class TestOrders(QueueOrderConformance):
        names = ("aged-area",)

Suites of metrics, formats, orders and predictors that are given no `names` test all that is registered. The
suites need pytest; `EnvironmentConformance` needs Gymnasium too.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

#: The suites and the modules they live in.
_PUBLIC = {
    "EnvironmentConformance": "gridtune.testing.environments",
    "FormatConformance": "gridtune.testing.registries",
    "MetricConformance": "gridtune.testing.registries",
    "PredictorConformance": "gridtune.testing.registries",
    "QueueOrderConformance": "gridtune.testing.registries",
    "SystemConformance": "gridtune.testing.systems",
}

__all__ = [*_PUBLIC]  # noqa: PLE0604  (all are strings)

# A failed rule shows the values it compared.
pytest.register_assert_rewrite(*sorted(set(_PUBLIC.values())))


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'gridtune.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
