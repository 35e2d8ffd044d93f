"""Rankings as text: on the terminal, as Markdown, CSV and HTML."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gridtune.report.labels import (
    PARAMETER_PREFIX,
    count_text,
    interval_text,
    number_text,
    percent_text,
    value_text,
)
from gridtune.report.rankings.combined import FEWEST_LOGS
from gridtune.report.rankings.ranking import (
    LEVEL,
    Ranking,
    RankingHead,
    Row,
    Verdict,
    has_values,
    shown_rows,
    verdict_text,
)
from gridtune.statistics.dependence import effective_number
from gridtune.statistics.sample_size import fewest_replicates

MARKS = {
    Verdict.BETTER: "green",
    Verdict.TYPICALLY: "green",
    Verdict.WORSE: "red",
    Verdict.FAILED: "red",
    Verdict.UNSURE: "dim",
    Verdict.EQUAL: "dim",
    Verdict.BASELINE: "bold",
}
#: Columns of text that a report has where no terminal says otherwise.
WIDTH = 120
INCOMPLETE_NOTE = (
    "* no rank: some replicates have no result; ordered by the difference to the best on common replicates"
)
TYPICALLY_NOTE = (
    "better typically: better in most replicates; a few unusually bad ones, which this sample may not "
    "contain, could reverse the mean (assumed: a share of 3/n, twice as bad as the worst here)"
)
GAP_NOTE = "gap: distance of the mean from a bound that no policy can beat"
#: The replicates in words, for headings, and the scope of their intervals.
_REPLICATES = {
    "window": (
        "windows of this log",
        "intervals and verdicts cover windows of this one log; another log may give a different result",
    ),
    "seed": ("seeds", "intervals and verdicts cover seeds: other random numbers, everything else the same"),
    "shake": (
        "shaken copies of this log",
        "intervals and verdicts cover copies of one log, which share its jobs; other jobs may give a "
        "different result",
    ),
    "replicate": ("replicates", ""),
}


@dataclass(frozen=True)
class _Column:
    title: str
    left: bool
    cells: list[str]


def _columns(ranking: Ranking, rows: Sequence[Row]) -> list[_Column]:
    """Lay out the rows of one stratum, without empty columns."""
    head = ranking.head
    columns = [_Column("#", False, ["–" if row["rank"] is None else str(row["rank"]) for row in rows])]
    for name in ranking.varying:
        columns.append(_Column(name, True, [value_text(row[PARAMETER_PREFIX + name]) for row in rows]))
    columns.append(_Column("n", False, [f"{row['n']}{'' if row['complete'] else '*'}" for row in rows]))
    if not head.overall:
        intervals = [interval_text(row["ci_low"], row["ci_high"], number_text) or "–" for row in rows]
        columns.append(_Column("mean", False, [number_text(row["mean"]) for row in rows]))
        columns.append(_Column("95 %", False, intervals))
        columns.append(_Column("IQM", False, [number_text(row["iqm"]) for row in rows]))
    if any(row["gap"] is not None for row in rows):
        columns.append(_Column("gap", False, [percent_text(row["gap"]) for row in rows]))
    if any(row["pairs"] for row in rows):
        columns.append(_Column("to baseline", False, [percent_text(row["relative"]) for row in rows]))
        kinds = [("95 % paired", "relative"), ("95 % by log", "by_log")]
        for title, name in kinds if head.overall else kinds[:1]:
            ends = [(row[f"{name}_low"], row[f"{name}_high"]) for row in rows]
            cells = [interval_text(*pair, percent_text) or "–" for pair in ends]
            if name == "relative" or any(low is not None for low, _ in ends):
                columns.append(_Column(title, False, cells))
        columns.append(_Column("verdict", True, [verdict_text(row) for row in rows]))
    if head.subject_to:
        columns.append(_Column("bounds", True, [row["subject_to"] for row in rows]))
    if any(row["failures"] for row in rows):
        columns.append(_Column("failed", False, [str(row["failures"] or "") for row in rows]))
    return columns


def ranking_heading(name: str, rows: Sequence[Mapping[str, Any]], head: RankingHead) -> str:
    """Return the heading of a stratum: the measure, and the number of replicates or logs."""
    planned = max((row["planned"] for row in rows), default=0)
    if head.overall:
        over = f" over {count_text(_logs(rows), 'log')}" if _logs(rows) else ""
        return f"overall: mean relative difference of {head.objective}{over}, {head.better} is better"
    unit = _REPLICATES[head.replicate][0]
    over = count_text(planned, head.replicate) if planned == 1 else f"{planned} {unit}"
    return f"{name + ': ' if name else ''}{head.axis}, {head.better} is better, {over}"


def _logs(rows: Iterable[Mapping[str, Any]]) -> int:
    """Return how many logs an overall ranking is over; 0 if it does not say."""
    return max((row["logs"] for row in rows), default=0)


def _laid_out(
    ranking: Ranking, limit: int | None
) -> Iterator[tuple[str, list[Row], list[_Column], list[str]]]:
    """Yield the heading of each stratum, the rows to show, their columns and the notes below them."""
    for name, every in ranking.strata.items():
        rows = shown_rows(every, limit)
        heading = ranking_heading(name, every, ranking.head)
        yield heading, rows, _columns(ranking, rows), list(ranking_notes(every, rows, ranking.head))


def print_ranking(*rankings: Ranking, console: Console | None = None, limit: int | None = 30) -> None:
    """Print rankings, a table per stratum, the baseline's row marked.

    A note stands below the first table that it holds for, and is not printed again.

    Parameters
    ----------
    rankings
        The rankings.
    console
        The console; the standard output if not given.
    limit
        Rows of a stratum at most (the baseline's always among them); None for all.
    """
    console = console or report_console()
    printed: set[str] = set()
    for heading, rows, every_column, notes in chain.from_iterable(
        _laid_out(each, limit) for each in rankings
    ):
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        columns = list(every_column)
        # The least important columns are left out until the table fits; the files have all of them.
        for title in ("IQM", "95 %", "n"):
            if sum(2 + max(map(len, [column.title, *column.cells])) for column in columns) <= console.width:
                break
            columns = [column for column in columns if column.title != title]
        for column in columns:
            # Numbers are never cut; long words of parameters wrap where the terminal is narrow.
            table.add_column(
                Text(column.title), justify="left" if column.left else "right", no_wrap=not column.left
            )
        for index, row in enumerate(rows):
            mark = MARKS.get(Verdict(row["verdict"]), "")
            cells = [
                Text(column.cells[index], style=mark if column.title == "verdict" else "")
                for column in columns
            ]
            table.add_row(*cells, style="bold" if row["is_baseline"] else "")
        console.print(Text(heading, style="bold"))
        console.print(table)
        for note in notes:
            if note not in printed:
                console.print(Text(note, style="dim"))
        printed.update(notes)
        console.print()


def report_console() -> Console:
    """Return a console for reports: as wide as the terminal, and wide enough for tables elsewhere."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH)


def ranking_notes(
    every: Sequence[Mapping[str, Any]], shown: Sequence[Mapping[str, Any]], head: RankingHead
) -> Iterable[str]:
    """Yield the notes that these rows need; `every` holds the others of the stratum too."""
    for parameter, warnings in head.warnings.items():
        values = {row.get(PARAMETER_PREFIX + parameter) for row in shown}
        yield from (f"{parameter}={value}: {warnings[value]}" for value in warnings.keys() & values)
    if len(shown) < len(every):
        yield f"{len(every) - len(shown)} more configurations are in the saved table"
    if not has_values(every):
        yield "no replicate has a value of the objective"
    elif not all(row["complete"] for row in shown):
        yield INCOMPLETE_NOTE
    if any(row["gap"] is not None for row in shown):
        yield GAP_NOTE
    if head.subject_to:
        bounds = "; ".join(head.subject_to)
        yield f"bounds: {bounds}, judged by the 95 % interval; configurations that violate one have no rank"
    if any(row["p_value"] is not None for row in every):
        yield from _test_notes(every, shown, head)
        if note := _scope(every, head):
            yield note


def _test_notes(
    every: Sequence[Mapping[str, Any]], shown: Sequence[Mapping[str, Any]], head: RankingHead
) -> Iterator[str]:
    """Yield the meaning of the verdicts, and their corrections."""
    compared = sum(row["p_value"] is not None for row in every)
    yield (
        "better, worse: the paired interval excludes 0, and so does a sign-flip test at 5 % of "
        f"{'all ' if compared > 1 else ''}{count_text(compared, 'comparison')} of this table"
        + (" together" if compared > 1 else "")
    )
    correlation = max((row["correlation"] or 0.0 for row in every), default=0.0)
    pairs = max(row["pairs"] for row in every)
    if correlation > 0:
        number = effective_number(pairs, correlation)
        count = "" if head.overall else f"; {pairs} count as {number:.1f} independent ones"
        yield (
            f"adjacent windows resemble each other (correlation {correlation:.2f}{count}); "
            "paired intervals and verdicts correct for that"
        )
    if any(row["verdict"] == Verdict.TYPICALLY for row in shown):
        yield TYPICALLY_NOTE
    enough = fewest_replicates(1 - LEVEL)
    tested = max(row["independent"] for row in every) if head.overall else pairs
    if tested < enough:
        yield f"{tested} replicates cannot show any difference: at least {enough} are needed"


def _scope(rows: Sequence[Mapping[str, Any]], head: RankingHead) -> str:
    """Return the scope of intervals and verdicts."""
    if not head.overall:
        return _REPLICATES[head.replicate][1]
    logs = _logs(rows)
    if logs >= FEWEST_LOGS:
        return (
            f"95 % by log: each of the {logs} logs is one observation; where it includes 0, another log may "
            "give a different result"
        )
    these = "this log" if logs == 1 else f"these {logs} logs"
    return (
        f"intervals and verdicts are for {these}; an interval for other logs takes at least "
        f"{FEWEST_LOGS} logs"
    )


def ranking_markdown(ranking: Ranking, *, limit: int | None = None) -> str:
    """Return a ranking as Markdown, a table per stratum, the baseline's row in bold.

    Parameters
    ----------
    ranking
        The ranking.
    limit
        Rows of a stratum at most (the baseline's always among them); None for all.
    """

    def escaped(text: str) -> str:
        # Tags, but not "<=".
        text = re.sub(r"<(?=[a-zA-Z/!?])", "&lt;", text)
        return text.replace("|", "\\|").replace("*", "\\*")

    parts = []
    for heading, rows, columns, notes in _laid_out(ranking, limit):
        lines = [f"### {heading}", ""]
        lines.append("| " + " | ".join(escaped(column.title) for column in columns) + " |")
        lines.append("|" + "|".join(" --- " if column.left else " ---: " for column in columns) + "|")
        for index, row in enumerate(rows):
            cells = [escaped(column.cells[index]) for column in columns]
            if row["is_baseline"]:
                cells = [f"**{cell}**" if cell else "" for cell in cells]
            lines.append("| " + " | ".join(cells) + " |")
        parts.append("\n".join([*lines, *(["", *map(escaped, notes)] if notes else [])]))
    return "\n\n".join(parts) + "\n"


def table_csv(table: pa.Table) -> str:
    """Return a table as CSV, numbers in full; a text that spreadsheets would compute begins with `'`."""
    buffer = io.BytesIO()
    for place, column in enumerate(table.columns):
        if pa.types.is_string(column.type):
            plain = pc.replace_substring_regex(column, r"^([=+\-@\t\r])", r"'\1")
            table = table.set_column(place, table.column_names[place], plain)
    pa_csv.write_csv(table, buffer)
    return buffer.getvalue().decode()


def html_document(
    title: str, body: Iterable[str], *, styles: Sequence[str], scripts: Sequence[str] = ()
) -> str:
    """Return an HTML page as text.

    It loads nothing: its content security policy allows the styles and the script inside it, images inside
    it, and nothing else.

    Parameters
    ----------
    title
        The page's title.
    body
        The lines of its body.
    styles, scripts
        Names of the style sheets and scripts in `assets/`, in the order in which they need each other.
    """
    assets = files("gridtune.report.page") / "assets"
    style = "".join((assets / f"{name}.css").read_text(encoding="utf-8") for name in styles)
    script, allowed, element = "", "'none'", []
    if scripts:
        parts = "\n".join((assets / f"{name}.js").read_text(encoding="utf-8") for name in scripts)
        script = f'"use strict";\n(() => {{\n{parts}\n}})();\n'
        allowed, element = f"'{_digest(script)}'", [f"<script>{script}</script>"]
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src {allowed}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    lines = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{html.escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>",
        *body,
        *element,
        "</body>\n</html>\n",
    ]
    return "\n".join(lines)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def plain_table(names: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Return a table of words; `kind` is a further class of it."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows
    )
    return (
        f'<div class="scroll"><table class="plain {kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}</tbody></table></div>"
    )
