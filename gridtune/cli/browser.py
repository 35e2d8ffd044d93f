"""`python -m gridtune.cli.browser HEALTH PAGE`: opens a page in the browser when its server answers."""

from __future__ import annotations

import sys
import time
import urllib.request
import webbrowser

from gridtune.network import skip_proxy_for_this_machine

__all__ = ["open_when_ready"]

#: Seconds that a server may take to start, and between two attempts.
_PATIENCE, _PAUSE = 120.0, 0.3


def open_when_ready(health: str, page: str) -> bool:
    """Open a page when the server answers at `health`; return whether it did."""
    skip_proxy_for_this_machine(health)
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(health, timeout=2):
                return webbrowser.open(page)
        except OSError:
            time.sleep(_PAUSE)
    return False


if __name__ == "__main__":
    open_when_ready(*sys.argv[1:3])
