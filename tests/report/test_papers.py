"""A publication's file: repetitions, names of published numbers, tables, figures, and messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

from gridtune.core.cells import CellResult
from gridtune.core.reproduction import Panel, PaperFigure, Reading, Series, read_reproduction
from gridtune.errors import SweepError
from gridtune.report.reproduction.figures import _of_metrics, _points, _selected, draw_figures
from tests.report.test_reproduction import cell

PAPER = """
name: demo
title: A demonstration
publications: [Nobody 2020]
data: none
values:
  fcfs: {name: FCFS, where: {order: fcfs}}
experiments:
  waits: {space: search_spaces/waits.yaml}
published:
- source: Nobody 2020, table 1
  columns: {mean: [wait, s], worst: [longest wait, s]}
  rows:
    FCFS: [100, 900]
    SJF: [50, null]
claims:
- text: SJF waits less
  source: table 1
  criteria:
  - for: {log: [a, b], rule: [{name: SJF, order: sjf}]}
    text: "{log}: {rule[name]}"
    ours: {experiment: waits, metric: wait_mean, where: [{workload: "{log}"}, {order: "{rule[order]}"}]}
    published: "{rule[name]} mean"
    at_most: 60
  - for: {limit: [1, 2]}
    each:
    - text: "change to FCFS, {limit:.1f}"
      ours: {value: "{limit}", command: make}
      published: {of: SJF mean, to: FCFS mean, relation: change}
      at_most: "{limit}"
    - text: mean and median
      ours: {value: 1, command: make}
      published: {of: [SJF mean, FCFS mean, FCFS worst], statistic: median}
      at_most: 1
tables:
- title: Waits
  source: table 1
  columns:
  - {head: "mean, h", metric: wait_mean, factor: 0.5, where: {backfill: easy}}
  - {head: worst, metric: wait_max}
  rows:
  - {label: FCFS, ours: {experiment: waits, where: "{fcfs[where]}"}, published: [FCFS mean]}
  - {label: SJF, published: [SJF mean, 3]}
