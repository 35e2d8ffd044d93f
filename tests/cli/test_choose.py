"""`gridtune policy choose`: what it tries, what it may not see, and what it leaves behind."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml

import gridtune as gt
from gridtune.report.labels import row_parameters
from gridtune.report.rankings.ranking import Verdict
from gridtune.study import choosing


@pytest.fixture
def log() -> gt.Workload:
    return gt.generate_workload("lublin", jobs=3200, seed=3, processors=64, load=1.1)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try two orders in place of ten."""
    monkeypatch.setattr(choosing, "_ROLLOUTS", ("rollout",))
    monkeypatch.setattr(choosing, "_RULES", ("saf",))
    monkeypatch.setattr(choosing, "_BY_AREA", "rollout")


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all sweeps in this process."""
    run_space = choosing.run_space
    monkeypatch.setattr(
        choosing, "run_space", lambda *given, **named: run_space(*given, **{**named, "executor": "inline"})
    )


def chosen(log: gt.Workload, folder: Path, **options) -> choosing.Choice:
    return choosing.choose(log, out=folder, executor="inline", **options)


@pytest.mark.usefixtures("few")
def test_the_rest_has_no_part_in_the_choice(log: gt.Workload, tmp_path: Path) -> None:
    choice = chosen(log, tmp_path / "one")
    assert (choice.tried, choice.left_out, choice.jobs) == (11, [], (1280, 1920))
    assert choice.chosen.row["param.order"] in ("rollout", "saf")
    run_time = np.array(log.run_time)
    run_time[1280:] = run_time[1280:][::-1]
    other = chosen(replace(log, columns={**log.columns, "run_time": run_time}), tmp_path / "other")
    assert other.chosen.as_dict() == choice.chosen.as_dict()
    assert other.judged.as_dict() != choice.judged.as_dict()
    # The same again runs nothing and says the same.
    journal = (tmp_path / "one/first/journal.jsonl").read_bytes()
    again = chosen(log, tmp_path / "one")
    assert again.as_dict() == choice.as_dict()
    assert (tmp_path / "one/first/journal.jsonl").read_bytes() == journal


@pytest.mark.usefixtures("few")
def test_it_takes_the_least_index_of_what_breaks_no_bound(log: gt.Workload, tmp_path: Path) -> None:
    choice = chosen(log, tmp_path)
    sweep = choosing.read_sweep(tmp_path / "first")
    _, ranking = choosing._findings(sweep)
    rows = ranking.rows
    able = [row for row in rows if row["subject_to"] != "violated"]
    best = min(able, key=lambda row: row["mean"])
    assert choice.chosen.row["param.order"] == best["param.order"]
    assert choice.chosen.row["mean"] == best["mean"]
    # By hand: the mean over the windows of one replay of the first part.
    first = log.take(slice(0, 1280))
    chosen_as = row_parameters(best)
    policy = {name: chosen_as[name] for name in choosing._POLICY if chosen_as.get(name) is not None}
    schedule = gt.simulate(first, **policy)
    cuts = [1280 * number // 6 for number in range(7)]
    values = [
        gt.evaluate(schedule, warmup=start, cooldown=1280 - end)["delay_index"]
        for start, end in pairwise(cuts)
    ]
    assert best["mean"] == pytest.approx(np.mean(values))


@pytest.mark.usefixtures("few")
def test_an_unconfirmed_choice_exports_the_baseline_alone(
    log: gt.Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = choosing._Part.judged
    monkeypatch.setattr(choosing._Part, "judged", lambda *part: replace(judged(*part), verdict=Verdict.WORSE))
    choice = chosen(log, tmp_path)
    assert choice.chosen.row["param.order"] != "fcfs"
    assert choice.parameters == {"order": "fcfs", "backfill": "easy"}
    _, ranking = choosing._findings(choosing.read_sweep(tmp_path / "first"))
    base = next(row for row in ranking.rows if row["is_baseline"])
    exported = choice.exported
    assert {name: exported["parameters"][name] for name in choice.parameters} == choice.parameters
    assert "guard" not in exported["parameters"]
    assert exported["objective"]["mean"] == base["mean"]
    assert exported["judged"]["verdict"] == "worse"


@pytest.mark.usefixtures("few")
def test_what_was_left_out_is_named_and_tried_later(log: gt.Workload, tmp_path: Path) -> None:
    hasty = chosen(log, tmp_path, policies=1)
    assert (hasty.tried, hasty.parameters) == (1, {"order": "fcfs", "backfill": "easy"})
    assert hasty.answer.advice == "Keep the baseline: no other policy was tried, as an order counts as 3."
    assert repr(hasty).endswith(
        "\n  not tried: rollout, saf, fcfs with conservative backfilling, saf with conservative backfilling"
    )
    conservative = [f"{order} with conservative backfilling" for order in ("fcfs", "saf")]
    assert hasty.left_out == ["rollout", "saf", *conservative]
    some = chosen(log, tmp_path, policies=8)
    assert (some.tried, some.left_out) == (8, conservative[1:])
    assert chosen(log, tmp_path).left_out == []


@pytest.mark.usefixtures("few")
def test_it_says_what_to_use_its_gain_and_who_loses(
    log: gt.Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = choosing._Part.judged
    faked = {
        "advice": "Use rollout instead of fcfs.",
        "gain": "delay_index 3 instead of 4",
        "size": ", 25 % less",
        "verdict": Verdict.BETTER,
        "effects": (),
        "excluded": ["jobs of 3 users"],
    }
    monkeypatch.setattr(choosing._Part, "judged", lambda *part: replace(judged(*part), **faked))
    shown = repr(chosen(log, tmp_path))
    assert shown.startswith(
        "Use rollout instead of fcfs.\n"
        "  gain          delay_index 3 instead of 4, 25 % less; on the last 1,920 jobs, which had no part in "
        "the choice\n"
        "  loses         jobs of 3 users\n"
    )
    assert "\n  trust         " in shown
    faked["row"] = {"subject_to": "violated"}
    kept = chosen(log, tmp_path)
    assert kept.answer.advice == (
        f"Keep fcfs · easy: {kept.judged.best}, the best of 11 policies on the first 1,280 jobs, "
        "breaks a bound on the last 1,920 jobs."
    )
    assert kept.exported["parameters"]["order"] == "fcfs"


@pytest.mark.usefixtures("few", "inline")
def test_the_command_exports_what_run_takes(gridtune, log, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    gt.write_workload(log, "my.swf")
    own = Path("own.py")
    own.write_text(
        'import gridtune as gt\n\n@gt.queue_order("own")\ndef own(job):\n    return job.walltime\n'
    )
    code, out, err = gridtune(
        "choose", "my.swf", "--plugin", "own.py", "--order", "own", "--export", "b.yaml"
    )
    assert (code, "trying 4 orders on the first 1,280 jobs" in err) == (0, True), err
    assert "the best of 17 policies on the first 1,280 jobs" in " ".join(out.split())
    best = yaml.safe_load(Path("b.yaml").read_text())
    assert best["parameters"]["trace"] == "my.swf"
    assert best["judged"]["effects"]
    code, out, _ = gridtune("run", "batch", "--parameters", "b.yaml", "--plugin", "own.py", "--json")
    assert (code, json.loads(out)["metrics"]["jobs"]) == (0, 3200)
    code, out, err = gridtune("policy", "choose", "my.swf", "--export", "b.yaml")
    assert (code, out) == (2, "")
    assert "b.yaml exists" in err


def test_a_short_log_is_refused(gridtune, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    gt.write_workload(gt.generate_workload("lublin", jobs=400, seed=1, processors=64), "short.swf")
    code, _, err = gridtune("policy", "choose", "short.swf")
    assert code == 2
    assert "short.swf: 160 jobs of 400 are too few to compare policies on" in err
    assert not Path("results").exists()
