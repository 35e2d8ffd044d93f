"""Numbers read from results, criteria, verdicts, and the page of a reproduction."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridtune.core.cells import CellResult
from gridtune.core.reproduction import (
    Claim,
    Criterion,
    PaperFigure,
    Reading,
    Recorded,
    Reproduction,
)
from gridtune.errors import SweepError
from gridtune.report.reproduction.page import CRITERIA, reproduction_sections, write_reproduction_page
from gridtune.report.reproduction.verdicts import (
    Estimate,
    Reproduced,
    TableNumbers,
    TraceUse,
    _target_text,
    estimate,
    judge,
)


def cell(order: str, replicate: int, wait: float, **more: Any) -> CellResult:
    parameters = {"order": order, **more.pop("parameters", {})}
    values = {"workload": "log", "state": "done", **more}
    return CellResult(
        cell_id=f"{order}{replicate}{values['workload']}",
        configuration_id=order,
        configuration=parameters,
        replicate=f"seed {replicate}",
        seed=replicate,
        traces={},
        parameters=parameters,
        metrics={"wait_mean": wait},
        **values,
    )


RESULTS = {
    "waits": [
        *(cell("fcfs", seed, 100.0 + seed) for seed in range(8)),
        *(cell("sjf", seed, 50.0 + seed / 2) for seed in range(8)),
    ]
}


def reading(order: str = "fcfs", **options: Any) -> Reading:
    return Reading("waits", "wait_mean", {"order": order}, **options)


def test_a_value_is_the_mean_with_its_interval() -> None:
    number = estimate(reading(factor=1 / 60), RESULTS)
    assert number is not None
    assert number.value == pytest.approx(103.5 / 60)
    assert 100 / 60 < number.low < number.value < number.high < 107 / 60
    assert number.replicates == 8


@pytest.mark.parametrize(
    ("relation", "expected"), [("difference", -51.75), ("ratio", 0.5), ("change", -50.0)]
)
def test_comparisons_are_paired(relation: Any, expected: float) -> None:
    number = estimate(reading("sjf", against={"order": "fcfs"}, relation=relation), RESULTS)
    assert number is not None
    assert number.value == pytest.approx(expected)
    if relation != "difference":
        # Each replicate halves exactly: pairing leaves no spread, and the ends are those of the factor.
        assert number.low == pytest.approx(expected)
        assert number.high == pytest.approx(expected)
    else:
        assert number.low < expected < number.high


def test_a_negative_factor_keeps_the_ends_in_order() -> None:
    number = estimate(reading(factor=-1), RESULTS)
    assert number is not None
    assert number.low < number.value < number.high < 0


def test_what_was_not_run_is_not_measured() -> None:
    assert estimate(reading("saf"), RESULTS) is None
    assert estimate(reading("sjf", against={"order": "saf"}, relation="ratio"), RESULTS) is None
    assert estimate(replace(reading(), experiment="other"), RESULTS) is None
    failed = {"waits": [cell("fcfs", 1, math.nan), cell("fcfs", 2, 1.0, state="failed")]}
    assert estimate(reading(), failed) is None


def test_a_parameter_that_is_not_set_is_none_and_a_workload_is_its_label() -> None:
    cells = [cell("fcfs", 1, 1.0, parameters={"load": 2}), cell("fcfs", 1, 5.0, workload="other")]
    unset = Reading("waits", "wait_mean", {"order": "fcfs", "load": None})
    number = estimate(unset, {"waits": cells})
    assert number is not None
    assert number.value == 5.0
    named = estimate(Reading("waits", "wait_mean", {"workload": "log"}), {"waits": cells})
    assert named is not None
    assert named.value == 1.0


def test_a_part_of_a_note_is_read_as_its_mean() -> None:
    notes = {"by_batch": [9.0, 2.0, 4.0], "reference_by_batch": [1.0, 1.0, 2.0]}
    results = {"waits": [cell("fcfs", 1, 1.0, notes=notes), cell("fcfs", 2, 1.0)]}
    ours = replace(reading(), metric="by_batch", part=(1, 3))
    mean = estimate(ours, results)
    assert mean is not None
    assert (mean.value, mean.replicates) == (3.0, 1)
    ratio = replace(ours, relation="ratio", reference="reference_by_batch")
    number = estimate(ratio, results)
    assert number is not None
    assert number.value == 2.0
    assert estimate(replace(ours, part=(3, None)), results) is None


def test_a_reading_of_several_configurations_is_refused() -> None:
    with pytest.raises(SweepError, match="several configurations") as caught:
        estimate(Reading("waits", "wait_mean", {}), RESULTS)
    assert "name more parameters" in str(caught.value)


@pytest.mark.parametrize(
    ("numbers", "limits", "outcome"),
    [
        ((5.0, 4.0, 6.0), {"at_most": 7}, "holds"),
        ((5.0, 4.0, 6.0), {"at_most": 5.5}, "undecided"),
        ((5.0, 4.0, 6.0), {"at_most": 4.5}, "undecided"),
        ((5.0, 4.0, 6.0), {"at_most": 3.5}, "fails"),
        ((5.0, 4.0, 6.0), {"at_least": 6.5}, "fails"),
        ((5.0, 4.0, 6.0), {"at_least": 3, "at_most": 7}, "holds"),
        ((5.0, 4.0, 6.0), {"at_least": 4.5, "at_most": 7}, "undecided"),
        ((5.0, math.nan, math.nan), {"at_most": 7}, "undecided"),
        ((5.0, math.nan, math.nan), {"at_most": 4}, "fails"),
        ((95.0, 90.0, 99.0), {"within": 0.05}, "holds"),
        ((90.0, 80.0, 96.0), {"within": 0.05}, "undecided"),
        ((90.0, 80.0, 94.0), {"within": 0.05}, "fails"),
        ((90.0, math.nan, math.nan), {"within": 0.05}, "fails"),
        # An interval that ends at a limit is not surely within.
        ((5.0, 4.0, 7.0), {"at_most": 7}, "undecided"),
        ((1.0, 1.0, 1.0), {"at_least": 1}, "undecided"),
        # The published effect is 100 to a limit of 0, and 99 to a limit of 1.
        ((50.0, 49.0, 51.0), {"at_least": 0}, "holds"),
        ((200.0, 199.0, 201.0), {"at_least": 0}, "holds"),
        ((49.0, 48.0, 51.0), {"at_least": 0}, "direction only"),
        ((202.0, 199.0, 203.0), {"at_least": 0}, "direction only"),
        ((50.0, 49.0, 52.0), {"at_least": 1}, "direction only"),
        ((-50.0, -51.0, -49.0), {"at_most": 0}, "direction only"),
        ((50.0, -1.0, 99.0), {"at_least": 0}, "undecided"),
        ((49.0, 48.0, 51.0), {"at_least": -1}, "holds"),
        ((95.0, 90.0, 99.0), {"within": 0.05, "fitted": True}, "fitted"),
        ((90.0, 80.0, 94.0), {"within": 0.05, "fitted": True}, "fails"),
    ],
)
def test_criteria(numbers: tuple[float, float, float], limits: dict[str, float], outcome: str) -> None:
    value, low, high = numbers
    ours = Recorded(value, "it", low, high)
    criterion = Criterion("wait", ours, published=100, unit="s", **limits)
    (judged,) = judge(Claim("c", "s", [criterion]), {}).criteria
    assert judged.outcome == outcome
    assert judged.published == 100.0
    assert judged.unit == "s"
    assert judged.recorded


def test_what_a_number_must_be_is_said_in_words() -> None:
    assert _target_text(Criterion("a", reading(), at_least=-0.03, at_most=2)) == "from −0.03 to 2"
    assert _target_text(Criterion("a", reading(), at_least=-1)) == "at least −1"
    assert _target_text(Criterion("a", reading(), at_most=2)) == "at most 2"
    assert _target_text(Criterion("a", reading(), published=1.0, within=0.1)) == "within 10 %"


HOLDS = Criterion("a", Recorded(1, "", 1, 1), at_most=2)
FAILS = Criterion("b", Recorded(3, "", 3, 3), at_most=2)
UNSURE = Criterion("c", Recorded(1, ""), at_most=2)
OPEN = Criterion("d", reading("saf"), at_most=2)
DIRECTION = Criterion("e", Recorded(1, "", 1, 1), published=3, at_least=0)
FITTED = Criterion("f", Recorded(1, "", 1, 1), published=1, within=0.1, fitted=True)


@pytest.mark.parametrize(
    ("criteria", "verdict"),
    [
        ([HOLDS, HOLDS], "reproduced"),
        ([FAILS, FAILS], "not reproduced"),
        ([FAILS, OPEN], "not reproduced"),
        ([OPEN], "not measured"),
        ([HOLDS, FAILS], "partly"),
        ([HOLDS, OPEN], "partly"),
        ([UNSURE], "undecided"),
        ([UNSURE, OPEN], "undecided"),
        ([HOLDS, UNSURE], "partly"),
        ([FAILS, UNSURE], "not reproduced"),
        ([HOLDS, DIRECTION], "direction only"),
        ([DIRECTION, FAILS], "partly"),
        ([FITTED, FITTED], "fitted"),
        ([FITTED, HOLDS], "reproduced"),
        ([FITTED, DIRECTION], "direction only"),
        # What was calibrated is no evidence.
        ([FITTED, FAILS], "not reproduced"),
        ([FITTED, UNSURE], "undecided"),
        ([FITTED, OPEN], "not measured"),
    ],
)
def test_verdicts(criteria: list[Criterion], verdict: str) -> None:
    assert judge(Claim("c", "s", criteria), RESULTS).verdict == verdict


def test_a_check_of_ours_is_not_counted_among_the_claims() -> None:
    claims = [judge(Claim("c", "s", [HOLDS], check=check), RESULTS) for check in (False, True)]
    reproduced = replace(found(), claims=claims)
    assert reproduced.tally() == "1 reproduced"
    text, _ = reproduction_sections(reproduced, Reproduction("", [], "", {}, []), lambda _: None)
    assert text.count("**reproduced** (a check, not a claim)") == 1


def test_the_distance_to_a_published_effect_is_shown() -> None:
    reproduced = replace(found(), claims=[judge(Claim("c", "s", [DIRECTION]), RESULTS)])
    _, folded = reproduction_sections(reproduced, Reproduction("", [], "", {}, []), lambda _: None)
    assert "| direction only, 0.33 × the published effect |" in dict(folded)[CRITERIA]


def test_a_criterion_needs_something_to_be_held_against() -> None:
    with pytest.raises(ValueError, match="either `within` or limits"):
        Criterion("a", reading())
    with pytest.raises(ValueError, match="either `within` or limits"):
        Criterion("a", reading(), published=1.0, within=0.1, at_most=2)
    with pytest.raises(ValueError, match="a published number"):
        Criterion("a", reading(), within=0.1)


def found() -> Reproduced:
    claims = [
        judge(Claim("Waits <b> are short", "section 1", [HOLDS, UNSURE]), RESULTS),
        judge(Claim("Others are long", "section 2", [FAILS], "they are not"), RESULTS),
        judge(Claim("Nobody knows", "section 3", [OPEN]), RESULTS),
    ]
    rows = [
        ("FCFS", [(100.0, Estimate(103.5, 102.0, 105.0, 8)), (None, None)]),
        ("best", [(2.0, None), (None, Estimate(3.0, replicates=1))]),
    ]
    return Reproduced(
        name="demo",
        title="A demonstration",
        publications=["Somebody & others, 2020"],
        data="one log",
        system="batch",
        system_version="1",
        full=False,
        command="gridtune reproduce demo --quick",
        commands={"waits": "gridtune sweep spaces/waits.yaml --out waits"},
        cells={"waits": 16},
        missing={"waits": 1},
        traces=[TraceUse("quickstart", "ab" * 32, "stands in for another")],
        versions={"gridtune": "0"},
        claims=claims,
        tables=[TableNumbers("Waits", "table 1", ["wait, s", "other"], rows, ["waits"])],
    )


def test_verdicts_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = found().write(tmp_path)
    again = Reproduced.read(path)
    assert again.claims[0].verdict == "partly"
    assert math.isnan(again.claims[0].criteria[1].ours.low)
    written = path.read_bytes()
    assert again.write(tmp_path).read_bytes() == written
    assert json.loads(path.read_text())["claims"][2]["criteria"][0]["ours"] is None


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    with pytest.raises(SweepError, match="cannot be read"):
        Reproduced.read(path)
    path.write_text('{"schema": "another"}')
    with pytest.raises(SweepError, match="no verdicts of this version"):
        Reproduced.read(path)
    content = json.loads(found().write(tmp_path).read_text())
    content["full"] = "perhaps"
    path.write_text(json.dumps(content))
    with pytest.raises(SweepError, match="is damaged") as caught:
        Reproduced.read(path)
    assert caught.value.field == "full"


def test_the_page_holds_everything_and_loads_nothing(tmp_path: Path) -> None:
    drawn = tmp_path / "curve.png"
    drawn.write_bytes(b"\x89PNG")
    figure = PaperFigure("A curve", "figure 1", "waits", "curve.png", "it rises")
    another = replace(figure, title="Another", file="another.png")
    declared = Reproduction("", [], "", {}, [], figures=[figure, another])
    path = tmp_path / "page.html"
    images, spaces = {"curve.png": drawn}, {"waits": "name: waits"}
    write_reproduction_page(found(), declared, images, spaces, path)
    text = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert "script-src 'none'" in text
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", text)
    assert "data:image/png;base64,iVBORw==" in text
    assert "Waits &lt;b&gt; are short" in text
    assert "Another" not in text
    for words in ("partly", "not reproduced", "undecided", "they are not", "figure 1", "A curve"):
        assert words in text
    for words in ("gridtune reproduce demo --quick", "1 without a result", "ab" * 32, "name: waits"):
        assert words in text
    before = path.read_bytes()
    write_reproduction_page(found(), declared, images, spaces, path)
    assert path.read_bytes() == before
