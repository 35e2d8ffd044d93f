"""When an axis is logarithmic; apart from the figures, so that asking needs no matplotlib."""

from __future__ import annotations

import math
from collections.abc import Iterable

__all__ = ["is_logarithmic"]

#: Largest over smallest value from which an axis is logarithmic.
_LOGARITHMIC_FROM = 30.0


def is_logarithmic(values: Iterable[float | None]) -> bool:
    """Return whether values reach so far that only a logarithmic axis shows them all."""
    finite = [value for value in values if value is not None and not math.isnan(value)]
    return bool(finite) and min(finite) > 0 and max(finite) / min(finite) > _LOGARITHMIC_FROM
