"""An ordered queue of things to send to a tracking store that may be away for a while.

One thread sends, in order, one after the other. What fails because the store is away stays at the head of
the queue and is tried again; nothing overtakes it and nothing is dropped.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Delivery", "Outbox", "is_passing"]

#: Seconds before the first and at most before any further attempt.
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 15.0
#: The same while the end of the sweep waits.
_HURRIED_DELAY = 1.0
#: MLflow's error codes that trying again does not mend; any other failure may pass.
_LASTING = frozenset(
    {
        "BAD_REQUEST",
        "CUSTOMER_UNAUTHORIZED",
        "ENDPOINT_NOT_FOUND",
        "FEATURE_DISABLED",
        "INVALID_PARAMETER_VALUE",
        "INVALID_STATE",
        "NOT_FOUND",
        "NOT_IMPLEMENTED",
        "PERMISSION_DENIED",
        "RESOURCE_ALREADY_EXISTS",
        "RESOURCE_DOES_NOT_EXIST",
        "UNAUTHENTICATED",
    }
)

#: What SQLAlchemy raises when a database cannot be reached or is busy; named, not imported.
_DATABASE_AWAY = frozenset({"InterfaceError", "OperationalError"})

Send = Callable[[Any], None]


@dataclass
class Delivery:
    """One thing to send: what messages call it, and how; sending it twice must do no harm."""

    name: str
    send: Send


def is_passing(fault: BaseException) -> bool:
    """Whether a failure is of the kind that passes by itself (a server away, a locked database)."""
    code = getattr(fault, "error_code", None)
    if code is not None:
        return code not in _LASTING
    if type(fault).__name__ in _DATABASE_AWAY:
        return True
    return isinstance(fault, OSError) and not isinstance(
        fault, PermissionError | FileNotFoundError | IsADirectoryError | NotADirectoryError
    )


class Outbox:
    """Sends what is put into it, in order, from a thread of its own.

    Parameters
    ----------
    connect
        Makes the client that each `Delivery` is given; called in the thread, again after a failure.
    on_trouble
        Told once when sending starts to fail, with the failure.

    Notes
    -----
    The thread is a daemon: an abandoned outbox does not keep the process alive.
    """

    def __init__(
        self, connect: Callable[[], Any], on_trouble: Callable[[BaseException], None] | None = None
    ) -> None:
        self._connect = connect
        self._on_trouble = on_trouble
        self._waiting: deque[Delivery] = deque()
        self._changed = threading.Condition()
        self._closed = self._hurried = False
        self._fault: BaseException | None = None
        self._failing_since: float | None = None
        self._thread = threading.Thread(target=self._work, name="gridtune-tracking", daemon=True)
        self._thread.start()

    def put(self, name: str, send: Send) -> None:
        """Add something to send."""
        with self._changed:
            self._waiting.append(Delivery(name, send))
            self._changed.notify_all()

    @property
    def unsent(self) -> list[str]:
        """Names of what has not been sent, in order."""
        with self._changed:
            return [delivery.name for delivery in self._waiting]

    @property
    def fault(self) -> BaseException | None:
        """Why sending fails at the moment, None when it does not."""
        with self._changed:
            return self._fault

    @property
    def stopped(self) -> bool:
        """Whether a failure that does not pass has ended the sending."""
        return not self._thread.is_alive()

    def drain(self, patience: float) -> bool:
        """Wait until everything is sent; give up after `patience` seconds of nothing but failures.

        Returns
        -------
        bool
            Whether everything was sent.
        """
        began = time.monotonic()
        with self._changed:
            self._hurried = True
            self._changed.notify_all()
            while self._waiting and self._thread.is_alive():
                failing = self._failing_since
                if failing is not None and time.monotonic() - max(began, failing) > patience:
                    return False
                self._changed.wait(0.2)
            return not self._waiting

    def close(self) -> None:
        """End the thread after the thing it is sending now."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        client: Any = None
        delay = _FIRST_DELAY
        while True:
            with self._changed:
                while client is not None and not self._waiting and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                head = self._waiting[0] if self._waiting else None
            try:
                # Connecting comes first even when there is nothing to send yet: making a fresh
                # database takes seconds that pass unnoticed while the workers start.
                client = client if client is not None else self._connect()
                if head is not None:
                    head.send(client)
            except Exception as fault:
                client = None
                if not self._failed(fault, delay):
                    return
                delay = min(2 * delay, _LONGEST_DELAY)
                continue
            delay = _FIRST_DELAY
            with self._changed:
                if head is not None:
                    self._waiting.popleft()
                self._fault = self._failing_since = None
                self._changed.notify_all()

    def _failed(self, fault: Exception, delay: float) -> bool:
        """Note a failure and wait; return whether to try again."""
        with self._changed:
            first = self._fault is None
            self._fault = fault
            self._failing_since = self._failing_since or time.monotonic()
            self._changed.notify_all()
        if first and self._on_trouble is not None:
            self._on_trouble(fault)
        if not is_passing(fault):
            return False
        until = time.monotonic() + delay
        with self._changed:
            while not self._closed and time.monotonic() < until:
                if self._hurried:
                    # Somebody waits for the end: the long pauses are over.
                    until = min(until, time.monotonic() + _HURRIED_DELAY)
                self._changed.wait(max(0.0, until - time.monotonic()))
            return not self._closed
