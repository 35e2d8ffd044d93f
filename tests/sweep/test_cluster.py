"""What is told of a cluster whose processors are all in use."""

from __future__ import annotations

import threading

from gridtune.sweep.cluster import telling_of_waits, waiting_text


def test_a_full_cluster_is_told_with_its_processors() -> None:
    told = "waiting for free processors at head:6379 (2 of 2 in use)"
    assert waiting_text("head:6379", {"CPU": 2.0}, {}, 1.0) == told
    assert waiting_text("head:6379", {"CPU": 2.0}, {"CPU": 1.0}, 1.0) is None
    told = "waiting for free processors at head:6379 (7.5 of 8 in use)"
    assert waiting_text("head:6379", {"CPU": 8.0}, {"CPU": 0.5}, 1.0) == told


def test_it_is_told_only_while_no_worker_has_started() -> None:
    heard = threading.Event()
    with telling_of_waits("waiting", lambda _: heard.set(), seconds=0):
        assert heard.wait(10)
    told: list[str] = []
    with telling_of_waits("waiting", told.append, seconds=60) as started:
        started()
    with telling_of_waits(None, told.append, seconds=0):
        pass
    assert told == []
