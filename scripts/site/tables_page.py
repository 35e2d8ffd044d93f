"""Write the lists of tables and files that are known, on the page of workloads.

    python scripts/site/tables_page.py docs/workloads.md

They are in `kinds.toml` and `beginnings.toml` of `gridtune/workload/formats`.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from gridtune.workload.formats import recognition
from gridtune.workload.formats.records import table_kinds

__all__ = ["fill_page"]

BEGIN = "<!-- written by `python scripts/site/tables_page.py docs/workloads.md`: {} -->\n"
END = "<!-- end of {} -->\n"


def _tables() -> list[str]:
    """Return a row for each table that is known by its columns."""
    order = tomllib.loads(Path(recognition.__file__).with_name("kinds.toml").read_text(encoding="utf-8"))
    kinds = [table_kinds()[name] for name in order if name != "sacct" and table_kinds()[name].source]
    rows = [f"|[{kind.title}]({kind.source})|{kind.note}|" for kind in kinds]
    return ["|table|read as|", "|---|---|", *rows]


def _files() -> list[str]:
    """Return a row for each kind of file that is refused by its name."""
    text = Path(recognition.__file__).with_name("beginnings.toml").read_text(encoding="utf-8")
    hints = {kind["name"]: kind["hint"] for kind in tomllib.loads(text)["kind"] if "hint" in kind}
    command = "`sacct --allusers --parsable2 --format=ALL`"
    rows = [
        f"|{name}|{hint.replace('{sacct}', command)}|" for name, hint in hints.items() if "{w" not in hint
    ]
    return ["|file|way on|", "|---|---|", *rows]


def fill_page(page: Path) -> str:
    """Return the page with the two lists written again."""
    text = page.read_text(encoding="utf-8")
    for name, rows in (("tables", _tables()), ("files", _files())):
        before, _, rest = text.partition(BEGIN.format(name))
        _, _, after = rest.partition(END.format(name))
        text = f"{before}{BEGIN.format(name)}\n" + "\n".join(rows) + f"\n\n{END.format(name)}{after}"
    return text


if __name__ == "__main__":
    given = Path(sys.argv[1])
    given.write_text(fill_page(given), encoding="utf-8")
