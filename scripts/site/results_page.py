"""Write the page of each paper, and the published claims on the page of results, from verdicts.

    python scripts/site/results_page.py docs/results.md

`studies/reproductions/` beside the page holds copies of the `verdicts.json` that `gridtune reproduce` writes.
Each gets a Markdown page beside it, with the figures that are in `images/`. The page of results is written by
hand except for the part between the marks `BEGIN` and `END`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gridtune.core.reproduction import PaperFigure
from gridtune.report.labels import markdown_table
from gridtune.report.reproduction.page import made_text, reproduction_markdown, tally_text
from gridtune.report.reproduction.verdicts import Reproduced, read_reproduced
from gridtune.study.reproduction import find_reproduction

__all__ = ["BEGIN", "END", "claims_markdown", "fill_results", "paper_pages"]

_WRITTEN = "<!-- written by `python scripts/site/results_page.py docs/results.md`: do not edit -->\n"
BEGIN = _WRITTEN
END = "<!-- end of the written part -->\n"
#: Where the verdicts lie, from the page's folder.
_FOLDER = Path("studies") / "reproductions"


def _read(docs: Path) -> list[Reproduced]:
    return [read_reproduced(file) for file in sorted((docs / _FOLDER).glob("*.json"))]


def paper_pages(docs: Path) -> Mapping[Path, str]:
    """Return the page of each reproduction by its path; `docs`: the folder of the page of results.

    Raises
    ------
    SweepError
        If a file of verdicts cannot be read.
    """

    def image_of(figure: PaperFigure) -> str | None:
        return f"../../images/{figure.file}" if (docs / "images" / figure.file).is_file() else None

    return {
        docs / _FOLDER / f"{reproduced.name}.md": _WRITTEN
        + "\n"
        + reproduction_markdown(reproduced, find_reproduction(reproduced.name)[1], image_of)
        for reproduced in _read(docs)
    }


def fill_results(path: Path) -> str:
    """Return the page with the part between its marks written again.

    Raises
    ------
    SweepError
        If a file of verdicts cannot be read.
    """
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{claims_markdown(_read(path.parent))}{END}{after}"


def claims_markdown(reproductions: Iterable[Reproduced]) -> str:
    """Return a section for each reproduction: how it was made, and its claims with their verdicts."""
    return "".join(line for reproduced in reproductions for line in _section(reproduced))


def _section(reproduced: Reproduced) -> Iterator[str]:
    yield f"### {reproduced.title}\n\n"
    yield f"**{tally_text(reproduced)}** ([all numbers, tables, figures and deviations]"
    yield f"(studies/reproductions/{reproduced.name}.md); {made_text(reproduced)}).\n\n"
    rows = []
    for claim in reproduced.claims:
        holds = sum(criterion.outcome == "holds" for criterion in claim.criteria)
        cells = (
            f"{claim.text} ({claim.source})",
            f"**{claim.verdict}**",
            f"{holds} of {len(claim.criteria)}",
        )
        rows.append([cell.replace("|", r"\|") for cell in cells])
    yield markdown_table(["claim", "verdict", "criteria that hold"], rows, left=3) + "\n"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(fill_results(page), encoding="utf-8")
    for file, text in paper_pages(page.parent).items():
        file.write_text(text, encoding="utf-8")
