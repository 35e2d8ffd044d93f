"""The page of a reproduction: claims, tables, figures and deviations, as one HTML file."""

from __future__ import annotations

import base64
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from gridtune.core.reproduction import Deviation, PaperFigure, Reproduction
from gridtune.report.labels import count_text, interval_text, markdown_table, number_text
from gridtune.report.reproduction.verdicts import (
    Estimate,
    JudgedClaim,
    JudgedCriterion,
    Reproduced,
    TableNumbers,
)
from gridtune.report.tables import html_document

#: The page in a reproduction's folder.
REPRODUCTION_PAGE = "reproduction.html"

_WIDTH = 144
#: The names of folded sections with every number.
CRITERIA, TABLES = "Every criterion", "Published tables beside ours"


def write_reproduction_page(
    reproduced: Reproduced,
    reproduction: Reproduction,
    images: Mapping[str, Path],
    spaces: Mapping[str, str],
    path: Path,
) -> Path:
    """Write the page and return its path: one file that loads nothing, the same bytes for the same results.

    Parameters
    ----------
    reproduced
        The numbers and verdicts.
    reproduction
        Its declaration, for figures and deviations.
    images
        The files of figures, by their names.
    spaces
        Experiment to the YAML of the search space that was run.
    path
        The file.
    """

    def image_of(figure: PaperFigure) -> str | None:
        image = images.get(figure.file)
        if image is None:
            return None
        return f"data:image/png;base64,{base64.b64encode(image.read_bytes()).decode()}"

    head, folded = reproduction_sections(reproduced, reproduction, image_of)
    body = ["<main>", f'<section class="scroll">{_markdown_html(head)}</section>']
    for name, text in [*folded, ("Commands, logs and software", "".join(_origin(reproduced, spaces)))]:
        body.append(f'<details class="scroll"><summary>{name}</summary>{_markdown_html(text)}</details>')
    body.append("</main>")
    title = f"{reproduced.name}: reproduction"
    path.write_text(html_document(title, body, styles=("page", "reproduction")), encoding="utf-8")
    return path


def _markdown_html(text: str) -> str:
    """Return Markdown as HTML; cells of tables have classes, because pages refuse inline styles."""
    from markdown_it import MarkdownIt  # noqa: PLC0415

    rendered = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table").render(text)
    rendered = re.sub(r"<(t[hd])>", r"<\1 class=left>", rendered).replace(' style="text-align:right"', "")
    return re.sub(r"(</?)h[12]>", r"\1h3>", rendered)


def _origin(reproduced: Reproduced, spaces: Mapping[str, str]) -> Iterator[str]:
    yield f"    {reproduced.command}\n\n"
    yield "A killed run resumes with the missing cells. Each experiment alone, in this page's folder:\n"
    for name, command in reproduced.commands.items():
        missing = reproduced.missing.get(name, 0)
        lost = f", {missing} without a result" if missing else ""
        yield f"\n### {name}\n\n{count_text(reproduced.cells[name], 'cell')}{lost}; "
        yield f"[its report]({name}/report.html)\n\n    {command}\n\n"
        yield textwrap.indent(spaces[name], "    ") + "\n"
    logs = [[trace.name, trace.remark, trace.checksum] for trace in reproduced.traces]
    yield "\n### Logs and software\n\n" + markdown_table(["log", "", "SHA-256"], logs, left=3) + "\n"
    version = f"{reproduced.system}, version {reproduced.system_version} of its results"
    versions = [["system", version], *map(list, reproduced.versions.items())]
    yield markdown_table(["", "version"], versions, left=2)


def reproduction_sections(
    reproduced: Reproduced, reproduction: Reproduction, image_of: Callable[[PaperFigure], str | None]
) -> tuple[str, list[tuple[str, str]]]:
    """Return the head of the page, and each folded section that is not empty: its name and its Markdown."""
    head = [
        f"# {reproduced.title}\n",
        _wrapped(f"**{reproduced.tally()}** ({reproduced.made}). {reproduced.data}") + "\n",
        "".join(f"- {publication}\n" for publication in reproduced.publications),
        "".join(_claims(reproduced.claims)),
    ]
    sections = {
        CRITERIA: _criteria(reproduced.claims),
        "Deviations from the publications": _deviations(reproduction.deviations),
        TABLES: _tables(reproduced.tables),
        "Published figures beside ours": _figures(reproduction.figures, image_of),
    }
    texts = {name: "\n".join(parts) for name, parts in sections.items()}
    return "\n".join(head), [(name, text) for name, text in texts.items() if text]


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _cells(*texts: str) -> list[str]:
    return [text.replace("|", r"\|") for text in texts]


