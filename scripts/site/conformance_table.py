"""Write the table of public files that were read, on the page of workloads.

    python scripts/site/conformance_table.py docs/workloads.md

`studies/conformance.csv` beside the page holds the outcomes that `scripts/conformance --store` wrote;
`tests/workload/peers.yaml` names the files and their formats.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter, defaultdict
from pathlib import Path

import yaml

__all__ = ["BEGIN", "END", "FORMATS", "fill_workloads", "read_outcomes"]

ROOT = Path(__file__).resolve().parents[2]
BEGIN = "<!-- written by `python scripts/site/conformance_table.py docs/workloads.md`: do not edit -->\n"
END = "<!-- end of the written part -->\n"
#: The row of each format that is read, by its name in the list. The others are refused by name, in one row.
FORMATS = {
    "swf": "SWF",
    "batsim": "Batsim",
    "batsim-jobs": "Batsim",
    "sacct": "sacct",
    "pbs": "PBS, LSF",
    "lsf": "PBS, LSF",
    "opendc": "tables",
    "wta": "tables",
    "table": "tables",
    "wfformat": "workflows",
    "dax": "workflows",
    "pegasus": "workflows",
    "platform": "platforms",
}
_OTHERS = "others"


def read_outcomes(path: Path) -> dict[tuple[str, str], str]:
    """Return the stored outcome of each file, by repository and path."""
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["repository"], row["path"]): row["outcome"] for row in csv.DictReader(file)}


def fill_workloads(page: Path) -> str:
    """Return the page with the part between its marks written again."""
    stored = read_outcomes(page.parent / "studies" / "conformance.csv")
    counts: Counter[tuple[str, str]] = Counter()
    repositories: dict[str, list[str]] = defaultdict(list)
    for group in yaml.safe_load((ROOT / "tests" / "workload" / "peers.yaml").read_text(encoding="utf-8")):
        name = group["repository"]
        for entry in group["files"]:
            row = FORMATS.get(entry["format"], _OTHERS)
            counts[row, stored[name, entry["path"]]] += 1
            if name not in repositories[row]:
                repositories[row].append(name)
    # Cells without blanks: the size of the documentation is counted in words.
    lines = ["|format|read|refused|differs|repositories|", "|---|---:|---:|---:|---|"]
    for row in (*dict.fromkeys(FORMATS.values()), _OTHERS):
        numbers = "|".join(str(counts[row, kind]) for kind in ("read", "refused", "differs"))
        links = "<br>".join(
            f"[{name.partition('/')[2]}](https://github.com/{name})" for name in repositories[row]
        )
        lines.append(f"|{row}|{numbers}|{links}|")
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n\n{END}{after}"


if __name__ == "__main__":
    given = Path(sys.argv[1])
    given.write_text(fill_workloads(given), encoding="utf-8")
