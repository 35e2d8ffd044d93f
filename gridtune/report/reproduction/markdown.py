"""The Markdown that reports are written in, as HTML: headings, paragraphs and tables."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

__all__ = ["markdown_html"]

_RULE = re.compile(r"\|(?:\s*:?-+:?\s*\|)+")
_STRONG = re.compile(r"\*\*(.+?)\*\*")


def markdown_html(text: str) -> Iterator[str]:
    """Yield a Markdown text as HTML; what is neither a heading nor a table is a paragraph."""
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        if len(lines) > 1 and _RULE.fullmatch(lines[1].strip()):
            yield _table(lines)
        elif heading := re.fullmatch(r"#+ (.+)", lines[0]):
            yield f"<h3>{_inline(heading[1])}</h3>"
            if lines[1:]:
                yield f"<p>{_inline(' '.join(lines[1:]))}</p>"
        else:
            yield f"<p>{_inline(' '.join(lines))}</p>"


def _table(lines: Sequence[str]) -> str:
    right = [rule.strip().endswith(":") for rule in _cells(lines[1])]
    rows = [_row(_cells(line), right, "td") for line in lines[2:]]
    head = _row(_cells(lines[0]), right, "th")
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _row(cells: Sequence[str], right: Sequence[bool], tag: str) -> str:
    columns = (
        f"<{tag}{'' if number else ' class=left'}>{_inline(cell)}</{tag}>"
        for cell, number in zip(cells, right, strict=False)
    )
    return f"<tr>{''.join(columns)}</tr>"


def _inline(text: str) -> str:
    return _STRONG.sub(r"<strong>\1</strong>", html.escape(text))
