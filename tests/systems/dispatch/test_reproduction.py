"""The reproduction of dispatch reads what its runs note."""

from __future__ import annotations

from gridtune.core.reproduction import Reading
from gridtune.sweep import run_cell
from gridtune.systems.dispatch.reproduction import REPRODUCTIONS
from gridtune.testing.systems import named_numbers


def test_numbers_of_batches_are_notes_of_a_run() -> None:
    small = {"batches": 2, "batch_jobs": 20, "rule": "random", "mode": "assist", "learner": "naive_bayes"}
    notes = run_cell("dispatch", small, seed=0).outcome.notes
    parts = [
        ours
        for ours, _ in named_numbers(REPRODUCTIONS["dispatch"])
        if isinstance(ours, Reading) and ours.part is not None
    ]
    assert parts
    for ours in parts:
        assert {ours.metric, ours.reference or ours.metric} <= notes.keys()
