"""The page of a reproduction: every claim, table and figure, ours beside the published, in one HTML file."""

from __future__ import annotations

import base64
import html
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from gridtune.core import style
from gridtune.core.reproduction import Deviation, PaperFigure
from gridtune.report.labels import count_text, interval_text, number_text
from gridtune.report.plots import scale_axis
from gridtune.report.reproduction.results import Reproduced, TableNumbers
from gridtune.report.reproduction.verdicts import ClaimVerdict, Estimate, JudgedClaim, JudgedCriterion
from gridtune.report.tables import html_document, markdown_html, plain_table

__all__ = [
    "REPRODUCTION_PAGE",
    "DrawnFigure",
    "figure_text",
    "published_text",
    "write_reproduction_page",
]

#: The page in a reproduction's folder.
REPRODUCTION_PAGE = "reproduction.html"
#: Characters of a label that there is room for beside a chart.
_LETTERS = 29
_HEADS = ("what", "must be", "published", "ours", "95 %", "", "where ours comes from")


@dataclass(frozen=True)
class DrawnFigure:
    """A published figure with the file of ours; None where this run has none."""

    figure: PaperFigure
    path: Path | None


def write_reproduction_page(
    reproduced: Reproduced,
    figures: Sequence[DrawnFigure],
    documents: Mapping[str, str],
    spaces: Mapping[str, str],
    path: Path,
    *,
    deviations: Sequence[Deviation] = (),
) -> Path:
    """Write the page and return its path: one file that loads nothing, the same bytes for the same results.

    Parameters
    ----------
    reproduced
        What was found.
    figures
        The published figures with ours.
    documents
        Name to text of the Markdown files of tables to add.
    spaces
        Experiment to the YAML of the search space that was run.
    path
        The file.
    deviations
        Differences from the publications.
    """
    body = _body(reproduced, figures, documents, spaces, deviations)
    title = f"{reproduced.name}: reproduction"
    path.write_text(html_document(title, body, styles=("page", "reproduction")), encoding="utf-8")
    return path


def _body(
    reproduced: Reproduced,
    figures: Sequence[DrawnFigure],
    documents: Mapping[str, str],
    spaces: Mapping[str, str],
    deviations: Sequence[Deviation],
) -> Iterator[str]:
    yield f"<header>\n<h1>{html.escape(reproduced.title)}</h1>"
    for publication in reproduced.publications:
        yield f'<p class="question">{html.escape(publication)}</p>'
    yield f'<p class="size">{html.escape(_size(reproduced))}</p>\n</header>\n<main>'
    yield from _claims(reproduced)
    yield from _tables(reproduced.tables)
    yield from _figures(figures)
    if documents:
        yield '<section id="documents"><h2>All that was measured</h2>'
        for name, text in documents.items():
            yield f"<details><summary>{html.escape(name)}</summary>"
            yield f'<div class="scroll">{markdown_html(text)}</div>'
            yield "</details>"
        yield "</section>"
    if deviations:
        yield '<section id="deviations"><h2>Deviations</h2>'
        rows = [(f"{one.element} ({one.source})", one.here, one.reason) for one in deviations]
        yield plain_table(("published", "here", "why"), rows) + "</section>"
    yield from _data(reproduced)
    yield from _origin(reproduced, spaces)
    yield "</main>"


def _size(reproduced: Reproduced) -> str:
    parts = [
        "whole experiments" if reproduced.full else "quick: parts of the experiments",
        count_text(len(reproduced.cells), "experiment"),
        count_text(sum(reproduced.cells.values()), "cell"),
        f"system {reproduced.system}",
    ]
    return " · ".join(parts)


def _claims(reproduced: Reproduced) -> Iterator[str]:
    yield '<section id="claims"><h2>Claims</h2>'
    counts = Counter(claim.verdict for claim in reproduced.claims)
    badges = (
        f"<span>{_badge(verdict)}{counts[verdict]}</span>" for verdict in ClaimVerdict if counts[verdict]
    )
    yield f'<p class="tally">{"".join(badges)}</p>'
    yield (
        '<p class="note">A criterion with limits holds if the whole 95 % interval of our number lies within '
        "them, fails if the whole interval lies outside, and is undecided else. One that asks for the "
        "published number holds if ours is within the stated part of it, and is undecided if only our "
        "interval reaches so far. A claim is reproduced if all criteria hold, partly if some do, not "
        "reproduced if none holds and some fail, and undecided else. Intervals are over replicates.</p>"
    )
    if not reproduced.full:
        yield (
            '<p class="note">This is a quick run of parts of the experiments: fewer replicates, wider '
            f"intervals. The whole: <code>gridtune reproduce {html.escape(reproduced.name)} --full</code></p>"
        )
    for claim in reproduced.claims:
        yield from _claim(claim)
    yield "</section>"


