"""What this package adds does what gridtune asks of such things."""

from __future__ import annotations

from gridtune.testing import (
    FormatConformance,
    MetricConformance,
    QueueOrderConformance,
    SystemConformance,
)


class TestQueueDemo(SystemConformance):
    system = "queue_demo"
    example = {"servers": 3, "customers": 400, "warmup": 50}


class TestMetrics(MetricConformance):
    names = ("long_wait_fraction",)


class TestQueueOrders(QueueOrderConformance):
    names = ("aged-area",)


class TestFormats(FormatConformance):
    names = ("jsonl",)
