"""What the HTML pages share: a document that loads nothing, and plain tables."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from importlib.resources import files

__all__ = ["count_text", "html_document", "plain_table"]


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


def count_text(number: int, what: str) -> str:
    """Return how many of something there are, such as `3 cells`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


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
