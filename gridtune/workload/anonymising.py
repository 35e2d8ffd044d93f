"""Taking out of a log who was who: names and numbers of people, accounts and programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gridtune.types import IntArray
from gridtune.workload.fields import NAMED_FIELDS, UNKNOWN
from gridtune.workload.workload import Workload

__all__ = ["anonymised"]

#: Named fields that say nothing of people, and are needed to read results: they stay.
_OPEN = frozenset({"partition", "queue", "qos", "features", "gpu_type", "state"})
#: What of the header stays: it is gridtune's own or says when the log began.
_HEADER = frozenset(
    {"Import", "UnixStartTime", "StartTime", "PartitionProcs", "GPUs", "MaxProcs", "MaxNodes"}
)


def anonymised(workload: Workload) -> Workload:
    """Return the log with users, groups, accounts and programs numbered in order of their first job.

    Their names go, and with them every line of the header that is not gridtune's own. Names of partitions,
    queues, qualities of service, features, GPUs and states stay.
    """
    columns = dict(workload.columns)
    for field in set(NAMED_FIELDS) - _OPEN:
        if field in columns:
            columns[field] = _renumbered(columns[field])
    return replace(
        workload,
        columns=columns,
        source=None,
        names={field: names for field, names in workload.names.items() if field in _OPEN},
        header={key: values for key, values in workload.header.items() if key in _HEADER},
    )


def _renumbered(column: IntArray) -> IntArray:
    """Return numbers from 1 in order of first appearance; unknown stays unknown."""
    values, first, inverse = np.unique(column, return_index=True, return_inverse=True)
    order = np.argsort(first[values != UNKNOWN], kind="stable")
    numbers = np.full(len(values), UNKNOWN, np.int64)
    known = np.flatnonzero(values != UNKNOWN)
    numbers[known[order]] = np.arange(1, len(known) + 1)
    return numbers[inverse]
