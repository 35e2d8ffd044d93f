"""A pickle of a stranger."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["Evil"]


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.place),)
