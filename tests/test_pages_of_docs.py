"""The pages of metrics, papers and results: their content, and that the committed ones are up to date."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gridtune.core.measures import Measure
from gridtune.core.reproduction import Deviation, PaperFigure, Reproduction
from tests.report.test_reproduction import found

SITE = Path(__file__).parents[1] / "scripts" / "site"
sys.path.insert(0, str(SITE))
import example_page  # noqa: E402
import metrics_page  # noqa: E402
import results_page  # noqa: E402

WORK = "Someone, “Waiting in 1999”, Journal 3, 2022, doi 10.1/X.2022.7"


METRICS = {
    "wait_mean": Measure("s", "min", "mean over i of wᵢ", source=f"{WORK}, equation 4"),
    "wait_max": Measure("s", "min", "max over i of wᵢ", source=f"{WORK}, equation 4"),
    "share": Measure("1", "max", "|{i : wᵢ = 0}| / n", source=f"{WORK}; Other, Book 2001"),
    "turns": Measure("turns", "none", "number of turns", source="gridtune"),
}


def tables() -> str:
    queues: Any = SimpleNamespace(metrics=METRICS)
    return metrics_page.metrics_tables({"queues": queues})


def test_a_row_says_unit_direction_formula_and_source() -> None:
    text = tables()
    assert "## Metrics of `queues`\n\n| metric | unit | better | formula | source |\n" in text
    assert "| `wait_…` | s | less | wᵢ | [1] equation 4 |\n" in text
    assert "| `share` | 1 | more | \\|{i : wᵢ = 0}\\| / n | [1], [2] |\n" in text
    assert "| `turns` | turns | – | number of turns | gridtune |\n" in text
    assert "wait_max" not in text
    assert text.endswith(f"## Sources\n\n1. {WORK}\n2. Other, Book 2001\n\n")


def test_a_paper_has_its_claims_by_verdict_on_the_page_of_results() -> None:
    text = results_page.papers_table([found()])
    made = "`gridtune reproduce demo --quick`, experiments waits, 16 cells, on quickstart"
    page = "[A demonstration](studies/reproductions/demo.md)"
    tally = "1 partly, 1 not reproduced, 1 not measured"
    assert f"| {page} | {tally} | {made} (stands in for another) |\n" in text


def test_the_page_of_a_paper_has_verdicts_first_and_folds_the_rest() -> None:
    figures = [PaperFigure(name, "figure 1", "waits", f"{name}.png", "it rises") for name in ("Curve", "Bar")]
    deviation = Deviation("a | log", "section 2", "another", "it is not public", {"order": "fcfs"})
    declared = Reproduction("", [], "", {}, [], figures=figures, deviations=[deviation])
    text = results_page.reproduction_markdown(
        found(), declared, lambda figure: "x.png" if figure.title == "Curve" else None
    )
    head, _, folded = text.partition("<details")
    assert "| 1 | Waits <b> are short (section 1) | **partly** | 1 of 2 |" in head
    first = "b: 3.000 [3.000 … 3.000]†"
    assert (
        f"| 2 | Others are long (section 2) | **not reproduced** | 0 of 1 | {first} | they are not |\n"
        in head
    )
    assert "| 1 | a | at most 2 |  | 1.000 [1.000 … 1.000]† | holds |\n" in folded
    assert "| 1 | c | at most 2 |  | 1.000† | undecided |\n" in folded
    assert "| 3 | d | at most 2 |  |  | not measured |\n" in folded
    assert "| FCFS | 103.5 [102.0 … 105.0] / *100* |  |\n| best | *2* | 3.000 |\n" in folded
    assert "**Curve** (figure 1; ours: waits). Published: it rises\n![Curve](x.png)\n" in folded
    assert "Bar" not in text
    assert "| a \\| log (section 2) | another | it is not public |\n" in folded
    assert folded.count("</details>") == text.count("<details") == 4
    assert (
        results_page.reproduction_markdown(found(), declared, lambda _: "x.png", tables=False).count(
            "<details"
        )
        == 2
    )


def test_the_site_has_the_tables_that_the_files_of_papers_leave_out(repository: Path) -> None:
    files, site = (results_page.paper_pages(repository / "docs", tables=tables) for tables in (False, True))
    for page, text in files.items():
        assert "<summary>Published tables beside ours" not in text
        assert f"[{page.stem}.json]({page.stem}.json) has their numbers." in text
        assert "<summary>Published tables beside ours" in site[page]


def test_only_the_part_of_results_between_the_marks_is_written(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text(f"before\n{results_page.BEGIN}former\n{results_page.END}after\n")
    verdicts = tmp_path / "studies" / "reproductions"
    verdicts.mkdir(parents=True)
    found().write(verdicts).rename(verdicts / "demo.json")
    text = results_page.fill_results(page)
    assert text.startswith(f"before\n{results_page.BEGIN}\n| paper | claims | made by |\n")
    assert text.endswith(f"{results_page.END}after\n")
    assert "former" not in text


def test_the_draft_has_the_numbers_of_the_verdicts(repository: Path, tmp_path: Path) -> None:
    docs = repository / "docs"
    committed = (docs / results_page.DRAFT).read_text(encoding="utf-8")
    stale = tmp_path / "paper.md"
    stale.write_text(re.sub(r"Of \d+ claims", "Of 3 claims", committed), encoding="utf-8")
    hint = "write it again: python scripts/site/results_page.py docs/results.md"
    assert results_page.fill_draft(stale, docs) == committed, hint


def test_the_page_of_results_is_what_its_verdicts_make(repository: Path) -> None:
    page = repository / "docs" / "results.md"
    hint = "write it again: python scripts/site/results_page.py docs/results.md"
    assert page.read_text(encoding="utf-8") == results_page.fill_results(page), hint


def test_the_page_of_each_paper_is_what_its_verdicts_make(repository: Path) -> None:
    hint = "write it again: python scripts/site/results_page.py docs/results.md"
    for page, text in results_page.paper_pages(repository / "docs").items():
        assert page.read_text(encoding="utf-8") == text, f"{page.name}: {hint}"


def test_the_example_is_what_its_stored_ranking_makes(repository: Path) -> None:
    page = repository / "docs" / "sweeps.md"
    hint = "write it again: python scripts/site/example_page.py docs/sweeps.md results/queue_orders"
    assert page.read_text(encoding="utf-8") == example_page.fill_example(page), hint
