"""Policies: queue orders and backfilling, as data and small functions that kernels compile."""

from gridtune.policies import orders as _orders  # noqa: F401  (registers the built-in orders)
from gridtune.policies.backfilling import Backfilling, backfilling_names, get_backfilling
from gridtune.policies.job_view import JobView
from gridtune.policies.plugins import load_plugin
from gridtune.policies.queue_order import QueueOrder, get_queue_order, queue_order, queue_order_names

__all__ = [
    "Backfilling",
    "JobView",
    "QueueOrder",
    "backfilling_names",
    "get_backfilling",
    "get_queue_order",
    "load_plugin",
    "queue_order",
    "queue_order_names",
]
