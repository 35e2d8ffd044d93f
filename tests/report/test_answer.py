"""Answers on tables whose effects were planted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gridtune.report.answer import Answer, Effect
from gridtune.report.facts import ObjectiveFacts, SweepFacts
from gridtune.report.rankings.bounds import _reordered
from gridtune.report.rankings.ranking import Verdict
from gridtune.report.summarising import summarise
from gridtune.report.summary import Summary
from gridtune.report.tables import ranking_markdown
from gridtune.sweep.space.constraints import Constraint, Kept
from tests.report.synthetic import ranking_of

WINDOWS = 12
#: Order to what it multiplies the baseline's metrics by.
PLANTED: Mapping[str, Mapping[str, float]] = {
    "fcfs": {},
    # It helps the mean and starves the wide.
    "starving": {"bounded_slowdown_mean": 0.5, "wait_mean[wide]": 2.0, "wait_max": 3.0},
    "fair": {"bounded_slowdown_mean": 0.8, "wait_mean[wide]": 0.9, "wait_max": 0.95},
    "alike": {"bounded_slowdown_mean": 0.8, "wait_mean[wide]": 0.9, "wait_max": 0.95},
    "bad": {"bounded_slowdown_mean": 1.5, "wait_mean[wide]": 1.2, "wait_max": 1.3},
}
BASE = {
    "bounded_slowdown_mean": 50.0,
    "wait_max": 100_000.0,
    "wait_mean": 8000.0,
    "area_weighted_response": 70_000.0,
}
BASE |= {"wait_mean[narrow]": 4000.0, "wait_mean[wide]": 30_000.0}


def cells(planted: Mapping[str, Mapping[str, float]] = PLANTED, windows: int = WINDOWS) -> pa.Table:
    rng = np.random.default_rng(3)
    hardness = rng.lognormal(0, 0.3, windows)
    rows = []
    for order, factors in planted.items():
        for window in range(windows):
            metrics = {
                f"metric.{name}": mean * hardness[window] * factors.get(name, 1.0)
                * (1.0 if order == "fcfs" else rng.lognormal(0, 0.04))
                for name, mean in BASE.items()
            }  # fmt: skip
            rows.append(
                {
                    "configuration_id": order,
                    "workload": "log",
                    "replicate": f"seed {window}",
                    "state": "done",
                    "param.order": order,
                    **metrics,
                }
            )
    return pa.Table.from_pylist(rows)


def facts(
    subject_to: Mapping[str, str] | None = None, objectives: Sequence[str] = ("bounded_slowdown_mean",)
) -> SweepFacts:
    units = {"wait_max": "s", "wait_mean": "s"}
    return SweepFacts(
        sweep_id="1",
        name="planted",
        description="",
        system="batch",
        system_version="2",
        objectives=tuple(ObjectiveFacts(name, "min", units.get(name, "")) for name in objectives),
        baseline={"order": "fcfs"},
        dimensions=("order",),
        replicates=WINDOWS,
        space={"subject_to": dict(subject_to or {})},
    )


def summary(table: pa.Table | None = None, **options: Any) -> Summary:
    return summarise(cells() if table is None else table, facts(**options))


def lines(answer: Answer, heading: str) -> list[str]:
    return [text for name, text in (*answer.lines, *answer.all_details) if name == heading]


BOUNDS = {"wait_max": "<= 1.2 x baseline", "wait_mean[wide]": "<= 1.05 x baseline"}


def test_a_policy_that_helps_the_mean_and_starves_the_wide_is_named_as_such() -> None:
    (answer,) = summary().answers
    assert answer.best == "starving"
    assert answer.verdict in {Verdict.BETTER, Verdict.TYPICALLY}
    assert {effect.metric: effect.effect for effect in answer.effects} == {
        "wait_max": "worse",
        "area_weighted_response": "not sure",
        "wait_mean[narrow]": "not sure",
        "wait_mean[wide]": "worse",
    }
    wide = next(effect for effect in answer.losers if effect.metric == "wait_mean[wide]")
    assert wide.relative == pytest.approx(1.0, abs=0.1)
    assert wide.low is not None
    assert 0.5 < wide.low < 1.0
    assert any(text.startswith("wide jobs wait ") for text in lines(answer, "loses"))


def test_who_does_not_pay_is_not_named() -> None:
    planted = {order: PLANTED[order] for order in ("fcfs", "fair")}
    (answer,) = summary(cells(planted)).answers
    assert answer.losers == []
    assert lines(answer, "loses") == ["nobody is shown to lose (4 metrics and classes of jobs compared)"]


def test_every_answer_carries_its_trust_also_where_nothing_can_be_said() -> None:
    table = scattered(cells({order: PLANTED[order] for order in ("fcfs", "alike")}))
    (unsure,) = summary(table).answers
    assert unsure.advice == "Cannot say whether alike is better than fcfs: the seeds differ too much."
    (kept,) = summary(cells({order: PLANTED[order] for order in ("fcfs", "bad")})).answers
    assert kept.advice.startswith("Keep fcfs")
    for answer in (unsure, kept):
        assert lines(answer, "trust") == ["not graded: simulated, not compared with recorded values"]


def scattered(table: pa.Table) -> pa.Table:
    """Return cells of which every second seed is far better and the others are worse."""
    name = "metric.bounded_slowdown_mean"
    wild = [
        row[name] * (1 if row["param.order"] == "fcfs" else 0.002 if number % 2 else 1.9)
        for number, row in enumerate(table.to_pylist())
    ]
    return table.set_column(table.column_names.index(name), name, pa.array(wild))


def test_constraints_rank_what_keeps_them_first_and_give_what_breaks_them_no_rank() -> None:
    result = summary(subject_to=BOUNDS)
    (ranking,) = result.rankings.values()
    rows = {row["param.order"]: (row["rank"], row["subject_to"]) for row in ranking.rows}
    assert [rows["fair"][0], rows["alike"][0]] in ([1, 2], [2, 1])
    assert rows["fcfs"] == (3, Kept.YES)
    assert rows["starving"] == (None, Kept.NO)
    assert rows["bad"] == (None, Kept.NO)
    (answer,) = result.answers
    assert answer.best in {"fair", "alike"}
    assert answer.bounds[0] == f"it keeps {' and '.join(ranking.head.subject_to)}"
    passed = answer.bounds[1]
    assert passed.startswith("starving (−")
    assert "wait_max +" in passed
    assert "wait_mean[wide] +" in passed
    assert "bounds: wait_max <= 1.2 x baseline; wait\\_mean" in ranking_markdown(ranking).replace(
        "wait_mean", "wait\\_mean"
    )
    assert ranking.head.subject_to == (
        "wait_max <= 1.2 x baseline",
        "wait_mean[wide] <= 1.05 x baseline",
    )


@pytest.mark.parametrize(
    ("bound", "state"),
    [
        ("<= 1.2 x baseline", Kept.YES),
        ("<= 1.005 x baseline", Kept.UNSETTLED),
        ("<= 0.8 x baseline", Kept.NO),
        (">= 0.8 x baseline", Kept.YES),
        (">= 1.3 x baseline", Kept.NO),
        ("<= 1000", Kept.YES),
        ("<= 100", Kept.UNSETTLED),
        ("<= 10", Kept.NO),
        (">= 10", Kept.YES),
        (">= 1000", Kept.NO),
    ],
)
def test_a_bound_is_judged_by_its_interval_and_not_by_the_mean(bound: str, state: Kept) -> None:
    rng = np.random.default_rng(1)
    base = 100 * rng.lognormal(0, 0.2, (1, 12))
    values = base * rng.lognormal(0, 0.03, (1, 12))
    assert Constraint.read("wait_max", bound).margin(values, base).states() == [state]


def test_a_bound_without_an_interval_is_not_settled_and_the_baseline_is_as_good_as_itself() -> None:
    one = np.array([[5.0]])
    assert Constraint.read("m", "<= 2 x baseline").margin(one, one + 1).states() == [Kept.UNSETTLED]
    zero = np.zeros((1, 8))
    assert Constraint.read("m", "<= 1.2 x baseline").margin(zero, zero).states() == [Kept.YES]


def test_configurations_that_cannot_be_told_from_the_best_are_its_ties() -> None:
    (answer,) = summary(subject_to=BOUNDS).answers
    other = ({"fair", "alike"} - {answer.best}).pop()
    assert lines(answer, "ties") == [f"not distinguishable from the best: {other}"]
    (alone,) = summary(cells({order: PLANTED[order] for order in ("fcfs", "fair", "bad")})).answers
    assert lines(alone, "ties") == ["none; the next 2 in the ranking are shown to be worse"]


def test_ties_are_told_over_all_workloads_too() -> None:
    planted = {order: PLANTED[order] for order in ("fcfs", "fair", "alike", "bad")}
    rows = [
        {**row, "workload": name, "configuration_id": f"{name} {row['param.order']}"}
        for name in ("kth", "ctc")
        for row in cells(planted).to_pylist()
    ]
    answers = summary(pa.Table.from_pylist(rows)).answers
    overall = next(answer for answer in answers if answer.stratum == "overall")
    other = ({"fair", "alike"} - {overall.best}).pop()
    assert lines(overall, "ties") == [f"not distinguishable from the best: {other}"]


def test_a_bound_on_windows_that_depend_on_each_other_needs_a_wider_interval() -> None:
    noise = np.random.default_rng(4).normal(0, 1, 40)
    for place in range(1, 40):
        noise[place] += 0.6 * noise[place - 1]
    values, base = np.exp(4 + 0.1 * noise)[None], np.full((1, 40), np.exp(4.0))
    for bound in ("<= 1.2 x baseline", "<= 65"):
        alone, windows = (Constraint.read("m", bound).margin(values, base, windows=w) for w in (False, True))
        assert windows.value == alone.value
        assert windows.high - windows.low > 1.4 * (alone.high - alone.low)


def test_members_of_a_front_have_names() -> None:
    planted = {"fcfs": {}, "quick": {"bounded_slowdown_mean": 0.5, "wait_max": 2.0}}
    answer = summary(cells(planted), objectives=("bounded_slowdown_mean", "wait_max")).answers[0]
    assert lines(answer, "front")[0].startswith("2 of 2 by bounded_slowdown_mean, wait_max: quick (")


def test_what_would_settle_an_unsure_verdict_is_a_number_of_replicates() -> None:
    table = cells({"fcfs": {}, "little": {"bounded_slowdown_mean": 0.985}})
    (answer,) = summary(table).answers
    if answer.verdict == Verdict.UNSURE:
        assert any("seeds like these 12" in text for text in answer.next_steps)
    few = cells({"fcfs": {}, "fair": PLANTED["fair"]}, windows=4)
    (answer,) = summary(few).answers
    assert list(answer.next_steps) == ["run at least 6 seeds"]


def test_windows_that_are_alike_settle_less_than_others() -> None:
    def needed(factors: Sequence[float]) -> int:
        rows = cells({"fcfs": {}, "near": {}}).to_pylist()
        base = [row for row in rows if row["configuration_id"] == "fcfs"]
        for index, row in enumerate(rows):
            window = index % WINDOWS
            row["replicate"] = f"window {window + 1}/{WINDOWS}"
            if row["configuration_id"] == "near":
                before = base[window]["metric.bounded_slowdown_mean"]
                row["metric.bounded_slowdown_mean"] = before * factors[window]
        (answer,) = summary(pa.Table.from_pylist(rows)).answers
        assert answer.verdict == Verdict.UNSURE
        (text,) = answer.next_steps
        return int(text.split("about ")[1].split()[0].replace(",", ""))

    alike = [1.3, 1.28, 1.2, 1.1, 1.0, 0.9, 0.72, 0.7, 0.68, 0.75, 0.85, 0.9]
    mixed = [alike[5 * window % WINDOWS] for window in range(WINDOWS)]
    assert needed(alike) > 2 * needed(mixed)


def test_results_without_metrics_by_class_still_report_and_say_what_is_missing() -> None:
    table = cells()
    old = table.select([name for name in table.column_names if "[" not in name])
    result = summary(old, subject_to={"wait_mean[wide]": "<= 1.05 x baseline"})
    assert "wait_mean[wide] is missing in 60 of 60 cells, which did not measure it" in result.remarks[0]
    (answer,) = result.answers
    assert answer.bounds[0] == "wait_mean[wide] <= 1.05 x baseline: not settled"
    assert "not settled, no values" in lines(answer, "bounds")[-1]
    partly = table.set_column(
        table.column_names.index("metric.wait_mean[wide]"),
        "metric.wait_mean[wide]",
        pa.array([None] * 6 + table["metric.wait_mean[wide]"].to_pylist()[6:], pa.float64()),
    )
    remarks = summary(partly).remarks
    assert any(remark.startswith("wait_mean[wide] is missing in 6 of 60 cells") for remark in remarks)


def test_an_objective_that_no_cell_has_is_said() -> None:
    result = summary(objectives=("bounded_slowdown_mean", "wait_p99"))
    assert list(result.rankings) == ["bounded_slowdown_mean"]
    assert any(remark.startswith("wait_p99 is missing in 60 of 60 cells") for remark in result.remarks)


def needed(answer: Answer) -> int:
    (text,) = answer.next_steps
    return int(text.split("about ")[1].split()[0].replace(",", ""))


def test_more_comparisons_need_more_replicates_to_settle() -> None:
    # The noise of the first configurations is the same, whatever follows.
    near: Mapping[str, Mapping[str, float]] = {"fcfs": {}, "near": {"bounded_slowdown_mean": 0.99}}
    worse = {f"worse{number}": {"bounded_slowdown_mean": 3.0} for number in range(8)}
    (few,), (many,) = summary(cells(near)).answers, summary(cells({**near, **worse})).answers
    assert few.best == many.best == "near"
    assert few.verdict == many.verdict == Verdict.UNSURE
    assert needed(many) > needed(few)


def test_six_replicates_can_show_a_difference() -> None:
    near: Mapping[str, Mapping[str, float]] = {"fcfs": {}, "near": {"bounded_slowdown_mean": 0.99}}
    (answer,) = summary(cells(near, windows=6)).answers
    assert not any(text.startswith("run at least") for text in answer.next_steps)


def test_the_changes_of_several_workloads_share_the_error() -> None:
    rows = [
        {**row, "workload": name, "configuration_id": f"{name} {row['param.order']}"}
        for name in ("kth", "ctc")
        for row in cells({order: PLANTED[order] for order in ("fcfs", "fair")}).to_pylist()
    ]
    overall, single, _ = summary(pa.Table.from_pylist(rows)).answers
    both = zip(overall.effects, single.effects, strict=False)
    pairs = [(one, other) for one, other in both if one.metric == other.metric]
    assert len(pairs) == 4
    for one, other in pairs:
        assert one.low is not None
        assert other.low is not None
        assert one.low < other.low


@pytest.mark.parametrize(("relative", "named"), [(0.05, True), (0.0499, False), (None, True)])
def test_a_worse_mean_is_named_from_five_per_cent_on(relative: float | None, named: bool) -> None:
    effect = Effect("wait_max", "s", "", "log", 100.0, 105.0, relative, None, None, 0.5, "not sure", True)
    assert effect.may_be_worse == named


def test_bounds_keep_shared_ranks_and_give_none_to_the_incomplete() -> None:
    waits = {"a": [1.0, 3.0], "b": [2.0, 2.0], "c": [3.0, 3.0], "d": [1.0, None]}
    rows = [
        {
            "configuration_id": order,
            "workload": "log",
            "replicate": f"seed {number}",
            "state": "failed" if wait is None else "done",
            "param.order": order,
            "metric.wait": wait,
        }
        for order, values in waits.items()
        for number, wait in enumerate(values)
    ]
    ranking = ranking_of(pa.Table.from_pylist(rows), objective="wait", direction="min", baseline=None)
    constraint = Constraint.read("wait", "<= 5")
    states = {"a": Kept.YES, "b": Kept.YES, "c": Kept.UNSETTLED, "d": Kept.YES}
    judged = _reordered(ranking, lambda row: states[row["configuration_id"]], [constraint])
    assert {row["configuration_id"]: row["rank"] for row in judged.rows} == {
        "a": 1,
        "b": 1,
        "c": 3,
        "d": None,
    }


def test_what_an_answer_has_no_room_for_is_in_its_details() -> None:
    texts = [f"setting {number}" for number in range(8)]
    answer = Answer("wait_mean", "log", "", Verdict.NONE, "Keep it.", not_modelled=texts, bounds=texts)
    shown = [text for _, text in answer.lines]
    assert "setting 7" not in shown
    assert "and 2 more (--details)" in shown
    assert "and 5 more (--details)" in shown
    assert lines(answer, "not modelled")[-2:] == texts[6:]
    assert lines(answer, "bounds")[-5:] == texts[3:]
    # A page has no options.
    page = answer.paragraphs(*answer.all_details)
    assert "--details" not in page
    assert all(page.count(f"not modelled: {text}") == 1 for text in texts)


def test_configurations_with_different_jobs_are_named() -> None:
    table = cells()
    same = table.append_column("metric.jobs", pa.array([500.0] * len(table)))
    assert not any("different jobs" in text for text in summary(same).answers[0].not_modelled)
    jobs = [467.0 if order == "fcfs" else 500.0 for order in table.column("param.order").to_pylist()]
    fewer = summary(table.append_column("metric.jobs", pa.array(jobs)))
    (text,) = fewer.answers[0].not_modelled
    assert text.startswith("different jobs: configurations have 467 to 500 jobs in seed ")
    assert any(text in remark for remark in fewer.remarks)
