"""The best of a search is confirmed on fresh replicates; looking again at more replicates keeps the error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pyarrow.parquet as pq
import pytest

import gridtune as gt
from gridtune.errors import SpaceError
from gridtune.report.facts import SweepFacts
from gridtune.report.rankings.ranking import Row
from gridtune.report.summarising import summarise
from gridtune.sweep.run import space_cells
from gridtune.sweep.space.constraints import Kept
from tests.sweep.spaces import toy_space

SEARCH: dict[str, Any] = {
    "dimensions": {"x": {"uniform": [0, 3]}, "word": {"choice": ["a", "b"]}},
    "baseline": {"x": 0.0, "word": "a"},
    "replicates": {"seeds": 6},
    "strategy": {"optuna": {"trials": 6, "seed": 1, "sampler": "random"}},
}


def run(folder: Path, **changes: Any) -> gt.Study:
    """Return the study of a toy space, with all output off."""
    space = toy_space(**changes)
    return gt.run_sweep(space, directory=folder, tracking=False, output="quiet", executor="inline")


def best(study: gt.Study) -> Row:
    return study.summary.rankings["loss"].rows[0]


def test_the_best_of_a_search_has_the_gain_of_fresh_seeds(tmp_path: Path) -> None:
    study = run(tmp_path, **SEARCH)
    fresh = pq.read_table(tmp_path / "confirmation" / "results.parquet").to_pandas()
    assert set(fresh["replicate"]) == {f"seed {number}" for number in range(6, 16)}
    assert best(study)["confirmed"] == 10
    assert len(fresh) == 20
    assert any("replayed on 10 fresh seeds;" in remark for remark in study.summary.remarks)
    means = fresh.groupby("configuration_id")["metric.loss"].mean()
    expected = means[best(study)["configuration_id"]] / means.max() - 1
    assert best(study)["relative"] == pytest.approx(expected, rel=1e-9)
    assert "on 10 fresh seeds that the search did not see" in study.summary.answers[0].gain
    (shown,) = study.as_dict()["best"].values()
    assert shown["confirmed"] == 10
    assert shown["relative_low"] == best(study)["relative_low"]
    assert set(study.to_pandas()["replicate"]) == {f"seed {number}" for number in range(6)}
    # A report of the stored sweep shows the same; one by another objective has nothing that was confirmed.
    assert best(gt.report_study(tmp_path)) == best(study)
    other = gt.report_study(tmp_path, objective="gain").summary.rankings["gain"]
    assert "confirmed" not in other.schema.names


def test_the_best_of_a_search_has_the_gain_of_the_windows_held_back(tmp_path: Path) -> None:
    study = run(tmp_path, **{**SEARCH, "replicates": {"windows": 13}}, fixed={"trace": "quickstart"})
    assert set(study.to_pandas()["replicate"]) == {f"window {number}/13" for number in range(1, 8)}
    fresh = pq.read_table(tmp_path / "confirmation" / "results.parquet").to_pandas()
    assert set(fresh["replicate"]) == {f"window {number}/13" for number in range(8, 14)}
    means = fresh.groupby("configuration_id")["metric.loss"].mean()
    expected = means[best(study)["configuration_id"]] / means.max() - 1
    assert (best(study)["confirmed"], best(study)["pairs"]) == (6, 7)
    assert best(study)["relative"] == pytest.approx(expected, rel=1e-9)
    assert "on 6 later windows that the search did not see" in study.summary.answers[0].gain
    assert best(gt.report_study(tmp_path)) == best(study)
    # The same sweep runs no cell again.
    again = run(tmp_path, **{**SEARCH, "replicates": {"windows": 13}}, fixed={"trace": "quickstart"})
    assert again.sweep
    assert again.sweep.ran == 0


def test_windows_are_held_back_where_the_space_says_so(tmp_path: Path) -> None:
    space = {**GRID, "fixed": {"trace": "quickstart"}}
    study = run(tmp_path / "grid", **space, replicates={"windows": 14, "held_back": 8})
    assert (len(study.results), best(study)["confirmed"]) == (12, 8)
    assert len(run(tmp_path / "whole", **space, replicates={"windows": 14}).results) == 28
    search = run(
        tmp_path / "none",
        **{**SEARCH, "replicates": {"windows": 12, "held_back": 0}},
        fixed={"trace": "quickstart"},
    )
    assert search.facts.replicates == 12
    assert any("no window is held back" in remark for remark in search.summary.remarks)


def test_a_bound_that_later_windows_break_undoes_the_recommendation(tmp_path: Path) -> None:
    space = {**GRID, "fixed": {"trace": "quickstart"}, "replicates": {"windows": 12, "held_back": 6}}
    study = run(tmp_path, **space)
    summary, row = study.summary, {**best(study), "subject_to": Kept.NO}
    confirmed = replace(
        study.facts,
        space={**study.facts.space, "subject_to": {"loss": "<= 1.2 x baseline"}},
        confirmed=[
            {**one, "columns": {**one["columns"], "subject_to": Kept.NO}} for one in study.facts.confirmed
        ],
    )
    assert study.sweep
    answer = summarise(study.sweep.table, confirmed, study.results).answers[0]
    assert row["rank"] == summary.rankings["loss"].rows[0]["rank"] == 1
    assert "breaks a bound" in answer.advice
    assert not answer.is_confirmed
    assert answer.bounds[0] == "a bound is broken on the windows that the search did not see"


def test_too_few_windows_have_no_fresh_ones_and_the_summary_says_so(tmp_path: Path) -> None:
    study = run(tmp_path, **{**SEARCH, "replicates": {"windows": 6}}, fixed={"trace": "quickstart"})
    assert any("no window is held back" in remark for remark in study.summary.remarks)
    assert not (tmp_path / "confirmation").exists()


GRID: dict[str, Any] = {"dimensions": {"x": [0, 1]}, "baseline": {"x": 0}}


def test_a_sweep_until_settled_doubles_its_replicates_and_resumes(tmp_path: Path) -> None:
    plan = {**GRID, "replicates": {"seeds": 6, "until": "settled", "most": 48}}
    study = run(tmp_path, **plan)
    # Equal differences of 6 and 12 seeds are too few for the small error of the first looks.
    assert study.facts.replicates == 24
    assert best(study)["verdict"].startswith("better")
    spent = 2 * NormalDist().cdf(-1.96 / 0.5**0.5)
    assert study.facts.error + study.facts.spent == pytest.approx(spent, rel=1e-3)
    again = run(tmp_path, **plan)
    assert (again.facts.replicates, again.sweep and again.sweep.ran) == (24, 0)
    assert best(again) == best(study)


def test_more_replicates_by_hand_have_a_smaller_error(tmp_path: Path) -> None:
    run(tmp_path, **GRID, replicates={"seeds": 5})
    assert run(tmp_path, **GRID, replicates={"seeds": 6}).facts.error == pytest.approx(0.05)
    second = run(tmp_path, **GRID, replicates={"seeds": 10})
    assert second.facts.error == pytest.approx(0.005)
    assert best(second)["p_value"] == pytest.approx(10 * 2 / 2**10)
    assert any("judged here before" in remark for remark in second.summary.remarks)
    resumed = run(tmp_path, **GRID, replicates={"seeds": 10})
    assert resumed.facts.error == second.facts.error
    assert run(tmp_path, **GRID, replicates={"seeds": 12}).facts.error == pytest.approx(0.0025)
    assert SweepFacts.read(tmp_path).spent == pytest.approx(0.055)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"replicates": {"windows": 6, "until": "settled"}, "fixed": {"trace": "quickstart"}}, "no further"),
        ({"replicates": {"seeds": 6, "held_back": 2}}, "held_back goes with"),
        ({"replicates": {"windows": 6, "held_back": 6}, "fixed": {"trace": "quickstart"}}, "held_back goes"),
        ({"replicates": {"seeds": 6, "most": 3, "until": "settled"}}, "at least the number"),
        ({**SEARCH, "replicates": {"seeds": 6, "until": "settled"}}, "begin another search"),
    ],
)
def test_what_cannot_have_more_replicates_is_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(SpaceError, match=fault):
        space_cells(toy_space(**changes))
