"""Rankings as text: on the terminal, as Markdown, CSV and HTML."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import math
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
    varying_parameters,
)
from gridtune.report.rankings.combined import FEWEST_LOGS
from gridtune.report.rankings.ranking import (
    LEVEL,
    RankingHead,
    Verdict,
    has_values,
    ranking_head,
    shown_rows,
    strata,
    verdict_text,
)
from gridtune.statistics.dependence import effective_number

__all__ = [
    "MARKS",
    "html_document",
    "markdown_html",
    "plain_table",
    "print_ranking",
    "ranking_heading",
    "ranking_html",
    "ranking_markdown",
    "ranking_notes",
    "report_console",
    "table_csv",
]

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
    "* not every replicate has a result: without a rank, in order of the difference to the best "
    "on the replicates that both have"
)
TYPICALLY_NOTE = (
    "better typically: in most replicates, but the mean is not settled; n of them can miss 3/n of all, and "
    "so many that are twice as bad as the worst one here would undo it"
)
GAP_NOTE = "gap: how far the mean is from a bound that no policy can beat; the best possible is in between"
#: What replicates are, for headings, and what follows from it for their intervals.
_REPLICATES = {
    "window": (
        "windows of this log",
        "intervals and verdicts are over the windows of one log, which follow each "
        "other; they do not say what holds on another log",
    ),
    "seed": (
        "seeds",
        "intervals and verdicts are over seeds: other random numbers, and everything else the same",
    ),
    "shake": (
        "shaken copies of this log",
        "intervals and verdicts are over copies of one log that share its jobs; "
        "they do not say what holds on other jobs",
    ),
    "replicate": ("replicates", ""),
}


@dataclass(frozen=True)
class _Column:
    title: str
    left: bool
    cells: list[str]


def _columns(rows: Sequence[dict[str, Any]], varying: Sequence[str], head: RankingHead) -> list[_Column]:
    """Lay out the rows of one stratum: only the columns that say something."""
    columns = [_Column("#", False, ["–" if row["rank"] is None else str(row["rank"]) for row in rows])]
    columns += [_Column(name, True, [value_text(row[f"param.{name}"]) for row in rows]) for name in varying]
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
    """Return what stands over a stratum's rows: what is measured, over how many replicates or logs."""
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
    ranking: pa.Table, limit: int | None
) -> Iterator[tuple[str, list[dict[str, Any]], list[_Column], list[str]]]:
    """Yield the heading of each stratum, the rows to show, their columns and the notes below them."""
    head = ranking_head(ranking)
    varying = varying_parameters(ranking, without=head.group_by)
    for name, every in strata(ranking):
        rows = shown_rows(every, limit)
        heading = ranking_heading(name, every, head)
        yield heading, rows, _columns(rows, varying, head), list(ranking_notes(every, rows, head))


def print_ranking(*rankings: pa.Table, console: Console | None = None, limit: int | None = 30) -> None:
    """Print rankings, a table per stratum, the baseline's row marked.

    A note stands below the first table that it holds for, and is not printed again.

    Parameters
    ----------
    rankings
        As `rank` makes them.
    console
        Where to; the standard output if not given.
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
        # What says least is left out until the table fits; the files have all of it.
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
    """Yield what a reader of these rows must know; `every` holds the others of the stratum too."""
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
        yield f"bounds: {bounds}, judged by the 95 % interval; what violates one has no rank"
    if any(row["p_value"] is not None for row in every):
        yield from _test_notes(every, shown, head)
        if note := _scope(every, head):
            yield note


def _test_notes(
    every: Sequence[Mapping[str, Any]], shown: Sequence[Mapping[str, Any]], head: RankingHead
) -> Iterator[str]:
    """Yield what verdicts mean, and what they allow for."""
    compared = sum(row["p_value"] is not None for row in every)
    yield (
        "better, worse: the paired interval excludes 0, and so does a sign-flip test at 5 % of "
        f"{'all ' if compared > 1 else ''}{compared} comparison{'s' if compared > 1 else ''} of "
        + (f"the {head.tables} tables" if head.tables > 1 else "this table")
        + (" together" if compared > 1 or head.tables > 1 else "")
    )
    correlation = max((row["correlation"] or 0.0 for row in every), default=0.0)
    pairs = max(row["pairs"] for row in every)
    if correlation > 0:
        number = effective_number(pairs, correlation)
        count = "" if head.overall else f"; {pairs} say as much as {number:.1f} independent ones"
        yield (
            f"differences in neighbouring windows correlate by {correlation:.2f}{count}: "
            "paired intervals and verdicts allow for it"
        )
    if any(row["verdict"] == Verdict.TYPICALLY for row in shown):
        yield TYPICALLY_NOTE
    # n pairs have 2^n sign patterns, two of which are the most extreme ones.
    enough = math.ceil(math.log2(2 / (1 - LEVEL)))
    tested = max(row["independent"] for row in every) if head.overall else pairs
    if tested < enough:
        yield f"with {tested} replicates that test can prove nothing: {enough} would do"


def _scope(rows: Sequence[Mapping[str, Any]], head: RankingHead) -> str:
    """Say what intervals and verdicts are over, and so what they cannot say."""
    if not head.overall:
        return _REPLICATES[head.replicate][1]
    logs = _logs(rows)
    if logs >= FEWEST_LOGS:
        return (
            f"95 % by log: each of the {logs} logs is one observation; where it includes 0, the verdict, "
            "which is for these logs, may not hold on another"
        )
    these = "this log" if logs == 1 else f"these {logs} logs"
    return (
        f"intervals and verdicts are for {these}; what holds on another takes an interval by log, "
        f"and that at least {FEWEST_LOGS} logs"
    )


def ranking_markdown(ranking: pa.Table, *, limit: int | None = None) -> str:
    """Return a ranking as Markdown, a table per stratum, the baseline's row in bold.

    Parameters
    ----------
    ranking
        As `rank` makes it.
    limit
        Rows of a stratum at most (the baseline's always among them); None for all.
    """

    def escaped(text: str) -> str:
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


def ranking_html(ranking: pa.Table, title: str) -> str:
    """Return a ranking as a page by itself, as a tracking server shows it."""
    tables = markdown_html(ranking_markdown(ranking)).replace("<p>", '<p class="note">')
    for verdict in (Verdict.BETTER, Verdict.TYPICALLY, Verdict.WORSE, Verdict.UNSURE):
        kind = verdict.replace(" ", "-")
        tables = tables.replace(f"<td class=left>{verdict}<", f'<td class="left {kind}">{verdict}<')
    body = [f"<header><h1>{html.escape(title)}</h1></header><main><section>{tables}</section></main>"]
    return html_document(title, body, styles=("page",))


def markdown_html(text: str) -> str:
    """Return Markdown as HTML; cells of tables have classes, because pages refuse inline styles."""
    from markdown_it import MarkdownIt  # noqa: PLC0415

    rendered = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table").render(text)
    rendered = re.sub(r"<(t[hd])>", r"<\1 class=left>", rendered).replace(' style="text-align:right"', "")
    return re.sub(r"(</?)h[12]>", r"\1h3>", rendered)


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
