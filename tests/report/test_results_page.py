"""The page of results: what it says of a claim, and that it is what the stored verdicts make."""

from __future__ import annotations

from pathlib import Path

from gridtune.report.results_page import BEGIN, END, claims_markdown, fill_results
from tests.report.test_reproduction import found


def test_a_claim_has_its_verdict_numbers_and_remark() -> None:
    text = claims_markdown([found()])
    assert text.startswith("### A demonstration\n\n[`demo`](studies/demo.md): Somebody & others, 2020\n\n")
    made = "`gridtune reproduce demo --quick`, experiments waits, 16 cells, on quickstart"
    assert f"{made} (stands in for another). Of 3 claims 1 partly, 1 not reproduced, 1 open.\n" in text
    assert (
        "| Waits <b> are short (section 1) | **partly** | 1 of 2 criteria hold. c: 1.000, an earlier" in text
    )
    assert "| Others are long (section 2) | **not reproduced** | b: 3.000 [" in text
    assert "an earlier run, fails. they are not |\n" in text
    assert text.endswith("| Nobody knows (section 3) | **open** | not measured. |\n\n")


def test_only_the_part_between_the_marks_is_written(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text(f"before\n{BEGIN}former\n{END}after\n")
    verdicts = tmp_path / "studies" / "reproductions"
    verdicts.mkdir(parents=True)
    found().write(verdicts).rename(verdicts / "demo.json")
    text = fill_results(page)
    assert text.startswith(f"before\n{BEGIN}\n### A demonstration")
    assert text.endswith(f"{END}after\n")
    assert "former" not in text


def test_the_page_is_what_its_verdicts_make(repository: Path) -> None:
    page = repository / "docs" / "results.md"
    hint = "write it again: python -m gridtune.report.results_page docs/results.md"
    assert page.read_text(encoding="utf-8") == fill_results(page), hint
