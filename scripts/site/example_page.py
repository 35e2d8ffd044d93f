"""Write the example on the page of sweeps, its table and its picture, from a finished sweep.

    gridtune sweep search_spaces/queue_orders.yaml
    python scripts/site/example_page.py docs/sweeps.md results/queue_orders

Copies the overall ranking to `studies/queue_orders.csv` and its figure to `images/queue_orders.png` beside
the page, and writes rows of it between the marks of the page. The first mark has the checksum of both files,
so that a test tells when one of them is of another sweep.
"""

from __future__ import annotations

import csv
import hashlib
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from gridtune.report.labels import markdown_table

__all__ = ["fill_example"]

_TABLE, _PICTURE = Path("studies/queue_orders.csv"), Path("images/queue_orders.png")
_METRIC = "bounded_slowdown_mean"
_END = "<!-- end of the written part -->\n"
_PART = re.compile(rf"<!-- written by `python scripts/site/example_page\.py`, .*?-->\n.*?{_END}", re.DOTALL)
#: Rows of the page, by order and kind of backfilling: the best, the baseline, and some of each verdict.
_ROWS = {
    ("saf", "easy"),
    ("f4", "easy"),
    ("f1", "easy"),
    ("saf", "none"),
    ("f4", "none"),
    ("saf", "conservative"),
    ("fcfs", "easy"),
    ("unicef", "none"),
    ("wfp3", "none"),
    ("fcfs", "none"),
}


def fill_example(page: Path) -> str:
    """Return the page with the table of its example written again from the stored ranking."""
    table, picture = page.parent / _TABLE, page.parent / _PICTURE
    digest = hashlib.sha256(table.read_bytes() + picture.read_bytes()).hexdigest()
    with table.open(encoding="utf-8", newline="") as file:
        stored = [row for row in csv.DictReader(file) if (row["param.order"], row["param.backfill"]) in _ROWS]
    heads = ["#", "order", "backfill", "n", "to baseline", "95 % paired", "verdict", "bounds"]
    rows = markdown_table(heads, map(_row, stored), left=0)
    mark = f"<!-- written by `python scripts/site/example_page.py`, checksum {digest[:16]}: do not edit -->\n"
    text, found = _PART.subn(lambda _: f"{mark}\n{rows}\n{_END}", page.read_text(encoding="utf-8"))
    if found != 1:
        raise ValueError(f"{page} needs one part between the marks")
    return text


def _row(row: Mapping[str, str]) -> list[str]:
    cells = [row["rank"] or "–", row["param.order"], row["param.backfill"], row["n"]]
    if row["is_baseline"] == "true":
        return [f"**{cell}**" for cell in (*cells, "+0.0 %", "–", "baseline", "satisfied")]
    low, high = _percent(row["relative_low"]), _percent(row["relative_high"])
    return [*cells, f"{_percent(row['relative'])} %", f"{low} … {high} %", row["verdict"], row["subject_to"]]


def _percent(fraction: str) -> str:
    value = 100 * float(fraction)
    return (f"{value:+.1f}" if abs(value) < 100 else f"{value:+,.0f}").replace("-", "−")


if __name__ == "__main__":
    page, sweep = map(Path, sys.argv[1:])
    shutil.copy(sweep / f"overall-{_METRIC}.csv", page.parent / _TABLE)
    shutil.copy(sweep / "plots" / f"overall-{_METRIC}.png", page.parent / _PICTURE)
    page.write_text(fill_example(page), encoding="utf-8")
