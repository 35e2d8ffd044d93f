"""Trace formats: one file each, found by suffix.

To add one, write a module with a reader and a writer. Register its `Format` here or, from a package of your
own, announce it by an entry point of the group `gridtune.formats`.
"""

from __future__ import annotations

from gridtune.workload.formats.batsim import BATSIM
from gridtune.workload.formats.compression import DEFAULT_MAX_BYTES
from gridtune.workload.formats.csv import CSV
from gridtune.workload.formats.gwf import GWF
from gridtune.workload.formats.log import FORMATS, Format, find_format, format_names, register_format
from gridtune.workload.formats.parquet import PARQUET
from gridtune.workload.formats.pbs import PBS
from gridtune.workload.formats.sacct import SACCT
from gridtune.workload.formats.swf import SWF

__all__ = [
    "DEFAULT_MAX_BYTES",
    "FORMATS",
    "Format",
    "find_format",
    "format_names",
    "register_format",
]

for _format in (SWF, GWF, BATSIM, PARQUET, CSV, SACCT, PBS):
    register_format(_format)
