"""Whatever opens a port listens to this host alone, unless told otherwise."""

from __future__ import annotations

import ipaddress
import os
import sys

import pytest

from gridtune.cli.status import _command, ui
from gridtune.sweep.execution.cluster import ray_session

from .listening import descendants, listening_addresses

linux = pytest.mark.skipif(sys.platform != "linux", reason="sockets are read from /proc")


def test_the_ui_listens_to_this_host(store_uri: str) -> None:
    defaults = {option.name: option.default for option in ui.params}
    assert defaults["host"] == "127.0.0.1"
    command = _command(store_uri, defaults["host"], 5000)
    assert command[command.index("--host") + 1] == "127.0.0.1"


@linux
@pytest.mark.integration
def test_a_local_ray_listens_to_this_host() -> None:
    with ray_session(None, workers=1, cpus=1):
        listening = listening_addresses(descendants(os.getpid()))
    assert listening
    for address in map(ipaddress.ip_address, listening):
        assert (getattr(address, "ipv4_mapped", None) or address).is_loopback, address
