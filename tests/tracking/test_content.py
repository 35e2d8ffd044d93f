"""What the run of a configuration says."""

from __future__ import annotations

import json

import pytest

from gridtune.batch.metrics import METRICS
from gridtune.tracking.content import (
    COMPANIONS,
    clean_name,
    clean_text,
    configuration_content,
    tracked_metrics,
)

from .synthetic import CHECKSUM, cell_results

OPTIONS = {"planned": 4, "varying": ["order"], "metrics": tracked_metrics(["wait_mean"])}


def test_companions_are_metrics_that_exist() -> None:
    assert set(COMPANIONS) <= set(METRICS)


def test_a_run_is_named_by_what_varies() -> None:
    content = configuration_content(cell_results()[4:8], **OPTIONS)
    assert content.name == "log: order1"
    assert content.parameters == {"trace": "log.swf", "order": "order1", "kill": "yes"}
    assert content.tags["trace_sha256"] == CHECKSUM
    assert json.loads(content.tags["gridtune.cells"])["window 2/4"] == "log-c0001-r01"


def test_each_replicate_is_a_step_of_the_history_and_other_metrics_are_left_out() -> None:
    results = cell_results()[:4]
    content = configuration_content(list(reversed(results)), **OPTIONS)
    assert [(value, step) for name, value, step in content.history if name == "wait_mean"] == [
        (result.metrics["wait_mean"], result.seed) for result in results
    ]
    assert {name for name, _, _ in content.history} == {"wait_mean", "utilisation", "makespan"}


@pytest.mark.parametrize(
    ("results", "status"),
    [
        (cell_results()[:4], "FINISHED"),
        (cell_results()[:3], "KILLED"),
        (cell_results(failed=[(0, 1)])[:4], "FAILED"),
    ],
)
def test_its_status_is_that_of_its_replicates(results: list, status: str) -> None:
    content = configuration_content(results, **OPTIONS)
    assert content.status == status
    assert ("error" in content.tags) == (status == "FAILED")


def test_the_digest_changes_with_what_is_logged_and_with_nothing_else() -> None:
    first = configuration_content(cell_results()[:4], **OPTIONS)
    again = configuration_content(list(reversed(cell_results()[:4])), **OPTIONS)
    other = configuration_content(cell_results()[:3], **OPTIONS)
    assert first.digest == again.digest != other.digest


def test_names_and_texts_are_such_that_a_store_takes_them() -> None:
    assert clean_name("a=b (c)") == "a_b _c_"
    assert len(clean_text("x" * 10_000)) == 5000
