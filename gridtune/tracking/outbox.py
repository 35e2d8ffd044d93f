"""An ordered queue of things to send to a tracking store that may be away for a while.

One thread sends, in order, one after the other. A thing that fails because the store is away stays at the
head of the queue and is tried again; nothing overtakes it and nothing is dropped. MLflow's client takes
seconds of a processor to import and to write some hundred runs, so it works in a process beside.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from gridtune.errors import TrackingError
from gridtune.storage import network_reason
from gridtune.tracking.runs import RunTree
from gridtune.tracking.store import database_path

#: Seconds before the first and at most before any further attempt.
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 15.0
#: The same while the end of the sweep waits.
_HURRIED_DELAY = 1.0
#: The HTTP statuses of MLflow's errors that trying again does not mend; any other failure may pass.
_LASTING = {400, 401, 403, 404, 501}

#: What SQLAlchemy raises when a database cannot be reached or is busy; named, not imported.
_DATABASE_AWAY = frozenset({"InterfaceError", "OperationalError"})

Send = Callable[[Any], None]


def _is_passing(fault: BaseException) -> bool:
    """Return True for a failure that passes by itself (a server away, a locked database)."""
    if isinstance(fault, _StoreError):
        return fault.passing
    status = getattr(fault, "get_http_status_code", None)
    if status is not None:
        return status() not in _LASTING
    if type(fault).__name__ in _DATABASE_AWAY:
        return True
    return isinstance(fault, OSError) and not isinstance(
        fault, PermissionError | FileNotFoundError | IsADirectoryError | NotADirectoryError
    )


class _StoreError(TrackingError):
    """A failure in the process beside; `passing` says whether it passes by itself."""

    passing = False


class Outbox:
    """Sends what is put into it, in order, from a thread of its own.

    Parameters
    ----------
    connect
        Makes the client that everything is sent with; called in the thread, again after a failure.
    on_trouble
        Called once with the failure when sending starts to fail.
    disconnect
        Called when the thread ends.

    Notes
    -----
    The thread is a daemon: an abandoned outbox does not keep the process alive.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        on_trouble: Callable[[BaseException], None] = lambda fault: None,
        disconnect: Callable[[], None] = lambda: None,
    ) -> None:
        self._connect, self._on_trouble, self._disconnect = connect, on_trouble, disconnect
        #: What messages call it, and how it is sent; sending it twice must do no harm.
        self._waiting: deque[tuple[str, Send]] = deque()
        self._changed = threading.Condition()
        self._closed = self._hurried = False
        self._fault: BaseException | None = None
        self._failing_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="gridtune-tracking", daemon=True)
        self._thread.start()

    def put(self, name: str, send: Send) -> None:
        """Add something to send."""
        with self._changed:
            self._waiting.append((name, send))
            self._changed.notify_all()

    @property
    def unsent(self) -> list[str]:
        """Names of what has not been sent, in order."""
        with self._changed:
            return [name for name, _ in self._waiting]

    @property
    def fault(self) -> BaseException | None:
        """Why sending fails at the moment, None when it does not."""
        with self._changed:
            return self._fault

    def drain(self, patience: float) -> bool:
        """Wait until everything is sent; give up after `patience` seconds of nothing but failures.

        Returns
        -------
        bool
            True if everything was sent.
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

    def _run(self) -> None:
        client: Any = None
        delay = _FIRST_DELAY
        try:
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
                        head[1](client)
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
        finally:
            self._disconnect()

    def _failed(self, fault: Exception, delay: float) -> bool:
        """Note a failure and wait; return whether to try again."""
        with self._changed:
            first = self._fault is None
            self._fault = fault
            self._failing_since = self._failing_since or time.monotonic()
            self._changed.notify_all()
        if first:
            self._on_trouble(fault)
        if not _is_passing(fault):
            return False
        until = time.monotonic() + delay
        with self._changed:
            while not self._closed and time.monotonic() < until:
                if self._hurried:
                    # Somebody waits for the end: the long pauses are over.
                    until = min(until, time.monotonic() + _HURRIED_DELAY)
                self._changed.wait(max(0.0, until - time.monotonic()))
            return not self._closed


class StoreProcess:
    """A `RunTree` in a process of its own: its methods are called there; results and errors come back.

    The process ends when this one does, however that ends; Ctrl-C does not reach it.

    Parameters
    ----------
    uri
        The tracking store.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self) -> Any:
        """Start the process, unless it runs, and connect it with the store; return something to call."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", "from gridtune.tracking.outbox import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                process_group=0,
            )
            self._call("__init__", self._uri)
        self._call("connect")
        return self

    def close(self) -> None:
        """Let the process end, and wait for it."""
        if self._process is not None:
            self._process.communicate()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._call, name)

    def _call(self, method: str, *arguments: Any, **named: Any) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump((method, arguments, named), self._process.stdin)
            self._process.stdin.flush()
            answer, reason, passing = pickle.load(self._process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            raise _StoreError("the process that writes to it has died") from None
        if reason is not None:
            database = database_path(self._uri)
            if database is not None and method not in {"__init__", "connect"} and not database.exists():
                reason, passing = "it was deleted while it was in use", False
            fault = _StoreError(reason)
            fault.passing = passing
            raise fault
        return answer


def serve() -> None:
    """Answer the calls of a `StoreProcess`, one after the other, until it is gone."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # MLflow's prints must not come between the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    tree = RunTree.__new__(RunTree)
    while True:
        try:
            method, arguments, named = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: tuple[Any, str | None, bool]
        try:
            answer = getattr(tree, method)(*arguments, **named), None, False
        except Exception as fault:
            answer = None, network_reason(fault), _is_passing(fault)
        pickle.dump(answer, answers)
        answers.flush()