def _badge(verdict: ClaimVerdict) -> str:
    return f'<span class="badge {_class(verdict)}">{verdict}</span>'


def _class(text: str) -> str:
    return text.replace(" ", "-")


def _claim(claim: JudgedClaim) -> Iterator[str]:
    yield f'<article class="claim {_class(claim.verdict)}">'
    yield f"<h3>{_badge(claim.verdict)}{html.escape(claim.text)}</h3>"
    yield f'<p class="note">{html.escape(claim.source)}</p>'
    if claim.remark:
        yield f"<p>{_text(claim.remark)}</p>"
    numbers = {"published", "ours", "95 %"}
    head = "".join(
        f'<th scope="col"{" class=number" if name in numbers else ""}>{name}</th>' for name in _HEADS
    )
    yield f'<div class="scroll"><table class="criteria"><thead><tr>{head}</tr></thead><tbody>'
    yield from map(_criterion, claim.criteria)
    yield "</tbody></table></div></article>"


def _criterion(criterion: JudgedCriterion) -> str:
    ours = criterion.ours
    write = partial(figure_text, unit=criterion.unit)
    interval = "" if ours is None else interval_text(ours.low, ours.high, write)
    unit = "" if criterion.unit in {"1", ""} else f" {criterion.unit}"
    cells = (
        ("what", criterion.text),
        ("target", criterion.target),
        (
            "number",
            "" if criterion.published is None else published_text(criterion.published, criterion.unit) + unit,
        ),
        ("number", "–" if ours is None else figure_text(ours.value, criterion.unit) + unit),
        ("number", interval),
        (f"outcome {_class(criterion.outcome)}", str(criterion.outcome)),
        ("how", criterion.how),
    )
    columns = (f'<td class="{kind}">{_text(text)}</td>' for kind, text in cells)
    return f"<tr>{''.join(columns)}</tr>"


def _text(text: str) -> str:
    """Return a text for HTML, in which no line begins with a per cent sign."""
    return html.escape(text.replace(" %", "\N{NO-BREAK SPACE}%"))


def figure_text(value: float, unit: str = "1") -> str:
    """Write one of our numbers as tables show it: four digits, or a tenth of a per cent."""
    return f"{value:+.1f}".replace("-", "−") if unit == "%" else number_text(value)


def published_text(value: float, unit: str = "1") -> str:
    """Write a published number as it is printed, without digits that it does not have."""
    text = figure_text(value, unit)
    return text.rstrip("0").rstrip(".") if "." in text and unit != "%" else text


def _tables(tables: Sequence[TableNumbers]) -> Iterator[str]:
    if not tables:
        return
    yield '<section id="tables"><h2>Tables</h2>'
    yield (
        '<p class="legend"><span><i class="sign circle"></i>ours, with its 95 % interval</span>'
        '<span><i class="sign diamond"></i>published</span></p>'
    )
    for table in tables:
        yield f"<h3>{html.escape(table.title)}</h3>"
        came_from = ", ".join(table.experiments)
        yield f'<p class="note">{html.escape(table.source)}; ours: {html.escape(came_from)}</p>'
        yield _table(table)
        charts = list(_table_charts(table))
        if charts:
            yield f'<div class="panels">{"".join(charts)}</div>'
    yield "</section>"


