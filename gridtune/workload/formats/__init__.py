"""Trace formats, found by the content of a file.

To add one, write a module with a reader and a writer. Name its `Format` in `log` or, from a package of your
own, announce it by an entry point of the group `gridtune.formats`.
"""

from __future__ import annotations

from gridtune.workload.formats.compression import DEFAULT_MAX_BYTES
from gridtune.workload.formats.log import FORMATS, Format, find_format, format_names, register_format

__all__ = ["DEFAULT_MAX_BYTES", "FORMATS", "Format", "find_format", "format_names", "register_format"]
