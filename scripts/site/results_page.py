"""Write the pages of papers, their table on the page of results, and the draft's sentence on claims.

    python scripts/site/results_page.py docs/results.md

`studies/reproductions/` beside the page holds copies of the `verdicts.json` that `gridtune reproduce` writes.
Each gets a Markdown page beside it, with the figures that are in `images/`. Only the site's copy of that page
has every criterion, and the published tables beside ours. The page of results gets a table of the papers
between the marks `BEGIN` and `END`; `paper/paper.md` gets its sentence on the claims.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gridtune.core.reproduction import PaperFigure, Reproduction
from gridtune.report.labels import markdown_table
from gridtune.report.reproduction.page import CRITERIA, TABLES, reproduction_sections
from gridtune.report.reproduction.verdicts import ClaimVerdict, Reproduced
from gridtune.study.reproduction import _find_reproduction

__all__ = [
    "BEGIN",
    "DRAFT",
    "END",
    "fill_draft",
    "fill_results",
    "paper_pages",
    "papers_table",
    "reproduction_markdown",
]

_WRITTEN = "<!-- written by `python scripts/site/results_page.py docs/results.md`: do not edit -->\n"
BEGIN = _WRITTEN
END = "<!-- end of the written part -->\n"
#: Where the verdicts lie, from the page's folder.
_FOLDER = Path("studies") / "reproductions"
#: The draft of a paper on gridtune, from the page's folder.
DRAFT = Path("paper") / "paper.md"
_ELSEWHERE = """
Every criterion, and the published tables beside ours, are on the site's copy of this page (`scripts/docs`)
and on the page that the command above writes; [{name}.json]({name}.json) has their numbers. †: of an earlier
run.
"""
_DRAFT = re.compile(r"Of \d+ claims in \d+ sets of experiments[^.]+\.")


def _read(docs: Path) -> list[Reproduced]:
    return [Reproduced.read(file) for file in sorted((docs / _FOLDER).glob("*.json"))]


def paper_pages(docs: Path, tables: bool = False) -> Mapping[Path, str]:
    """Return the page of each reproduction by its path.

    Parameters
    ----------
    docs
        The folder of the page of results.
    tables
        True for pages with the published tables beside ours; else pages name the places that have them.

    Raises
    ------
    SweepError
        If a file of verdicts cannot be read.
    """

    def image_of(figure: PaperFigure) -> str | None:
        return f"../../images/{figure.file}" if (docs / "images" / figure.file).is_file() else None

    pages = {}
    for reproduced in _read(docs):
        text = reproduction_markdown(reproduced, _find_reproduction(reproduced.name)[1], image_of, tables)
        if reproduced.tables and not tables:
            text += _ELSEWHERE.format(name=reproduced.name)
        pages[docs / _FOLDER / f"{reproduced.name}.md"] = f"{_WRITTEN}\n{text}"
    return pages


def reproduction_markdown(
    reproduced: Reproduced,
    reproduction: Reproduction,
    image_of: Callable[[PaperFigure], str | None],
    tables: bool = True,
) -> str:
    """Return the page: verdicts with reasons in one table; the rest is folded.

    Parameters
    ----------
    reproduced
        The numbers and verdicts.
    reproduction
        Its declaration, for figures and deviations.
    image_of
        Returns a link to the picture of a figure, None where there is none.
    tables
        False leaves out the tables of every criterion and of published numbers beside ours.
    """
    head, folded = reproduction_sections(reproduced, reproduction, image_of)
    parts = (
        f'\n<details markdown="1">\n<summary>{name}</summary>\n\n{text}\n</details>\n'
        for name, text in folded
        if tables or name not in (CRITERIA, TABLES)
    )
    return head + "".join(parts)


def fill_results(path: Path) -> str:
    """Return the page of results with the part between its marks written again.

    Raises
    ------
    SweepError
        If a file of verdicts cannot be read.
    """
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{papers_table(_read(path.parent))}\n{END}{after}"


def papers_table(reproductions: Iterable[Reproduced]) -> str:
    """Return a row for each reproduction: its paper's page, its claims by verdict, and its command."""
    rows = [
        [
            f"[{reproduced.title}](studies/reproductions/{reproduced.name}.md)",
            reproduced.tally(),
            reproduced.made,
        ]
        for reproduced in reproductions
    ]
    return markdown_table(["paper", "claims", "made by"], rows, left=3)


def fill_draft(path: Path, docs: Path) -> str:
    """Return the draft with its sentence on the claims written again."""
    papers = _read(docs)
    counts = sum((paper.verdicts() for paper in papers), Counter[ClaimVerdict]())
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ClaimVerdict if counts[verdict])
    sentence = f"Of {sum(counts.values())} claims in {len(papers)} sets of experiments: {told}."
    draft, found = _DRAFT.subn(sentence, path.read_text(encoding="utf-8"))
    if found != 1:
        raise ValueError(f"{path} needs one sentence that reads 'Of N claims in N sets of experiments: ….'")
    return draft


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(fill_results(page), encoding="utf-8")
    for file, text in paper_pages(page.parent).items():
        file.write_text(text, encoding="utf-8")
    draft = page.parent / DRAFT
    draft.write_text(fill_draft(draft, page.parent), encoding="utf-8")
