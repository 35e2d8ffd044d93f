"""A cluster whose nodes have addresses of their own, and a network between them that is cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.ray_nodes import own_nodes
from tests.integration.test_nodes import CELLS, Sweep

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextlib.contextmanager
def own_network(hosts: int) -> Iterator[list[str]]:
    """Make network namespaces on a bridge, 10.91.0.1, .2, …; give their names, also of links."""
    mark = f"gt{os.getpid() % 10_000}"
    names = [f"{mark}h{number}" for number in range(1, hosts + 1)]
    made: list[tuple[str, ...]] = []
    try:
        ip("link", "add", mark, "type", "bridge")
        made.append(("link", "del", mark))
        ip("link", "set", mark, "up")
        for number, name in enumerate(names, start=1):
            ip("netns", "add", name)
            made.append(("netns", "del", name))
            ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", name, "master", mark, "up")
            ip("-n", name, "addr", "add", f"10.91.0.{number}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", name, "link", "set", device, "up")
        yield names
    finally:
        for words in reversed(made):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip(*words)


def why_not() -> str | None:
    if shutil.which("ip") is None:
        return "no `ip` here: apt-get install iproute2"
    try:
        with own_network(1):
            return None
    except subprocess.CalledProcessError as fault:
        return f"no network namespaces can be made here: {fault.stderr.decode().strip()}"


def test_a_network_that_is_cut_for_seconds_loses_nothing(tmp_path: Path) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with own_network(3) as hosts, own_nodes() as nodes:
        for number, host in enumerate(hosts, start=1):
            inside = ["ip", "netns", "exec", host]
            nodes.add(1, inside=inside, host=f"10.91.0.{number}", ready=number == 1)
        nodes.wait_for_start()
        sweep = Sweep(nodes, tmp_path, inside=["ip", "netns", "exec", hosts[0]])
        sweep.wait_for("workers on all nodes", lambda: sweep.busy() == 3)
        ip("link", "set", hosts[2], "down")
        # The head takes the node for dead; its worker goes on and nobody hears of it.
        sweep.wait_for("the node to be given up", lambda: sweep.busy() < 3)
        sweep.gate.touch()
        sweep.wait_for("results without it", lambda: sweep.done() > CELLS // 2)
        ip("link", "set", hosts[2], "up")
        assert sweep.finish()["done"] == CELLS
