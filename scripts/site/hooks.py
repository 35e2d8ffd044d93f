"""What the site has beside the pages in `docs/`: pages from elsewhere in the repository, and generated ones.

The site's pages of papers have the published tables beside ours, which the files in `docs/` leave out.

Pages link to files of the repository by relative paths, so that the links work where the sources are browsed.
In the site, a link to a page leads to it, and a link to another file to a copy of that file.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import reference
import results_page

ROOT = Path(__file__).resolve().parents[2]
#: Pages that lie outside `docs/`, by their paths in the repository; the site has them under the same paths.
OUTSIDE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "benchmarks/README.md",
    "examples/plugin/README.md",
    "gridtune/cli/glossary.md",
    "search_spaces/README.md",
    "traces/README.md",
)
#: Folders that the site has copies of.
_COPIED = "files"

_LINK = re.compile(r"(\]\()([^)\s#]+)?(#[^)\s]*)?(\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie outside `docs/`, and the generated ones."""
    for name in OUTSIDE:
        if (ROOT / name).is_file():
            files.append(File.generated(config, name, content=(ROOT / name).read_text(encoding="utf-8")))
    for name, content in reference.pages().items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Complete the pages of papers, and lead links to files outside `docs/` to where the site has them."""
    source = page.file.src_uri
    markdown = _papers().get(ROOT / "docs" / source, markdown)
    home = posixpath.dirname(_in_repository(source))

    def led(match: re.Match[str]) -> str:
        before, target, anchor, after = match.groups()
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        wanted = posixpath.normpath(posixpath.join(home, target))
        place = _in_site(wanted, config, files)
        if place is None:
            return match[0]
        if wanted == "README.md":
            anchor = ""  # the site's first page stands in for the repository's
        return f"{before}{posixpath.relpath(place, posixpath.dirname(source) or '.')}{anchor or ''}{after}"

    return _LINK.sub(led, markdown)


@cache
def _papers() -> Mapping[Path, str]:
    """Return the complete page of each paper by the path of its file."""
    return results_page.paper_pages(ROOT / "docs", tables=True)


def _in_repository(source: str) -> str:
    """Return a page's path in the repository."""
    return source if source in OUTSIDE else f"docs/{source}"


def _in_site(wanted: str, config: Any, files: Files) -> str | None:
    """Return where the site has a file of the repository; None if it has none."""
    if wanted in OUTSIDE:
        return wanted
    if wanted in {"docs", "README.md"}:
        return "README.md"
    if wanted.startswith("docs/"):
        return wanted.removeprefix("docs/")
    if f"{wanted}/README.md" in OUTSIDE:
        return f"{wanted}/README.md"
    path = ROOT / wanted
    if not path.is_file():
        return None
    copy = f"{_COPIED}/{wanted}"
    if files.get_file_from_path(copy) is None:
        files.append(File.generated(config, copy, abs_src_path=str(path)))
    return copy
