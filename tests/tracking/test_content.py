"""What the run of a configuration says."""

from __future__ import annotations

import json

import pytest

from gridtune.batch.metrics import METRICS
from gridtune.report.summary import summarise
from gridtune.sweep.journal.results import results_table
from gridtune.tracking.content import (
    COMPANIONS,
    clean_name,
    clean_text,
    configuration_content,
    ranked_rows,
    tracked_metrics,
)

from .synthetic import CHECKSUM, cell_results, sweep_facts

OPTIONS = {"planned": 4, "varying": ["order"], "metrics": tracked_metrics(["wait_mean"])}


def test_companions_are_metrics_that_exist() -> None:
    assert set(COMPANIONS) <= set(METRICS)


def test_a_run_is_named_by_what_varies() -> None:
    content = configuration_content(cell_results()[4:8], **OPTIONS)
    assert content.name == "order1"
    assert configuration_content(cell_results()[4:8], workloads=2, **OPTIONS).name == "order1 (log)"
    assert content.parameters == {"trace": "log.swf", "order": "order1", "kill": "yes"}
    assert content.tags == {"gridtune.kind": "configuration", "workload": "log", "replicates": "4/4"}


def test_traces_are_datasets_with_their_checksum() -> None:
    (dataset,) = configuration_content(cell_results()[:4], **OPTIONS).datasets
    assert (dataset.name, dataset.digest) == ("log.swf", CHECKSUM[:16])
    assert json.loads(dataset.profile) == {"sha256": CHECKSUM}
    assert json.loads(dataset.source) == {"uri": "log.swf"}


def test_each_replicate_is_a_step_of_the_history_and_other_metrics_are_left_out() -> None:
    results = cell_results()[:4]
    content = configuration_content(list(reversed(results)), **OPTIONS)
    history = [(value, step) for name, value, step in content.history if name == "wait_mean.replicates"]
    assert history == [(result.metrics["wait_mean"], result.seed) for result in results]
    assert set(content.values) == {"wait_mean", "utilisation", "makespan"}


def test_the_plain_name_is_the_mean_that_the_ranking_shows() -> None:
    results = cell_results(failed=[(1, 2)])
    summary = summarise(results_table(results), sweep_facts())
    for number in (0, 1):
        own = results[4 * number : 4 * number + 4]
        rows = ranked_rows(summary, [own[0].configuration_id])[own[0].configuration_id]
        content = configuration_content(own, ranked=rows, **OPTIONS)
        assert content.values["wait_mean"] == rows["wait_mean"]["mean"]
        # Before there is a ranking, it is that of the replicates so far.
        before = configuration_content(own, **OPTIONS).values["wait_mean"]
        assert before == pytest.approx(rows["wait_mean"]["mean"], rel=1e-14)
    # Without a rank, for its mean is over other replicates.
    assert "rank" not in content.values


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
