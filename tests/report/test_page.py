"""The page of a sweep without a browser: one file, nothing loaded, its text escaped, its data readable."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from gridtune.cli.main import main
from gridtune.core.cells import CellResult
from gridtune.core.sources import code_checksums
from gridtune.core.system import get_system
from gridtune.report.facts import ObjectiveFacts, SweepFacts
from gridtune.report.page.content import page_content, page_json
from gridtune.report.page.page import write_page
from gridtune.report.schedules import ReportMaterial
from gridtune.report.summarising import summarise
from gridtune.study import report_study, run_sweep
from gridtune.sweep.journal.results import results_table
from tests.tracking.synthetic import cell_results, study_folder, sweep_facts

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'\u2028"


def material_of(results: Sequence[CellResult], facts: SweepFacts, folder: Path) -> ReportMaterial:
    table = results_table(results)
    return ReportMaterial(summarise(table, facts), table, results, folder)


def page_of(results: Sequence[CellResult], facts: SweepFacts, folder: Path) -> str:
    page = write_page(material_of(results, facts, folder), folder / "report.html")
    return page.read_text(encoding="utf-8")


class Parsed(HTMLParser):
    """Elements with their attributes, and the text of each kind of element."""

    #: Elements that have no end tag.
    VOID = frozenset({"meta", "link", "img", "br", "input", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    @property
    def data(self) -> dict[str, Any]:
        return dict(json.loads(self.texts["script"][0]))


def test_the_page_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    text = page_of(cell_results(), sweep_facts(), tmp_path)
    parsed = Parsed(text)
    assert [tag for tag, _ in parsed.elements if tag in {"link", "img", "iframe", "object", "base"}] == []
    for _, attributes in parsed.elements:
        assert not attributes.keys() & {"src", "href", "srcset", "action", "style"}
        assert not [name for name in attributes if name.startswith("on")]
    assert "@import" not in text
    assert "url(" not in text
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_policy_allows_its_own_style_and_script_and_nothing_else(tmp_path: Path) -> None:
    text = page_of(cell_results(), sweep_facts(), tmp_path)
    (policy,) = (
        attributes["content"]
        for tag, attributes in Parsed(text).elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"

    def digest(element: str) -> str:
        content = re.findall(f"<{element}>(.*?)</{element}>", text, re.DOTALL)[-1]
        return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()

    assert rules["style-src"] == f"'sha256-{digest('style')}'"
    assert rules["script-src"] == f"'sha256-{digest('script')}'"


def test_hostile_names_are_text(tmp_path: Path) -> None:
    results = [
        replace(
            result,
            workload=HOSTILE,
            configuration={**result.configuration, "order": result.configuration["order"] + HOSTILE},
            error=HOSTILE if result.state == "failed" else None,
            notes={HOSTILE: HOSTILE},
        )
        for result in cell_results(failed=[(1, 1)])
    ]
    facts = sweep_facts(
        name=HOSTILE,
        description=HOSTILE,
        baseline={"order": "order0" + HOSTILE},
        versions={HOSTILE: HOSTILE},
        space={"name": HOSTILE},
    )
    parsed = Parsed(page_of(results, facts, tmp_path))
    assert [tag for tag, _ in parsed.elements].count("script") == 2
    assert "img" not in [tag for tag, _ in parsed.elements]
    assert parsed.texts["h1"] == [HOSTILE]
    assert parsed.data["name"] == HOSTILE
    assert parsed.data["tables"][0]["parameters"]["order"][0] == "order0" + HOSTILE
    assert any(HOSTILE.strip() in text for text in parsed.texts["pre"])


def test_the_data_is_standard_json_whatever_the_numbers_are(tmp_path: Path) -> None:
    results = cell_results(4)
    numbers = [math.nan, math.inf, -math.inf, 1e300]
    results = [
        replace(result, metrics={**result.metrics, "wait_mean": numbers[place % 4] if place < 8 else place})
        for place, result in enumerate(results)
    ]
    content = page_content(material_of(results, sweep_facts(), tmp_path))
    read = json.loads(page_json(content), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    (table,) = read["tables"]
    values = dict(zip(table["parameters"]["order"], table["views"]["wait_mean"]["values"], strict=True))
    assert values["order2"] == [8, 9, 10, 11]
    assert values["order0"][:3] == [None, None, None]


def test_the_data_has_the_rankings_numbers(tmp_path: Path) -> None:
    material = material_of(cell_results(), sweep_facts(), tmp_path)
    (table,) = page_content(material)["tables"]
    view = table["views"]["wait_mean"]
    rows = material.summary.rankings["wait_mean"].rows
    assert table["ids"] == [row["configuration_id"] for row in rows]
    assert view["mean"] == pytest.approx([row["mean"] for row in rows], rel=1e-5)
    assert view["verdict"] == [row["verdict"] for row in rows]
    assert table["baseline"] == [0]
    # Each replicate's value stands where its name does.
    first = [result.metrics["wait_mean"] for result in material.results[:4]]
    assert table["replicates"] == [f"window {number}/4" for number in (1, 2, 3, 4)]
    assert view["values"][0] == pytest.approx(first, rel=1e-5)


def test_over_all_workloads_the_replicates_are_the_workloads(tmp_path: Path) -> None:
    results = [*cell_results(workload="log"), *cell_results(workload="other")]
    content = page_content(material_of(results, sweep_facts(), tmp_path))
    overall, *single = content["tables"]
    assert (overall["overall"], overall["replicates"]) == (True, ["log", "other"])
    place = overall["parameters"]["order"].index("order2")
    assert overall["views"]["wait_mean"]["values"][place] == pytest.approx([0.2, 0.2], rel=1e-5)
    assert [table["name"] for table in single] == ["log", "other"]


def test_of_many_answers_those_over_all_workloads_stand_first(tmp_path: Path) -> None:
    results = [result for name in ("a", "b", "c") for result in cell_results(workload=name)]
    facts = sweep_facts(objectives=(ObjectiveFacts("wait_mean", "min"), ObjectiveFacts("utilisation", "max")))
    answers = re.findall(r'<p class="answer[^>]*>(.*?)</p>', page_of(results, facts, tmp_path))
    assert len(answers) == 8
    assert ["over the 3 workloads" in answer for answer in answers] == [True] * 2 + [False] * 6


def test_of_very_many_configurations_the_best_are_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridtune.report.page.content.MOST_ROWS", 10)
    monkeypatch.setattr("gridtune.report.page.content._MOST_VALUES", 5 * 2)
    facts = sweep_facts(2, baseline={"order": "order39"})
    (table,) = page_content(material_of(cell_results(40, 2), facts, tmp_path))["tables"]
    assert table["configurations"] == 40
    assert table["parameters"]["order"] == [*(f"order{number}" for number in range(10)), "order39"]
    assert len(table["views"]["wait_mean"]["values"]) == 5


def test_one_configuration_and_no_result_make_a_page_too(tmp_path: Path) -> None:
    one = page_of(cell_results(1), sweep_facts(), tmp_path)
    assert "no other configuration has a better wait_mean" in one
    none = page_of(cell_results(1, failed=[(0, number) for number in range(4)]), sweep_facts(), tmp_path)
    assert "No cell has a result to rank." in none


def test_failed_cells_stand_with_their_errors(tmp_path: Path) -> None:
    text = page_of(cell_results(failed=[(1, 2), (2, 0)]), sweep_facts(), tmp_path)
    assert "<p>2 cells\n" in text
    assert "window 3/4: failed" in text
    assert text.count("SimulationError: it broke") >= 4
    assert 'id="failed"' not in page_of(cell_results(), sweep_facts(), tmp_path)


def test_what_is_needed_to_run_it_again_is_there(tmp_path: Path) -> None:
    facts = sweep_facts(
        source="spaces/my orders.yaml",
        versions={"gridtune": "9.8.7", "numpy": "2.4.6"},
        code={"gridtune": "c0de" * 16},
        space={"name": "orders", "dimensions": {"order": {"grid": ["order0", "order1"]}}},
    )
    results = cell_results()
    parsed = Parsed(page_of(results, facts, tmp_path / "."))
    command, space = parsed.texts["pre"]
    typed = replace(facts, command="gridtune sweep a.yaml --set load=1", folder="my sweeps")
    again = Parsed(page_of(results, typed, tmp_path)).texts["pre"][0]
    assert again == "cd 'my sweeps'\ngridtune sweep a.yaml --set load=1"
    assert command == f"gridtune sweep 'spaces/my orders.yaml' --out {tmp_path}"
    assert "grid:\n    - order0\n    - order1\n" in space
    cells = parsed.texts["td"]
    for words in ("9.8.7", "2.4.6", "c0de" * 16, "ab" * 32):
        assert words in cells


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    facts = sweep_facts(
        objectives=(ObjectiveFacts("wait_mean", "min", "s"), ObjectiveFacts("utilisation", "max"))
    )
    assert page_of(cell_results(), facts, tmp_path) == page_of(cell_results(), facts, tmp_path)


def test_the_report_names_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study_folder(tmp_path, cell_results(), sweep_facts())
    with pytest.raises(SystemExit):
        main(["report", str(tmp_path), "--json"])
    page = json.loads(capsys.readouterr().out)["page"]
    assert page == (tmp_path / "report.html").resolve().as_uri()
    with pytest.raises(SystemExit):
        main(["report", str(tmp_path), "--objective", "utilisation"])
    other = tmp_path / "report-utilisation" / "report.html"
    assert other.resolve().as_uri() in capsys.readouterr().out.replace("\n", "")
    assert "utilisation" in Parsed(other.read_text(encoding="utf-8")).data["objectives"][0]["name"]


def test_the_page_is_among_the_files_to_track(tmp_path: Path) -> None:
    study_folder(tmp_path, cell_results(), sweep_facts())
    study = report_study(tmp_path)
    assert study.page == tmp_path / "report.html"
    assert study.page in study.files


def test_a_sweep_ends_with_its_page_and_the_schedules_on_it(tmp_path: Path) -> None:
    space = {
        "name": "small",
        "fixed": {"trace": "quickstart", "first": 60},
        "dimensions": {"order": ["fcfs", "sjf"]},
        "replicates": {"shakes": 2, "amount": 60},
        "objective": ["bounded_slowdown_mean", "utilisation"],
        "baseline": {"order": "fcfs"},
    }
    study = run_sweep(space, executor="inline", directory=tmp_path, tracking=False, output="quiet")
    assert study.page == tmp_path / "report.html"
    assert "report.html" in json.loads((tmp_path / "derived.json").read_text())["files"]
    text = study.page.read_text(encoding="utf-8")
    (schedule,) = Parsed(text).data["schedules"]
    assert (schedule["replicate"], schedule["schedules"][0]["jobs"]) == ("shake 0", 60)
    assert all(len(bar) >= 6 for bar in schedule["schedules"][0]["bars"])
    # It was not run from the command line.
    assert "Save the search space as small.yaml first." in text
    assert study.facts.versions["numpy"] in Parsed(text).texts["td"]


def test_an_adaptive_sweep_shows_its_trials_in_the_journals_order(tmp_path: Path) -> None:
    results = cell_results(3)
    facts = sweep_facts(space={"strategy": {"optuna": {"trials": 3}}})
    study_folder(tmp_path, [*results[8:], *results[:8]], facts)
    study = report_study(tmp_path)
    assert study.page is not None
    trials = Parsed(study.page.read_text(encoding="utf-8")).data["tables"][0]["views"]["wait_mean"]["trials"]
    means = [sum(result.metrics["wait_mean"] for result in results[at : at + 4]) / 4 for at in (8, 0, 4)]
    assert trials["trial"] == [1, 2, 3]
    assert trials["mean"] == pytest.approx(means, rel=1e-5)
    assert trials["best"] == pytest.approx([means[0], means[1], means[1]], rel=1e-5)


def test_the_code_that_ran_is_named_by_its_content(tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text("x = 1\n")
    first: Mapping[str, str] = code_checksums(get_system("batch"), [plugin])
    plugin.write_text("x = 2\n")
    second = code_checksums(get_system("batch"), [plugin, tmp_path / "gone.py"])
    assert first["gridtune"] == second["gridtune"]
    assert first["mine.py"] != second["mine.py"]
    assert second.keys() == {"gridtune", "mine.py"}