def _claims(claims: Sequence[JudgedClaim]) -> Iterator[str]:
    rows = []
    for number, claim in enumerate(claims, start=1):
        holds = sum(criterion.outcome == "holds" for criterion in claim.criteria)
        criteria = f"{holds} of {len(claim.criteria)}"
        text = f"{claim.text} ({claim.source})"
        verdict = f"**{claim.verdict}**" + (" (a check, not a claim)" if claim.check else "")
        ours, published = _numbers(claim.criteria[0])
        first = f"{claim.criteria[0].text}: {ours or 'not measured'}"
        first += f"; published {published}" if published else ""
        rows.append(_cells(str(number), text, verdict, criteria, first, claim.remark))
    heads = ["#", "claim", "verdict", "criteria that hold", "the first of them", "remark"]
    yield markdown_table(heads, rows, left=6)


def _numbers(criterion: JudgedCriterion) -> tuple[str, str]:
    """Return our number and the published one; "" where there is none."""
    unit = "" if criterion.unit in {"1", ""} else f" {criterion.unit}"
    published = ""
    if criterion.published is not None:
        published = _published_text(criterion.published, criterion.unit) + unit
    ours = "" if criterion.ours is None else _estimate(criterion.ours, criterion.unit, unit)
    return ours + ("†" if criterion.recorded else ""), published


def _criteria(claims: Sequence[JudgedClaim]) -> Iterator[str]:
    rows = []
    for number, claim in enumerate(claims, start=1):
        for criterion in claim.criteria:
            ours, published = _numbers(criterion)
            outcome = str(criterion.outcome)
            if criterion.outcome == "direction only":
                outcome += f", {criterion.effect:.2g} × the published effect".replace("-", "−")
            texts = (criterion.text, criterion.target, published, ours, outcome)
            rows.append([str(number), *_cells(*texts)])
    yield "Limits hold for the whole interval; within: of the published number; †: an earlier run.\n"
    yield markdown_table(
        ["claim", "criterion", "must be", "published", "ours [95 %]", "outcome"], rows, left=3
    )


def _estimate(ours: Estimate, kind: str = "1", unit: str = "") -> str:
    write = partial(_figure_text, unit=kind)
    interval = interval_text(ours.low, ours.high, write)
    return f"{write(ours.value)}{unit}" + (f" [{interval}]" if interval else "")


def _figure_text(value: float, unit: str = "1") -> str:
    """Write one of our numbers as tables show it: four digits, or a tenth of a per cent."""
    return f"{value:+.1f}".replace("-", "−") if unit == "%" else number_text(value)


def _published_text(value: float, unit: str = "1") -> str:
    """Write a published number as it is printed, without digits that it does not have."""
    text = _figure_text(value, unit)
    return text.rstrip("0").rstrip(".") if "." in text and unit != "%" else text


def _tables(tables: Sequence[TableNumbers]) -> Iterator[str]:
    def beside(published: float | None, ours: Estimate | None) -> str:
        printed = "" if published is None else f"*{_published_text(published)}*"
        return " / ".join(filter(None, ["" if ours is None else _estimate(ours), printed]))

    if not tables:
        return
    yield "Ours [95 % interval over replicates] / *published*.\n"
    for table in tables:
        yield f"**{table.title}**\n"
        made = ", ".join(table.experiments) or "an earlier run"
        yield _wrapped(f"{table.source}; ours: {made}.") + "\n"
        rows = [
            _cells(label, *(beside(published, ours) for published, ours in cells))
            for label, cells in table.rows
        ]
        yield markdown_table(["", *table.columns], rows)


def _figures(figures: Sequence[PaperFigure], image_of: Callable[[PaperFigure], str | None]) -> Iterator[str]:
    shown = [(figure, image) for figure in figures if (image := image_of(figure)) is not None]
    for figure, image in shown:
        origin = f"{figure.source}; ours: {figure.experiment}"
        yield _wrapped(f"**{figure.title}** ({origin}). Published: {figure.published}")
        yield f"![{figure.title}]({image})\n"


def _deviations(deviations: Sequence[Deviation]) -> Iterator[str]:
    if not deviations:
        return
    yield "Everything else is as in the publications.\n"
    rows = [
        _cells(f"{deviation.element} ({deviation.source})", deviation.here, deviation.reason)
        for deviation in deviations
    ]
    yield markdown_table(["published", "here", "why"], rows, left=3)
