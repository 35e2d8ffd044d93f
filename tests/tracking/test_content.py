"""What the run of a configuration says."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import pytest

from gridtune.core.cells import CellResult, finite_json
from gridtune.report.facts import ObjectiveFacts
from gridtune.report.summarising import summarise
from gridtune.sweep.journal.results import results_table
from gridtune.tracking.content import (
    configuration_content,
    curves_of,
    ranked_rows,
    runs_of_ranking,
)
from gridtune.tracking.runs import clean_name, clean_text
from gridtune.tracking.tracker import _ranking_view_tags

from .synthetic import cell_results, sweep_facts

FACTS = sweep_facts()
WAIT, UTILISATION = ObjectiveFacts("wait_mean", "min", "s"), ObjectiveFacts("utilisation", "max")


def test_a_run_is_named_by_what_varies() -> None:
    content = configuration_content(cell_results()[4:8], FACTS)
    assert content.name == "order1"
    assert configuration_content(cell_results()[4:8], FACTS, workloads=2).name == "order1 (log)"
    assert content.parameters == {"trace": "log.swf", "order": "order1", "kill": "yes"}
    assert content.tags == {"gridtune.kind": "configuration", "workload": "log", "replicates": "4/4"}


def test_every_metric_has_its_mean_and_the_objectives_come_first() -> None:
    results = cell_results()[:4]
    content = configuration_content(list(reversed(results)), sweep_facts(objectives=(UTILISATION, WAIT)))
    assert list(content.values) == ["utilisation", "wait_mean", "makespan", "stretch_p99"]
    stretches = [result.metrics["stretch_p99"] for result in results]
    assert content.values["stretch_p99"] == pytest.approx(sum(stretches) / 4, rel=1e-14)


def test_each_replicate_is_a_step_of_the_history_of_an_objective() -> None:
    results = cell_results()[:4]
    content = configuration_content(list(reversed(results)), FACTS)
    assert content.history == [
        ("wait_mean.replicates", result.metrics["wait_mean"], result.seed) for result in results
    ]


def test_the_plain_name_is_the_mean_that_the_ranking_shows() -> None:
    results = cell_results(failed=[(1, 2)])
    summary = summarise(results_table(results), sweep_facts())
    for number in (0, 1):
        own = results[4 * number : 4 * number + 4]
        rows = ranked_rows(summary, [own[0].configuration_id])[own[0].configuration_id]
        content = configuration_content(own, FACTS, ranked=rows)
        assert content.values["wait_mean"] == rows["wait_mean"]["mean"]
        # Statistics have the four digits that the ranking shows.
        assert content.values["wait_mean.iqm"] == float(f"{rows['wait_mean']['iqm']:.4g}")
        # Before there is a ranking, it is that of the replicates so far.
        before = configuration_content(own, FACTS).values["wait_mean"]
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
    content = configuration_content(results, FACTS)
    assert content.status == status
    assert ("error" in content.tags) == (status == "FAILED")
    assert content.tags.get("failed") == ("1" if status == "FAILED" else None)


def test_the_verdict_is_that_on_the_first_objective() -> None:
    objectives = (WAIT, UTILISATION)
    facts = sweep_facts(objectives=objectives, baseline={"order": "order0"})
    results = cell_results(replicates=8)
    rows = ranked_rows(summarise(results_table(results), facts), ["log-c0001"])["log-c0001"]
    assert rows["wait_mean"]["verdict"] != rows["utilisation"]["verdict"]
    content = configuration_content(results[8:16], facts, ranked=rows)
    assert content.tags["verdict"] == rows["wait_mean"]["verdict"]
    assert content.values["to_baseline_percent"] == pytest.approx(10)
    far = {"wait_mean": {**rows["wait_mean"], "relative": 4633.0}}
    drawn = "to_baseline_percent_up_to_200"
    assert content.values[drawn] == pytest.approx(10)
    assert configuration_content(results[8:16], facts, ranked=far).values[drawn] == 200
    assert content.values["utilisation.to_baseline_percent"] == 0
    assert "bounds" not in content.tags


def test_a_bound_that_is_broken_stands_beside_the_verdict() -> None:
    space = {"name": "orders", "subject_to": {"wait_mean": "<= 1.05 x baseline"}}
    facts = sweep_facts(baseline={"order": "order0"}, space=space)
    results = cell_results(replicates=8)
    rows = ranked_rows(summarise(results_table(results), facts), ["log-c0001"])["log-c0001"]
    assert configuration_content(results[8:16], facts, ranked=rows).tags["bounds"] == "violated"
    columns = [
        json.loads(json.loads(tag)["state"])["selectedColumns"]
        for one in (facts, FACTS)
        for tag in _ranking_view_tags(one, "0", workloads=1, at=0).values()
    ]
    assert columns[0][:3] == ["tags.`verdict`", "tags.`bounds`", "metrics.`to_baseline_percent`"]
    assert "tags.`bounds`" not in columns[1]


def test_the_digest_changes_with_what_is_logged_and_with_nothing_else() -> None:
    first = configuration_content(cell_results()[:4], FACTS)
    again = configuration_content(list(reversed(cell_results()[:4])), FACTS)
    other = configuration_content(cell_results()[:3], FACTS)
    assert first.digest == again.digest != other.digest


def test_names_and_texts_are_such_that_a_store_takes_them() -> None:
    assert clean_name("a=b (c)") == "a_b _c_"
    assert len(clean_text("x" * 10_000)) == 5000


def test_a_curve_keeps_its_finite_points_also_through_the_journal() -> None:
    columns = {
        "iteration": [1, 2, 3, 4],
        "stretch": [math.nan, 2.5, math.inf, 1.5],
        "wait": [-math.inf, 7, 8, 9],
    }
    result = replace(cell_results()[0], notes={"learning_curve": columns})
    stored = CellResult.from_record(json.loads(json.dumps(finite_json(asdict(result)))))
    points = [("stretch", 2.5, 2), ("stretch", 1.5, 4), ("wait", 7.0, 2), ("wait", 8.0, 3), ("wait", 9.0, 4)]
    for source in (result, stored):
        (curve,) = curves_of([source], "order0")
        assert curve.history == points


def test_the_baseline_and_the_best_of_each_workload_have_runs_the_best_first() -> None:
    results = [*cell_results(configurations=12), *cell_results(configurations=12, workload="other")]
    summary = summarise(results_table(results), sweep_facts(baseline={"order": "order9"}))
    assert runs_of_ranking(summary, 6) == [
        *("log-c0000", "other-c0000", "log-c0001", "other-c0001"),
        *("log-c0009", "other-c0009"),
    ]
    assert len(runs_of_ranking(summary, 100)) == 24
