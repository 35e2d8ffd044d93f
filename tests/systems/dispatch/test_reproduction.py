"""The reproduction of dispatch reads what its runs note."""

from __future__ import annotations

from gridtune.core.system import get_system
from gridtune.sweep.execution.runner import run_cell
from gridtune.testing.systems import _readings_of


def test_numbers_of_batches_are_notes_of_a_run() -> None:
    small = {"batches": 2, "batch_jobs": 20, "rule": "random", "mode": "assist", "learner": "naive_bayes"}
    notes = run_cell("dispatch", small, seed=0).outcome.notes
    reproduction = get_system("dispatch").reproductions["dispatch"]
    parts = [ours for ours in _readings_of(reproduction) if ours.part is not None]
    assert parts
    for ours in parts:
        assert {ours.metric, ours.reference or ours.metric} <= notes.keys()
    for figure in reproduction.figures:
        assert {panel.y for panel in figure.panels} <= notes.keys()