def _table(table: TableNumbers) -> str:
    shown = [
        any(cells[place][0] is not None for _, cells in table.rows) for place in range(len(table.columns))
    ]
    names = '<th rowspan="2"></th>' + "".join(
        f'<th scope="col" colspan="{1 + both}" class="name">{html.escape(column)}</th>'
        for column, both in zip(table.columns, shown, strict=True)
    )
    sides = "".join(
        ('<th class="published">published</th>' if both else "")
        + f'<th class="{"" if both else "name"}">ours</th>'
        for both in shown
    )
    rows = []
    for label, cells in table.rows:
        columns = []
        for (published, ours), both in zip(cells, shown, strict=True):
            if both:
                text = "" if published is None else published_text(published)
                columns.append(f'<td class="published">{text}</td>')
            interval = "" if ours is None else interval_text(ours.low, ours.high, figure_text)
            spread = f"<small>{interval}</small>" if interval else ""
            columns.append(f"<td>{'' if ours is None else figure_text(ours.value)}{spread}</td>")
        rows.append(f"<tr><td>{html.escape(label)}</td>{''.join(columns)}</tr>")
    return (
        f'<div class="scroll"><table class="beside"><thead><tr>{names}</tr><tr>{sides}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _figures(figures: Sequence[DrawnFigure]) -> Iterator[str]:
    if not figures:
        return
    yield '<section id="figures"><h2>Figures</h2>'
    for drawn in figures:
        figure = drawn.figure
        yield f"<h3>{html.escape(figure.title)}</h3>"
        yield f'<p class="note">{html.escape(figure.source)}; ours: {html.escape(figure.experiment)}</p>'
        if drawn.path is None:
            yield '<p class="note">This run has too few results to draw it.</p>'
        else:
            yield f'<figure class="picture">{_image(figure.title, drawn.path.read_bytes())}'
            yield f"<figcaption>Published: {_text(figure.published)}</figcaption></figure>"
    yield "</section>"


def _image(title: str, png: bytes) -> str:
    content = base64.b64encode(png).decode()
    return f'<img alt="{html.escape(title)}" src="data:image/png;base64,{content}">'


def _data(reproduced: Reproduced) -> Iterator[str]:
    yield f'<section id="data"><h2>Data</h2><p>{html.escape(reproduced.data)}</p>'
    if reproduced.traces:
        rows = [(trace.name, trace.remark, trace.checksum) for trace in reproduced.traces]
        yield plain_table(("log", "", "SHA-256"), rows, "mono")
    yield "</section>"


def _origin(reproduced: Reproduced, spaces: Mapping[str, str]) -> Iterator[str]:
    yield '<section id="origin"><h2>How this was made</h2>'
    yield f"<pre>{html.escape(reproduced.command)}</pre>"
    yield "<p>Killed and started again, it goes on with the cells that are missing. Each experiment by "
    yield "itself, in the folder of this page:</p>"
    for name, command in reproduced.commands.items():
        missing = reproduced.missing.get(name, 0)
        size = count_text(reproduced.cells[name], "cell")
        lost = f", {missing} without a result" if missing else ""
        yield f'<h3 id="experiment-{html.escape(name)}">{html.escape(name)}</h3>'
        link = f'<a href="{html.escape(name)}/report.html">its report</a>'
        yield f'<p class="note">{size}{lost}; {link}</p><pre>{html.escape(command)}</pre>'
        yield f"<details><summary>The search space</summary><pre>{html.escape(spaces[name])}</pre></details>"
    yield "<h3>Software</h3>"
    version = f"{reproduced.system}, version {reproduced.system_version} of its results"
    yield plain_table(("what", "version"), [("system", version), *reproduced.versions.items()])
    yield "</section>"


def _table_charts(table: TableNumbers) -> Iterator[str]:
    """Yield a figure for each column that has published numbers beside ours."""
    for place, column in enumerate(table.columns):
        rows = [(label, *cells[place]) for label, cells in table.rows]
        rows = [row for row in rows if row[1] is not None or row[2] is not None]
        if any(ours is not None for _, _, ours in rows) and any(published for _, published, _ in rows):
            chart = _image(column, style.Picture.of(partial(_draw_beside, rows)).png)
            yield f"<figure><figcaption>{html.escape(column)}</figcaption>{chart}</figure>"


def _draw_beside(rows: Sequence[tuple[str, float | None, Estimate | None]], path: Path) -> Path:
    """Draw a line for each row: ours with its interval as a point, the published number as a diamond."""
    labels, published, ours = zip(*rows, strict=True)
    short = [label if len(label) <= _LETTERS else f"{label[: _LETTERS - 1]}…" for label in labels]
    missing = Estimate(math.nan)
    numbers = [(one.value, one.low, one.high) for one in (one or missing for one in ours)]
    means, low, high = np.array(numbers).T
    paper = np.array(published, dtype=np.float64)
    places = np.arange(len(rows))
    with style.figure(5.6, 0.6 + 0.26 * len(rows)) as (drawing, axes):
        axes.hlines(places, low, high, color=style.BETTER, linewidth=2.2)
        axes.plot(means, places, "o", color=style.BETTER)
        axes.plot(paper, places, "D", color=style.WORSE, markerfacecolor="none", markeredgewidth=1.6)
        axes.set_yticks(places, short)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        scale_axis(axes, "x", [*means, *low, *high, *paper])
        return style.save(drawing, path)