"""


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    path = tmp_path / "paper.yaml"
    path.write_text(PAPER)
    return path


def test_repetitions_are_written_out_and_names_are_numbers(paper: Path) -> None:
    demo = read_reproduction(paper)
    (claim,) = demo.claims
    assert [criterion.text for criterion in claim.criteria] == [
        *("a: SJF", "b: SJF"),
        *("change to FCFS, 1.0", "mean and median", "change to FCFS, 2.0", "mean and median"),
    ]
    first = claim.criteria[0]
    assert first.ours == Reading("waits", "wait_mean", {"workload": "a", "order": "sjf"})
    assert (first.published, first.unit) == (50, "s")
    assert [criterion.published for criterion in claim.criteria[2:4]] == [-50, 100]
    assert [criterion.at_most for criterion in claim.criteria[2::2]] == [1, 2]
    assert list(demo.published) == ["FCFS mean", "FCFS worst", "SJF mean"]
    assert demo.published["FCFS worst"].quantity == "longest wait: FCFS"


def test_cells_of_tables_join_their_column_and_row(paper: Path) -> None:
    (table,) = read_reproduction(paper).tables
    assert table.columns == ["mean, h", "worst"]
    (_, fcfs), (_, sjf) = table.rows
    where = {"backfill": "easy", "order": "fcfs"}
    assert fcfs == [
        (100, Reading("waits", "wait_mean", where, factor=0.5)),
        (None, Reading("waits", "wait_max", {"order": "fcfs"})),
    ]
    assert sjf == [(50, None), (3, None)]


@pytest.mark.parametrize(
    ("old", "new", "field", "message"),
    [
        ("at_most: 60", "at_mist: 60", "claims.0.criteria.0.at_mist", "Unexpected keyword"),
        ("at_most: 60", "", "claims.0.criteria.0", "either `within` or limits"),
        ("of: SJF mean", "of: SJF meen", "claims.0.criteria.2.published", "there is no 'SJF meen'"),
        ("{fcfs[where]}", "{lcfs[where]}", "tables.0.rows.0.ours.where", "there is no 'lcfs'"),
        ("FCFS: [100, 900]", "FCFS: [100]", "published.0", "shorter"),
        ("metric: wait_max", "metrik: wait_max", "tables.0.rows.0.1.1.1", "[Mm]etri[ck]|Unexpected"),
    ],
)
def test_a_fault_has_its_file_and_field(paper: Path, old: str, new: str, field: str, message: str) -> None:
    paper.write_text(PAPER.replace(old, new))
    with pytest.raises(SweepError, match=message) as caught:
        read_reproduction(paper)
    assert caught.value.path == paper
    assert caught.value.field is not None
    assert caught.value.field.startswith(field)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="cannot be read"):
        read_reproduction(tmp_path / "missing.yaml")
    path = tmp_path / "list.yaml"
    path.write_text("claims: [")
    with pytest.raises(SweepError, match="cannot be read"):
        read_reproduction(path)


NOTES = {"by_batch": [1.0, 3.0, 5.0], "reference": [1.0, 2.0, 2.0]}
JOBS = pa.table(
    {
        "wait": [5.0, 1.0, None, 3.0, 2.0, 4.0],
        "gap": [0, 0, 9, 1, 7, 30],
        "late": [True, True, True, False, True, True],
    }
)


def rows_of(*parameters: dict[str, Any]) -> list[list[CellResult]]:
    cells = [
        replace(
            cell(f"{number}", seed, 10.0 * number + seed, parameters=one, notes=NOTES),
            metrics={"wait_mean": 10.0 * number + seed, "load": number, "reference": 5.0},
        )
        for number, one in enumerate(parameters, start=1)
        for seed in range(3)
    ]
    return [cells[number : number + 3] for number in range(0, len(cells), 3)]


def points(panel: Panel, rows: list[list[CellResult]]) -> tuple[list[float], list[float]]:
    sweep: Any = SimpleNamespace(tables_of=lambda cell: {"jobs": JOBS})
    drawn = _points(panel, rows, sweep, {})
    return drawn.x.tolist(), drawn.y.tolist()


def test_a_metric_is_drawn_over_a_parameter_or_a_metric() -> None:
    rows = rows_of({"alpha": 0.5}, {"alpha": 0.0}, {})
    assert points(Panel("wait_mean", "alpha"), rows) == ([0.0, 0.5], [21.0, 11.0])
    assert points(Panel("wait_mean", "load", over="reference", y_factor=5), rows)[1] == pytest.approx(
        [11, 21, 31]
    )
    drawn = _of_metrics(Panel("wait_mean", "alpha"), rows)
    assert (drawn.low < drawn.y).all()
    assert (drawn.y < drawn.high).all()
    (row,) = _selected(Series("a", {"alpha": 0.5}), Panel("wait_mean", where={"order": "1"}), rows)
    assert row[0].parameters["alpha"] == 0.5
    assert _selected(Series("a", {"alpha": 0.5}), Panel("wait_mean", where={"order": "2"}), rows) == []


def test_a_note_is_drawn_by_its_places() -> None:
    rows = rows_of({})
    assert points(Panel("by_batch"), rows) == ([1, 2, 3], [1, 3, 5])
    assert points(Panel("by_batch", over="reference"), rows)[1] == [1, 1.5, 2.5]
    assert points(Panel("by_batch", mean_of=2), rows) == ([1, 2], [2, 4])
    assert points(Panel("missing"), rows) == ([], [])
    assert points(Panel("by_batch"), []) == ([], [])


def test_columns_are_drawn_as_points_shares_and_classes() -> None:
    rows = rows_of({})
    assert points(Panel("wait", "gap", table="jobs"), rows) == ([0, 0, 1, 7, 30], [5, 1, 3, 2, 4])
    late = Panel("wait", table="jobs", rows={"late": True})
    assert points(replace(late, kind="shares"), rows) == ([1, 2, 4, 5], [0.25, 0.5, 0.75, 1.0])
    assert points(replace(late, sum_up=True, x_factor=2), rows) == ([2, 4, 6, 8], [5, 6, 8, 12])
    assert points(replace(late, kind="shares", largest=("wait", 1)), rows) == ([5], [1.0])
    binned = Panel("wait", "gap", table="jobs", kind="bins", bins=[0, 1, 10])
    assert points(binned, rows) == ([0, 1, 2], [3.0, 2.5, 4.0])
    assert points(replace(late, joined=True), rows)[0] == list(range(1, 13))
    assert points(Panel("wait", table="none"), rows) == ([], [])


@pytest.fixture
def drawings(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """Catch figures instead of writing them, by file name."""
    caught: dict[str, Figure] = {}

    def savefig(drawing: Figure, path: Path, **options: Any) -> None:
        caught[path.name] = drawing

    monkeypatch.setattr(Figure, "savefig", savefig)
    return caught


@pytest.mark.parametrize("kind", ["lines", "points", "bars"])
def test_figures_of_the_swept_space_are_drawn(kind: Any, paper: Path, tmp_path: Path, drawings: Any) -> None:
    rows = rows_of({"alpha": 0.5}, {"alpha": 0.0})
    panel = Panel("wait_mean", "alpha", x_label="α", y_label="wait, s", kind=kind, logarithmic="y")
    series = [Series("half", {"alpha": 0.5}), Series("none", {"alpha": 0.0}), Series("no such", {"alpha": 9})]
    figure = PaperFigure("Waits", "figure 1", "waits", "waits.png", "they fall", series, [panel, panel])
    empty = replace(figure, file="empty.png", panels=[Panel("no_metric")])
    demo = replace(read_reproduction(paper), figures=[figure, empty])
    sweep: Any = SimpleNamespace(
        name="waits", results=[result for row in rows for result in row], directory=tmp_path
    )
    assert draw_figures([demo], sweep) == [tmp_path / "plots" / "waits.png"]
    (drawing,) = drawings.values()
    axes = drawing.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_yscale()) == ("α", "wait, s", "log")
    assert {text.get_text() for text in drawing.legends[0].get_texts()} == {"half", "none"}
    sweep.name = "others"
    assert draw_figures([demo], sweep) == []
    assert np.isfinite(axes.get_xlim()).all()
