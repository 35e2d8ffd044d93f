"""CSV files that spreadsheets open."""

from __future__ import annotations

import pyarrow as pa

from gridtune.report.tables import table_csv


def test_a_text_is_never_a_formula() -> None:
    table = pa.table({"name": ["=cmd|' /C calc'!A0", "-wait", "@x", "sjf"], "value": [-1.5, 2.0, 3.0, None]})
    rows = table_csv(table).splitlines()
    assert rows[1] == "\"'=cmd|' /C calc'!A0\",-1.5"
    assert rows[2].startswith('"\'-wait"')
    assert rows[3].startswith('"\'@x"')
    assert rows[4] == '"sjf",'
