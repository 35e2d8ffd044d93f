"""Kernels that call those of the site: cached until either's sources change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gridtune.simulation import compiled

__all__ = ["kernel"]

_SITE = Path(compiled.__file__).parent / "responsive"


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function as `gridtune.simulation.compiled.kernel` does; mind the site's sources, too."""

    def compile_with_cache(function: Callable[..., Any]) -> Any:
        dispatcher = compiled.kernel(**options)(function)
        stamp = dispatcher._cache._cache_file
        stamp._source_stamp = (*stamp._source_stamp, compiled.source_stamp(_SITE))
        return dispatcher

    return compile_with_cache
