"""Learning curves, as a cell gives them and as the journal keeps them."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from gridtune.sweep import CellResult
from gridtune.tracking.content import curves_of

from .synthetic import cell_results


def test_a_curve_keeps_its_finite_points_also_through_the_journal() -> None:
    columns = {
        "update": [1, 2, 3, 4],
        "stretch": [math.nan, 2.5, math.inf, 1.5],
        "wait": [-math.inf, 7, 8, 9],
    }
    result = replace(cell_results()[0], notes={"learning_curve": columns})
    stored = CellResult.from_record(json.loads(json.dumps(result.as_record())))
    points = [("stretch", 2.5, 2), ("stretch", 1.5, 4), ("wait", 7.0, 2), ("wait", 8.0, 3), ("wait", 9.0, 4)]
    for source in (result, stored):
        (curve,) = curves_of([source], "order0")
        assert curve.points == points
