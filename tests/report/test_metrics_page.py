"""The page of metrics: what it says of a metric, and that it is up to date."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gridtune.core.measure import Measure
from gridtune.core.system import RenamedMetric
from gridtune.report.metrics_page import BEGIN, END, fill_page, metrics_tables

WORK = "Someone, “Waiting in 1999”, Journal 3, 2022, doi 10.1/X.2022.7"


METRICS = {
    "wait_mean": Measure("s", "min", "mean over i of wᵢ", source=f"{WORK}, equation 4"),
    "wait_max": Measure("s", "min", "max over i of wᵢ", source=f"{WORK}, equation 4"),
    "share": Measure("1", "max", "|{i : wᵢ = 0}| / n", source=f"{WORK}; Other, Book 2001"),
    "turns": Measure("turns", "none", "number of turns", source="gridtune"),
}
RENAMED = {"mean_wait": RenamedMetric("wait_mean", 60.0), "rounds": RenamedMetric("turns")}


def tables() -> str:
    queues: Any = SimpleNamespace(metrics=METRICS, renamed_metrics=RENAMED)
    return metrics_tables({"queues": queues})


def test_a_row_says_unit_direction_formula_and_source() -> None:
    text = tables()
    assert "## Metrics of `queues`\n\n| metric | unit | better | formula | source |\n" in text
    assert "| `wait_…` | s | less | wᵢ | [1] equation 4 |\n" in text
    assert "| `share` | 1 | more | \\|{i : wᵢ = 0}\\| / n | [1], [2] |\n" in text
    assert "| `turns` | turns | – | number of turns | gridtune |\n" in text
    assert "wait_max" not in text
    assert text.endswith(f"## Sources\n\n1. {WORK}\n2. Other, Book 2001\n\n")


def test_renamed_metrics_are_listed_with_their_factor() -> None:
    text = tables()
    assert "| `mean_wait` | `wait_mean` | 60 (now in s) |\n" in text
    assert "| `rounds` | `turns` | 1 |\n" in text


def test_only_the_part_between_the_marks_is_written() -> None:
    page = f"before\n{BEGIN}old\n{END}after\n"
    filled = fill_page(page, {})
    assert filled == f"before\n{BEGIN}\n## Sources\n\n\n{END}after\n"
    assert fill_page(filled, {}) == filled


def test_the_committed_page_is_up_to_date(repository: Path, tmp_path: Path) -> None:
    # In a process of its own: other tests register systems and metrics.
    committed = repository / "docs" / "metrics.md"
    fresh = tmp_path / "metrics.md"
    shutil.copy(committed, fresh)
    command = [sys.executable, "-m", "gridtune.report.metrics_page", str(fresh)]
    subprocess.run(command, check=True, cwd=repository)
    hint = "write it again: python -m gridtune.report.metrics_page docs/metrics.md"
    assert committed.read_text(encoding="utf-8") == fresh.read_text(encoding="utf-8"), hint
