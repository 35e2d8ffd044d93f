"""Servers: why one was not reached, in a line, and how those of this machine are reached beside a proxy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import urlsplit

from gridtune.errors import GridtuneError, without_secrets

__all__ = ["network_reason", "skip_proxy_for_this_machine"]

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
#: Characters of an error without a reason from the operating system that a message shows.
_SHOWN = 200


def network_reason(fault: BaseException) -> str:
    """Return why a server was not reached: what the operating system said, or else the error's first line.

    An error of ours says it already. HTTP clients wrap the reason three or four times, each time with the
    whole address.
    """
    if isinstance(fault, GridtuneError):
        return without_secrets(fault.message)
    causes = list(_causes(fault))
    said = [str(cause.strerror) for cause in causes if isinstance(cause, OSError) and cause.strerror]
    if not said:
        return without_secrets(str(fault).strip().partition("\n")[0])[:_SHOWN] or type(fault).__name__
    proxy = any(type(cause).__name__ == "ProxyError" for cause in causes)
    reason = said[-1].lower()
    return f"the proxy (HTTPS_PROXY or HTTP_PROXY) cannot be reached: {reason}" if proxy else reason


def _causes(fault: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it wraps, the innermost last."""
    seen: set[int] = set()
    current: BaseException | None = fault
    while current is not None and id(current) not in seen:
        yield current
        seen.add(id(current))
        wrapped = [*current.args, getattr(current, "reason", None), current.__cause__, current.__context__]
        current = next(
            (inner for inner in wrapped if isinstance(inner, BaseException) and id(inner) not in seen), None
        )


def skip_proxy_for_this_machine(address: str) -> None:
    """Let this process ask a server of this machine itself: a proxy asks the proxy's own machine.

    Parameters
    ----------
    address
        Of the server; one elsewhere changes nothing.
    """
    if urlsplit(address).hostname not in _THIS_MACHINE:
        return
    for name in ("no_proxy", "NO_PROXY"):
        there = [host for host in os.environ.get(name, "").split(",") if host]
        if "*" not in there:
            os.environ[name] = ",".join(dict.fromkeys([*there, *_THIS_MACHINE]))
