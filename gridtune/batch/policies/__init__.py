"""Policies: queue orders and backfilling variants."""

from gridtune.batch.policies import orders as _orders  # noqa: F401  (registers the built-in orders)
from gridtune.batch.policies.backfilling import (
    BACKFILLING_WARNINGS,
    SWITCHES,
    Backfilling,
    backfilling_names,
    get_backfilling,
)
from gridtune.batch.policies.expression import JobView
from gridtune.batch.policies.policy import Decision, Policy
from gridtune.batch.policies.queue_order import QueueOrder, get_queue_order, queue_order, queue_order_names

__all__ = [
    "BACKFILLING_WARNINGS",
    "SWITCHES",
    "Backfilling",
    "Decision",
    "JobView",
    "Policy",
    "QueueOrder",
    "backfilling_names",
    "get_backfilling",
    "get_queue_order",
    "queue_order",
    "queue_order_names",
]
