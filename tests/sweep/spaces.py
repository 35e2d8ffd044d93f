"""Search spaces over the toy system."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gridtune.sweep.journal.results import TIMING_COLUMNS

TOY = Path(__file__).with_name("toy.py")


def toy_space(notebook: Path | None = None, **changes: Any) -> dict[str, Any]:
    """Return a search space over the toy; a key set to None is left out."""
    space: dict[str, Any] = {
        "name": "toys",
        "system": "toy",
        "plugins": [str(TOY)],
        "fixed": {} if notebook is None else {"notebook": str(notebook)},
        "dimensions": {"x": {"grid": [0, 1, 2, 3]}, "word": {"grid": ["a", "b"]}},
        "replicates": {"seeds": 2},
        "objective": "loss",
    }
    space |= changes
    return {key: value for key, value in space.items() if value is not None}


def runs_in(notebook: Path) -> Counter[str]:
    """Return how often each configuration was run."""
    return Counter({page.name: len(page.read_text().splitlines()) for page in notebook.iterdir()})


def content(table: pa.Table) -> bytes:
    """Return a table's content but for the timings, as bytes: NaN equals NaN there."""
    sink = pa.BufferOutputStream()
    pq.write_table(table.drop_columns(list(TIMING_COLUMNS)), sink)
    return sink.getvalue().to_pybytes()
