"""Why a server was not reached, and servers of this machine beside a proxy."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Iterator

import pytest
import requests

from gridtune.storage import network_reason, skip_proxy_for_this_machine

#: Nothing listens on the port "discard".
NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def server() -> Iterator[str]:
    """Serve an empty folder listing on this machine."""
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a proxy that is not there between this process and every server."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, NOBODY)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")


def fault_of(address: str) -> BaseException:
    with pytest.raises(requests.RequestException) as caught:
        requests.get(address, timeout=10)
    return caught.value


def test_the_reason_is_what_the_operating_system_said() -> None:
    assert network_reason(fault_of(NOBODY)) == "connection refused"
    wrapped = RuntimeError("API request to …")
    wrapped.__context__ = fault_of(NOBODY)
    assert network_reason(wrapped) == "connection refused"


@pytest.mark.usefixtures("proxy")
def test_a_proxy_that_is_away_is_named() -> None:
    reason = network_reason(fault_of("http://logs.example/kth.swf.gz"))
    assert reason == "the proxy (HTTPS_PROXY or HTTP_PROXY) cannot be reached: connection refused"


def test_without_a_reason_the_first_line_is_shown_and_no_password() -> None:
    assert network_reason(ValueError("no run at http://me:secret@host/x\nmore")) == (
        "no run at http://me:***@host/x"
    )
    assert network_reason(ValueError()) == "ValueError"


@pytest.mark.usefixtures("proxy")
def test_a_server_of_this_machine_is_asked_without_the_proxy(server: str) -> None:
    fault_of(server)
    skip_proxy_for_this_machine("http://elsewhere.example:5000")
    fault_of(server)
    skip_proxy_for_this_machine(server)
    assert requests.get(server, timeout=10).status_code == 501
    fault_of("http://elsewhere.example:5000")


def test_hosts_that_are_listed_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "intranet.example")
    skip_proxy_for_this_machine("http://localhost:5000")
    assert os.environ["NO_PROXY"] == "intranet.example,localhost,127.0.0.1,::1"
