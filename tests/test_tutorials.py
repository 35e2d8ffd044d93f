"""The README and the tutorials, followed as a reader would: files saved, commands typed, output compared.

A block of Python or YAML whose first line is `# NAME` is saved as that file. A block of `bash` is run, and
the block of `text` after it is what it prints: `…` stands for anything, on a line by itself for any number of
lines. A block after `<!-- not run: WHY -->` is left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.slow]

REPOSITORY = Path(__file__).parents[1]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs" / "tutorials").glob("*.md"))]
BLOCK = re.compile(r"(<!-- not run[^\n]*-->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def environment() -> dict[str, str]:
    """Return what a reader's shell has: the commands on the path, and no logs of its own."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "COLUMNS": "120"}
    variables.pop("GRIDTUNE_TRACE_DIR", None)
    return variables


def pattern_of(text: str) -> re.Pattern[str]:
    """Return what matches a block of output, blank lines and spaces at the ends of lines left aside."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    parts = [
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*?") + r"\n"
        for line in lines
    ]
    return re.compile("".join(parts))


def visible(output: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines() if line.strip())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_followed(page: Path, tmp_path: Path) -> None:
    output, command = "", ""
    for left_out, language, content in BLOCK.findall(page.read_text(encoding="utf-8")):
        if left_out:
            continue
        if language == "bash":
            command = content
            done = subprocess.run(
                ["bash", "-ec", content],
                cwd=tmp_path,
                env=environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{content}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            output = done.stdout
        elif language == "text":
            wanted = pattern_of(content)
            assert wanted.fullmatch(visible(output)), f"{command}\nprints\n{output}\nand not\n{content}"
        elif language:
            name = re.match(r"# (\S+)\n", content)
            assert name is not None, f"a block of {language} names no file: {content[:60]}"
            (tmp_path / name[1]).write_text(content, encoding="utf-8")


def test_output_is_compared() -> None:
    wanted = pattern_of("a … c\n…\nlast")
    assert wanted.fullmatch(visible("a b c\n\nmore  \nand more\nlast\n"))
    assert wanted.fullmatch(visible("a b c\nlast\n"))
    assert not wanted.fullmatch(visible("a b d\nlast\n"))
    assert not wanted.fullmatch(visible("a b c\nlast but one\n"))
