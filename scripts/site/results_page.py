"""Write the published claims on the page of results, from the verdicts of reproductions.

    python scripts/site/results_page.py docs/results.md

The page is written by hand except for the part between the marks `BEGIN` and `END`. That part is made of the
files in `studies/reproductions/` beside the page, which are copies of the `verdicts.json` that
`gridtune reproduce` writes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from gridtune.report.labels import interval_text
from gridtune.report.reproduction.page import figure_text, published_text
from gridtune.report.reproduction.results import Reproduced, read_reproduced
from gridtune.report.reproduction.verdicts import ClaimVerdict, JudgedClaim, JudgedCriterion, Judgement

__all__ = ["BEGIN", "END", "claims_markdown", "fill_results"]

BEGIN = "<!-- written by `python scripts/site/results_page.py docs/results.md`: do not edit -->\n"
END = "<!-- end of the written part -->\n"
#: Where the verdicts lie, from the page's folder.
_FOLDER = Path("studies") / "reproductions"
#: Criteria of a claim that are written out, and which come first: what speaks against it.
_SHOWN = 3
_FIRST = (Judgement.FAILS, Judgement.UNSURE, Judgement.HOLDS, Judgement.OPEN)


def fill_results(path: Path) -> str:
    """Return the page with the part between its marks written again.

    Raises
    ------
    SweepError
        If a file of verdicts cannot be read.
    """
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    reproductions = [read_reproduced(file) for file in sorted((path.parent / _FOLDER).glob("*.json"))]
    return f"{before}{BEGIN}\n{claims_markdown(reproductions)}{END}{after}"


def claims_markdown(reproductions: Iterable[Reproduced]) -> str:
    """Return a section for each reproduction: how it was made, and its claims with their verdicts."""
    return "".join(line for reproduced in reproductions for line in _section(reproduced))


def _section(reproduced: Reproduced) -> Iterator[str]:
    counts = Counter(claim.verdict for claim in reproduced.claims)
    tally = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ClaimVerdict if counts[verdict])
    yield f"<details markdown><summary>{reproduced.title}: {tally}</summary>\n\n"
    yield f"[`{reproduced.name}`](studies/{reproduced.name}.md): {'; '.join(reproduced.publications)}.\n"
    logs = ", ".join(
        trace.name + (f" ({trace.remark})" if trace.remark else "") for trace in reproduced.traces
    )
    cells = sum(reproduced.cells.values())
    made = f"`{reproduced.command}`, experiments {', '.join(reproduced.cells)}, {cells:,} cells"
    yield f"{made}{f', on {logs}' if logs else ''}.\n\n"
    yield "| claim | verdict | here |\n| --- | --- | --- |\n"
    yield from (_row(claim) for claim in reproduced.claims)
    yield "\n</details>\n\n"


def _row(claim: JudgedClaim) -> str:
    holds = sum(criterion.outcome == "holds" for criterion in claim.criteria)
    ordered = sorted(claim.criteria, key=lambda criterion: _FIRST.index(criterion.outcome))
    shown = [_criterion(criterion) for criterion in ordered[:_SHOWN]]
    if len(claim.criteria) > _SHOWN:
        shown.append("…")
    count = f"{holds} of {len(claim.criteria)} criteria hold. " if len(claim.criteria) > 1 else ""
    here = f"{count}{'; '.join(shown) or 'not measured'}. {claim.remark}".strip()
    cells = (f"{claim.text} ({claim.source})", f"**{claim.verdict}**", here.replace("….", "…"))
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


def _criterion(criterion: JudgedCriterion) -> str:
    unit = "" if criterion.unit in {"1", ""} else f" {criterion.unit}"
    if criterion.ours is None:
        return f"{criterion.text}: not measured"
    ours, write = criterion.ours, partial(figure_text, unit=criterion.unit)
    interval = interval_text(ours.low, ours.high, write)
    parts = [f"{write(ours.value)}{unit}", f"[{interval}]" if interval else ""]
    if criterion.published is not None:
        parts.append(f"(published {published_text(criterion.published, criterion.unit)}{unit})")
    made = ", an earlier run" if criterion.recorded else ""
    return f"{criterion.text}: {' '.join(filter(None, parts))}{made}, {criterion.outcome}"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(fill_results(page), encoding="utf-8")
