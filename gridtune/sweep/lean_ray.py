"""A local Ray without what a sweep has no use for.

`ray.init` starts a process for the autoscaler, one for the dashboard (also when it is switched off) and one
that collects logs. On two processors they are two seconds of starting and one of ending. Ray has no option
for leaving them out, so its node is asked not to start them; with a Ray whose node looks different,
everything is started.
"""

from __future__ import annotations

import contextlib
import importlib
import random
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

from gridtune.errors import SweepError

__all__ = ["AGENT_PORTS", "free_ports", "lean_start"]

#: The ports of a node's agents, as Ray's parameters name them.
AGENT_PORTS = (
    "metrics_agent_port",
    "metrics_export_port",
    "dashboard_agent_listen_port",
    "runtime_env_agent_port",
)
#: Ports below those that systems give to connections.
_PORTS = range(20_000, 32_000)
_CHANCE = random.SystemRandom()

#: What the node of a Ray must have, so that it can be made lean.
_METHODS = ("start_monitor", "start_api_server", "start_log_monitor", "start_ray_processes")
#: Seconds between two looks at a node that is starting.
_LOOK_SECONDS = 0.05


def free_ports(count: int, among: Sequence[int] = _PORTS) -> list[int]:
    """Return ports of this host that nobody has; by default none that the system gives to connections."""
    ports: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as bound:
        while len(ports) < count:
            port, candidate = _CHANCE.choice(among), socket.socket()
            bound.enter_context(candidate)
            with contextlib.suppress(OSError):
                candidate.bind(("", port))
                ports[port] = candidate
    return list(ports)


@contextlib.contextmanager
def lean_start() -> Iterator[None]:
    """Let `ray.init` start a node with the processes that run tasks alone, and wait for a slow one."""
    _raylet: Any = importlib.import_module("ray._raylet")
    from ray._private import node, services  # noqa: PLC0415

    usual = node.Node
    if not (
        all(hasattr(usual, method) for method in _METHODS)
        and hasattr(services, "get_node")
        and hasattr(_raylet, "persist_port")
    ):
        yield
        return

    class LeanNode(usual):  # type: ignore[misc, valid-type]
        """A node without autoscaler, dashboard and log collector, that only this host can reach."""

        def __init__(self, ray_params: Any, *arguments: Any, **options: Any) -> None:
            # `ray.init` itself turns a loopback address into that of the host, and Ray's processes then
            # listen to everybody.
            ray_params.node_ip_address = "127.0.0.1"
            # The raylet ends if its agents have not found ports within 15 s, and a busy machine takes longer.
            for name, port in zip(AGENT_PORTS, free_ports(len(AGENT_PORTS)), strict=True):
                setattr(ray_params, name, port)
            super().__init__(ray_params, *arguments, **options)

        def start_monitor(self) -> None:
            """Start no autoscaler."""

        def start_log_monitor(self) -> None:
            """Start no collector of logs."""

        def start_api_server(self, *, include_dashboard: bool | None, raise_on_failure: bool) -> None:
            """Start no dashboard."""
            self._webui_url = ""

        def start_ray_processes(self) -> None:
            """Start the node and wait for it; Ray itself gives up after half a minute, however busy."""
            # The one port that the raylet waits to read, though it was given: the agent will write the same.
            port, name = self.dashboard_agent_listen_port, _raylet.DASHBOARD_AGENT_LISTEN_PORT_NAME
            _raylet.persist_port(self._session_dir, self._node_id, name, port)
            super().start_ray_processes()
            while not self._registered():
                if self.dead_processes():
                    raise SweepError("its node ended while it was starting")
                time.sleep(_LOOK_SECONDS)

        def _registered(self) -> bool:
            try:
                services.get_node(self.gcs_address, self._node_id)
            except Exception:  # what it raises while there is no answer depends on how far the start has come
                return False
            return True

    node.Node = LeanNode
    try:
        yield
    finally:
        node.Node = usual
