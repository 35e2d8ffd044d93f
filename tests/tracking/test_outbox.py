"""The outbox: order kept, nothing dropped, nothing twice unless it failed."""

from __future__ import annotations

import threading
import time

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import ErrorCode

from gridtune.errors import TrackingError
from gridtune.tracking import outbox as outbox_module
from gridtune.tracking.outbox import Outbox, _is_passing


def coded(code: str) -> MlflowException:
    """Return a fault of MLflow with this code."""
    return MlflowException(code, ErrorCode.Value(code))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "_FIRST_DELAY", 0.01)
    monkeypatch.setattr(outbox_module, "_HURRIED_DELAY", 0.01)


def test_things_are_sent_in_order() -> None:
    sent: list[int] = []
    box = Outbox(lambda: sent)
    for number in range(200):
        box.put(str(number), lambda client, number=number: client.append(number))
    assert box.drain(5)
    box.close()
    assert sent == list(range(200))


def test_it_connects_before_there_is_anything_to_send() -> None:
    connected = threading.Event()
    box = Outbox(connected.set)
    assert connected.wait(5)
    box.close()


def test_what_fails_is_tried_again_and_nothing_overtakes_it() -> None:
    sent: list[str] = []
    attempts = 0

    def flaky(client: object) -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 4:
            raise ConnectionError("away")
        sent.append("flaky")

    troubles: list[BaseException] = []
    connections: list[int] = []
    box = Outbox(lambda: connections.append(1) or object(), troubles.append)
    box.put("flaky", flaky)
    box.put("next", lambda client: sent.append("next"))
    assert box.drain(5)
    box.close()
    assert sent == ["flaky", "next"]
    assert len(troubles) == 1
    assert len(connections) == 4
    assert box.fault is None


def test_draining_gives_up_on_a_store_that_stays_away_and_keeps_what_is_unsent() -> None:
    def away(client: object) -> None:
        raise ConnectionError("away")

    box = Outbox(object)
    box.put("first", away)
    box.put("second", away)
    began = time.monotonic()
    assert not box.drain(0.3)
    assert time.monotonic() - began < 5
    assert box.unsent == ["first", "second"]
    assert isinstance(box.fault, ConnectionError)
    box.close()


def test_slow_is_not_away() -> None:
    box = Outbox(object)
    for _ in range(4):
        box.put("slow", lambda client: time.sleep(0.15))
    assert box.drain(patience=0.2)
    box.close()


def test_a_fault_that_stays_ends_the_sending_at_once() -> None:
    calls = 0

    def refused(client: object) -> None:
        nonlocal calls
        calls += 1
        raise coded("PERMISSION_DENIED")

    box = Outbox(object)
    box.put("refused", refused)
    box.put("never", lambda client: pytest.fail("overtook"))
    assert not box.drain(30)
    assert calls == 1
    assert box.unsent == ["refused", "never"]


@pytest.mark.parametrize(
    ("fault", "passing"),
    [
        (ConnectionError(), True),
        (TimeoutError(), True),
        (coded("TEMPORARILY_UNAVAILABLE"), True),
        (coded("INTERNAL_ERROR"), True),
        (coded("REQUEST_LIMIT_EXCEEDED"), True),
        (coded("INVALID_PARAMETER_VALUE"), False),
        (coded("UNAUTHENTICATED"), False),
        (coded("NOT_IMPLEMENTED"), False),
        (coded("RESOURCE_DOES_NOT_EXIST"), False),
        (PermissionError(), False),
        (FileNotFoundError(), False),
        (TrackingError("deleted"), False),
        (ValueError(), False),
        (type("OperationalError", (Exception,), {})(), True),
    ],
)
def test_which_faults_pass(fault: BaseException, passing: bool) -> None:
    assert _is_passing(fault) is passing
