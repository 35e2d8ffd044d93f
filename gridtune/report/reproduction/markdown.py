"""The page of a reproduction as Markdown, for documentation: claims, figures, tables and deviations."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from gridtune.core.reproduction import Deviation, PaperFigure, Reproduction
from gridtune.report.labels import interval_text, markdown_table
from gridtune.report.reproduction.page import figure_text, published_text
from gridtune.report.reproduction.results import Reproduced, TableNumbers
from gridtune.report.reproduction.verdicts import ClaimVerdict, Estimate, JudgedClaim, JudgedCriterion

__all__ = ["made_text", "reproduction_markdown", "tally_text"]

_WIDTH = 144


def reproduction_markdown(
    reproduced: Reproduced, reproduction: Reproduction, image_of: Callable[[PaperFigure], str | None]
) -> str:
    """Return the page.

    Parameters
    ----------
    reproduced
        The numbers and verdicts.
    reproduction
        Its declaration, for figures and deviations.
    image_of
        Returns a link to the picture of a figure, None where there is none.
    """
    parts = [
        f"# {reproduced.title}\n",
        "".join(f"- {publication}\n" for publication in reproduced.publications),
        _wrapped(f"**{tally_text(reproduced)}** ({made_text(reproduced)}). {reproduced.data}") + "\n",
        "".join(_summary(reproduced.claims)),
        "## Claims\n\n" + "".join(_claims(reproduced.claims)),
        *_deviations(reproduction.deviations),
        *_tables(reproduced.tables),
        *_figures(reproduction.figures, image_of),
    ]
    return "\n".join(parts)


def tally_text(reproduced: Reproduced) -> str:
    """Return how many claims have each verdict."""
    counts = Counter(claim.verdict for claim in reproduced.claims)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in ClaimVerdict if counts[verdict])


def made_text(reproduced: Reproduced) -> str:
    """Return how a reproduction was made, and on which logs."""
    logs = ", ".join(
        trace.name + (f" ({trace.remark})" if trace.remark else "") for trace in reproduced.traces
    )
    experiments, cells = ", ".join(reproduced.cells), sum(reproduced.cells.values())
    made = f"`{reproduced.command}`, experiments {experiments}, {cells:,} cells"
    return f"{made}{f', on {logs}' if logs else ''}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _cells(*texts: str) -> list[str]:
    return [text.replace("|", r"\|") for text in texts]


def _summary(claims: Sequence[JudgedClaim]) -> Iterator[str]:
    for verdict in ClaimVerdict:
        if texts := [claim.text for claim in claims if claim.verdict == verdict]:
            yield f"- **{verdict}**: {'; '.join(texts)}.\n"


def _claims(claims: Sequence[JudgedClaim]) -> Iterator[str]:
    rows = []
    for claim in claims:
        rows.append(_cells(f"**{claim.text}** ({claim.source})", "", "", "", f"**{claim.verdict}**"))
        rows += map(_criterion, claim.criteria)
        if claim.remark:
            rows.append(_cells(f"*{claim.remark}*", "", "", "", ""))
    yield markdown_table(["", "must be", "published", "ours [95 %]", ""], rows, left=2)


def _criterion(criterion: JudgedCriterion) -> list[str]:
    unit = "" if criterion.unit in {"1", ""} else f" {criterion.unit}"
    published = ""
    if criterion.published is not None:
        published = published_text(criterion.published, criterion.unit) + unit
    ours = "" if criterion.ours is None else _estimate(criterion.ours, criterion.unit, unit)
    if criterion.recorded:
        ours += ", an earlier run"
    return _cells(criterion.text, criterion.target, published, ours, str(criterion.outcome))


def _estimate(ours: Estimate, kind: str = "1", unit: str = "") -> str:
    write = partial(figure_text, unit=kind)
    interval = interval_text(ours.low, ours.high, write)
    return f"{write(ours.value)}{unit}" + (f" [{interval}]" if interval else "")


def _tables(tables: Sequence[TableNumbers]) -> Iterator[str]:
    if not tables:
        return
    yield "## Tables\n"
    yield "Ours [95 % interval over replicates] / *published*.\n"
    for table in tables:
        yield f"### {table.title}\n"
        made = ", ".join(table.experiments) or "an earlier run"
        yield _wrapped(f"{table.source}; ours: {made}.") + "\n"
        rows = [
            _cells(label, *(_beside(published, ours) for published, ours in cells))
            for label, cells in table.rows
        ]
        yield markdown_table(["", *table.columns], rows)


def _beside(published: float | None, ours: Estimate | None) -> str:
    printed = "" if published is None else f"*{published_text(published)}*"
    return " / ".join(filter(None, ["" if ours is None else _estimate(ours), printed]))


def _figures(figures: Sequence[PaperFigure], image_of: Callable[[PaperFigure], str | None]) -> Iterator[str]:
    shown = [(figure, image) for figure in figures if (image := image_of(figure)) is not None]
    if shown:
        yield "## Figures\n"
    for figure, image in shown:
        yield f"### {figure.title}\n"
        yield _wrapped(f"{figure.source}; ours: {figure.experiment}. Published: {figure.published}") + "\n"
        yield f"![{figure.title}]({image})\n"


def _deviations(deviations: Sequence[Deviation]) -> Iterator[str]:
    if not deviations:
        return
    yield "## Deviations\n"
    yield "All that differs from the publications; everything else is as they have it.\n"
    rows = [
        _cells(f"{deviation.element} ({deviation.source})", deviation.here, deviation.reason)
        for deviation in deviations
    ]
    yield markdown_table(["published", "here", "why"], rows, left=3)
