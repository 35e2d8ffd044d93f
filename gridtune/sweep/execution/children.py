"""A child process of a sweep's own, in which cells with users' code run.

A crash, an exit, a hang or a fork of that code costs the cell at most, as in a worker on Ray.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import Any

from gridtune.errors import SweepError
from gridtune.registry import is_ours
from gridtune.sweep.execution.blocks import LOOK_SECONDS

#: In the sweep's folder: the last of the text that users' code printed, and so many bytes of it.
_OUTPUT_NAME, _OUTPUT_BYTES = "output.log", 2**16
#: Times that the child is started, and seconds between them.
_STARTS, _PAUSE_SECONDS = 100, 0.1
#: Characters of the folder for temporary files below which a server of forks has room for its socket's name.
_LONGEST_FOLDER = 60


class ChildWorkers:
    """One child process for all cells of a sweep; when it dies, another takes its place.

    Parameters
    ----------
    host
        Returns, in the child, the object whose methods are called.
    folder
        The sweep's, which gets the text that users' code prints.
    """

    def __init__(self, host: Callable[[], Any], folder: Path) -> None:
        self._host, self._log = host, folder / _OUTPUT_NAME
        self._printed = self._log.read_bytes() if self._log.exists() else b""
        forks = "forkserver" in multiprocessing.get_all_start_methods()
        forks = forks and len(tempfile.gettempdir()) < _LONGEST_FOLDER
        self._context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
        # Imported once, for each child that follows; users' code is not.
        self._context.set_forkserver_preload([name for name in sys.modules if is_ours(name)])
        self._process: Any = None

    def start(self, name: str, method: str = "prepare") -> None:
        """Start the child, without running the main script in it, as multiprocessing does by itself."""
        self._name = name
        (self._calls, calls), (self._output, output) = self._context.Pipe(), self._context.Pipe(False)
        arguments = (self._host, dict(os.environ), calls, output)
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            for _ in range(_STARTS):
                process = self._context.Process(target=_serve, args=arguments)
                try:
                    process.start()
                    break
                except (EOFError, ConnectionError):
                    # The server of forks was killed; once it is gone, the next start has another one.
                    time.sleep(_PAUSE_SECONDS)
            else:
                raise SweepError("no process for the cells could be started", hint="is memory full?")
        finally:
            sys.modules["__main__"] = main
        self._process = process
        calls.close()
        output.close()
        self.call(name, method)

    def call(self, name: str, method: str, *arguments: Any) -> None:
        """Call a method of the child's object."""
        with contextlib.suppress(OSError):  # the next look sees that it has died
            self._calls.send((method, arguments))

    def answers(self) -> Iterator[tuple[str, Any]]:
        """Wait a moment; yield the child's answer, or an exception if it has died."""
        ready = wait([self._calls, self._process.sentinel, *self._open_output()], LOOK_SECONDS)
        self._keep_output()
        try:
            if self._calls in ready:
                yield self._name, self._calls.recv()
            elif self._process.sentinel in ready:
                raise EOFError
        except (EOFError, OSError):
            yield self._name, SweepError(self._last_words())

    def end(self, name: str) -> None:
        """End the child and all processes that it has started."""
        process, self._process = self._process, None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        self._keep_output()
        for channel in (self._calls, self._output):
            channel.close()

    def _last_words(self) -> str:
        self._process.join(LOOK_SECONDS)  # it lives on where users' code has closed its pipe
        code = self._process.exitcode or 0
        how = f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
        memory = ", as where memory runs out" if code == -signal.SIGKILL else ""
        self._keep_output()
        printed = f"; see {_OUTPUT_NAME} for what it printed" if self._printed else ""
        return f"process {self._process.pid} {how}{memory}{printed}"

    @classmethod
    def result_of(cls, function: Callable[..., Any], *arguments: Any, folder: Path) -> Any:
        """Return the result of a function that is called in a child.

        Raises
        ------
        SweepError
            If the child ends before, as it does where the function fails.
        """
        with contextlib.closing(cls(partial(partial, function, *arguments), folder)) as child:
            child.start("child", "__call__")
            while True:
                for _, answer in child.answers():
                    if isinstance(answer, SweepError):
                        raise answer
                    return answer

    def close(self) -> None:
        """End the child, whatever it does."""
        if self._process is not None:
            self.end(self._name)

    def _open_output(self) -> list[Connection]:
        return [] if self._output.closed else [self._output]

    def _keep_output(self) -> None:
        """Keep the last of what the child has printed; it is no result, and may be lost on a full disk."""
        if not self._open_output() or not wait([self._output], 0):
            return
        text = os.read(self._output.fileno(), _OUTPUT_BYTES)  # all that a pipe holds
        if not text:
            self._output.close()
            return
        self._printed = (self._printed + text)[-_OUTPUT_BYTES:]
        with contextlib.suppress(OSError):
            self._log.write_bytes(self._printed)


def _serve(
    host: Callable[[], Any], environ: Mapping[str, str], calls: Connection, output: Connection
) -> None:
    """Answer the calls of the driver, in the child, until the driver ends."""
    # Ctrl-C is the driver's; with a group, the driver also ends what users' code starts.
    os.setpgrp()
    driver = multiprocessing.parent_process()
    assert driver is not None
    # The system ends this process with the driver by a signal, even while a kernel runs.
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(driver.sentinel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(driver.sentinel, fcntl.F_SETFL, fcntl.fcntl(driver.sentinel, fcntl.F_GETFL) | os.O_ASYNC)
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)
    output.close()
    sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, errors="replace", closefd=False)
    faulthandler.enable()
    # The server of forks has the environment of its own start.
    os.environ.clear()
    os.environ.update(environ)
    process = os.getpid()
    try:
        hosted = host()
        while True:
            method, arguments = calls.recv()
            answer = getattr(hosted, method)(*arguments)
            if os.getpid() != process:
                os._exit(0)  # a fork that returned
            calls.send(answer)
    except BaseException:  # the end of the driver is one
        traceback.print_exc()
    finally:
        # Threads that users' code has left are not waited for.
        os._exit(1)
