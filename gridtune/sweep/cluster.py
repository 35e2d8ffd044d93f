"""Ray for a sweep: a local cluster of its own, or one that runs already."""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import math
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping

from gridtune.core.resources import CellResources
from gridtune.errors import SweepError
from gridtune.sweep.placement import check_room_for, nodes_now

__all__ = [
    "ONE_THREAD",
    "RAY_ENVIRONMENT",
    "RaySession",
    "environment",
    "is_client",
    "local_processors",
    "processors_here",
    "ray_session",
    "warn_after_wait",
]

#: One thread per worker: many workers each with a thread pool wait for one another.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
#: Ray and Tune: no statistics sent home, no console output, loggers and snapshots of their own (the journal
#: is the truth), and no end to waiting where a busy machine takes minutes to start a process.
RAY_ENVIRONMENT = ONE_THREAD | {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Tune's actors never use the workers that Ray starts on its own account.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_gcs_server_port_wait_time_s": "3600",
    "RAY_raylet_start_wait_time_s": "3600",
    "RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "15",
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "600",
    "RAY_agent_register_timeout_ms": "3600000",
    "RAY_worker_register_timeout_seconds": "3600",
    # The raylet prints to standard output about dying workers, past every log level; results say it better.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}
#: How addresses of Ray Client begin.
_CLIENT = "ray://"
#: Seconds within which a running cluster must answer.
_ANSWER_SECONDS = 10.0
#: Seconds within which Ray Client must have started a server of ours, on however busy a head.
_CLIENT_SECONDS = 300.0
#: Seconds between two looks at its head.
_WATCH_SECONDS = 5.0
#: Seconds after which the user hears that Ray is still starting.
_SLOW_SECONDS = 10.0
#: Seconds without a worker after which the user hears that the cluster is full.
_WAIT_SECONDS = 15.0


def is_client(address: str) -> bool:
    """Return whether an address is one of Ray Client: this machine is then no node of the cluster."""
    return address.startswith(_CLIENT)


def processors_here() -> int:
    """Return how many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@contextlib.contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that are not set, and take them back at the end."""
    added = [name for name in changes if name not in os.environ]
    os.environ.update({name: changes[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


class RaySession:
    """Ray for one sweep: it starts in a thread of its own, while the sweep is being planned.

    Parameters
    ----------
    address
        A running cluster's address. None: the one `RAY_ADDRESS` names (as under `ray job submit`) or, if
        it names none, a local cluster of this sweep's own, without dashboard.
    workers
        Workers wanted at once; 0 means as many as there is room for. A local cluster makes room for those
        wanted, be they more than there are processors.
    needs
        What each occupies.
    silent
        Called when the head of a running cluster does not answer, with its address, and with "" when it does
        again.

    Notes
    -----
    The thread lives as long as the session: Linux ends Ray's processes with the thread that started them.
    """

    def __init__(
        self,
        address: str | None,
        *,
        workers: int,
        needs: CellResources,
        silent: Callable[[str], None] = lambda address: None,
    ) -> None:
        self._address = address or os.environ.get("RAY_ADDRESS") or None
        self._workers, self._needs, self._silent = workers, needs, silent
        self._answered, self._over = threading.Event(), threading.Event()
        self._size: tuple[int, int] | None = None
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._live, name="ray", daemon=True)
        self._thread.start()

    @property
    def answered(self) -> bool:
        """Whether `wait` would return at once."""
        return self._answered.is_set()

    def wait(self, slow: Callable[[], None] = lambda: None) -> tuple[int, int]:
        """Wait until Ray is there; return the workers to use and those it has room for.

        Parameters
        ----------
        slow
            Called once if that takes long.

        Raises
        ------
        SweepError
            If the cluster cannot be reached or started, or has no room for one worker.
        """
        if not self._answered.wait(_SLOW_SECONDS):
            slow()
            self._wait_on()
        if self._fault is not None:
            raise self._fault
        assert self._size is not None
        return self._size

    def _wait_on(self) -> None:
        """Wait without an end but for Ray Client: if its server fails to start, Ray does not tell us."""
        over_client = is_client(self._address or "")
        if not self._answered.wait(_CLIENT_SECONDS if over_client else None):
            raise SweepError(
                f"Ray Client at {self._address} has no server for this sweep after {_CLIENT_SECONDS:.0f} s",
                hint="start its head with GRPC_ENABLE_FORK_SUPPORT=0; see ray_client_server.err in its logs",
            )

    def end(self) -> None:
        """Disconnect from a running cluster; end one that was started here.

        Where Ray is still starting, its end is not waited for.
        """
        self._over.set()
        if self._answered.is_set():
            self._thread.join()

    def _live(self) -> None:
        try:
            with environment(RAY_ENVIRONMENT):
                # Some of it is read when Ray is imported.
                import ray  # noqa: PLC0415

                threading.Thread(target=_import_tune, name="import of Tune", daemon=True).start()
                ours = not ray.is_initialized()
                if ours:
                    cpus = self._needs.cpus + self._needs.helpers
                    _connect(self._address, local_processors(self._workers, cpus))
                try:
                    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
                    room = check_room_for(nodes_now(), self._needs)
                    self._size = (min(self._workers, room) if self._workers else room), room
                    self._answered.set()
                    over_client = is_client(self._address or "")
                    self._watch(self._address or "" if over_client else ray.get_runtime_context().gcs_address)
                finally:
                    if ours:
                        _disconnect()
        except Exception as fault:
            self._fault = fault
        finally:
            self._answered.set()

    def _watch(self, head: str) -> None:
        """Look at the head until the session is over: one that is gone ends this process after a minute."""
        answers = True
        while not self._over.wait(_WATCH_SECONDS):
            before, answers = answers, _is_listening(head)
            if answers != before:
                self._silent("" if answers else head)


@contextlib.contextmanager
def ray_session(
    address: str | None, *, workers: int, cpus: float, gpus: float = 0.0
) -> Iterator[tuple[int, int]]:
    """Connect to Ray as `RaySession` does; give what its `wait` returns, and end what was started here."""
    session = RaySession(address, workers=workers, needs=CellResources(cpus, gpus))
    try:
        yield session.wait()
    finally:
        session.end()


def local_processors(workers: int, cpus: float) -> int:
    """Return a local cluster's processors: as many as the workers wanted need, else all there are."""
    return max(1, math.ceil(workers * cpus)) if workers else processors_here()


@contextlib.contextmanager
def warn_after_wait(
    text: str | None, tell: Callable[[str], None], *, seconds: float = _WAIT_SECONDS
) -> Iterator[Callable[[], None]]:
    """Pass a text to `tell` after some seconds, unless the function that is yielded is called before."""
    timer = threading.Timer(seconds, tell, [text])
    timer.daemon = True
    if text is not None:
        timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()


def _import_tune() -> None:
    """Import what takes half a second while Ray waits for its processes."""
    importlib.import_module("ray.tune")


def _connect(address: str | None, processors: int) -> None:
    import ray  # noqa: PLC0415

    from gridtune.sweep.lean_ray import lean_start  # noqa: PLC0415

    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if address is None:
            with lean_start():
                ray.init(address="local", num_cpus=processors, include_dashboard=False, **quiet)
        else:
            _check_listening(address)
            ray.init(address=address, **quiet)
    except Exception as fault:  # a node that does not come up is a bare Exception of Ray's
        where = f"at {address}" if address else "here"
        first = str(fault).strip().splitlines()[0] if str(fault).strip() else type(fault).__name__
        raise SweepError(
            f"Ray cannot be {'reached' if address else 'started'} {where}: {first}",
            hint="is the cluster running (`ray status`), and is the address right?"
            if address
            else "`--executor inline` does without Ray; the same command goes on where this one stopped",
        ) from fault


def _disconnect() -> None:
    """Disconnect from a running cluster; end the local one, which nobody else uses.

    For a moment of its shutdown Ray ends the whole process, with status 1 and past every handler, if any
    thread lets go of an object reference. What Tune leaves behind holds such references in cycles, and Python
    collects cycles in whichever thread is running, such as the one that sends to the tracking store. So they
    are collected here, before, and not again until Ray has ended.
    """
    import ray  # noqa: PLC0415

    collecting = gc.isenabled()
    gc.disable()
    try:
        gc.collect()
        ray.shutdown()
    finally:
        if collecting:
            gc.enable()


def _check_listening(address: str) -> None:
    """Raise OSError if nobody listens at a `host:port`; Ray itself would try for minutes on end."""
    host, colon, port = address.removeprefix(_CLIENT).rpartition(":")
    if not colon or not port.isdigit() or "/" in host:
        return  # such as "auto": Ray's own to resolve
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS):
        pass


def _is_listening(address: str) -> bool:
    try:
        _check_listening(address)
    except OSError:
        return False
    return True
