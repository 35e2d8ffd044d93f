"""Workloads: reading, writing, cleaning and cutting the logs of machines."""

from __future__ import annotations

from gridtune.workload.cleaning import (
    DEFAULT_RULES,
    LENIENT_RULES,
    CleaningReport,
    clean,
    cleaning_rule,
    cleaning_rules,
)
from gridtune.workload.fields import SWF_FIELDS, UNKNOWN
from gridtune.workload.files import read_workload, read_workloads, write_workload
from gridtune.workload.formats import DEFAULT_MAX_BYTES, format_names
from gridtune.workload.workload import Workload

__all__ = [
    "DEFAULT_MAX_BYTES",
    "DEFAULT_RULES",
    "LENIENT_RULES",
    "SWF_FIELDS",
    "UNKNOWN",
    "CleaningReport",
    "Workload",
    "clean",
    "cleaning_rule",
    "cleaning_rules",
    "format_names",
    "read_workload",
    "read_workloads",
    "write_workload",
]
