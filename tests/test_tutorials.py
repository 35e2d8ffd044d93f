"""The README and the tutorials, followed as a reader would: files saved, commands typed, output compared.

A block of Python, YAML or TOML whose first line is `# NAME` is saved as that file. A block of `bash` is
run with what the blocks before it exported, and the block of `text` after it is what it prints: `…` stands
for anything, on a line by itself for any number of lines. A block after `<!-- not run: WHY -->` is left out;
one after `<!-- on a cluster -->` is left to `tests/integration/test_tutorials.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from benchmarks.ray_nodes import processes_of

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1200)]

REPOSITORY = Path(__file__).parents[1]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs" / "tutorials").glob("*.md"))]
NOT_RUN, ON_A_CLUSTER = "<!-- not run", "<!-- on a cluster"
BLOCK = re.compile(
    rf"((?:{NOT_RUN}|{ON_A_CLUSTER})[^\n]*-->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def environment(folder: Path) -> dict[str, str]:
    """Return what a reader's shell has: the commands on the path, and no logs of its own.

    What a page installs goes into a folder, without a network.
    """
    site = folder / "site-packages"
    variables = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH")))),
        "COLUMNS": "120",
        "GRIDTUNE": str(REPOSITORY),
        "PIP_TARGET": str(site),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's own way to say that it is switched off
    }
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


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A reader's folder; what was started in it is ended by its number."""
    yield tmp_path
    for number in processes_of(tmp_path):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def run(content: str, folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a block in a shell that has what the blocks before it exported."""
    script = f"[ ! -e .exported ] || . ./.exported\n{content}\nexport -p > .exported"
    return subprocess.run(
        ["bash", "-ec", script], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )


def follow(page: Path, folder: Path, variables: Mapping[str, str], *, on_a_cluster: bool = False) -> None:
    """Do what a page says, and compare what it prints."""
    output, command = "", ""
    for mark, language, content in BLOCK.findall(page.read_text(encoding="utf-8")):
        if mark and not (on_a_cluster and mark.startswith(ON_A_CLUSTER)):
            continue
        if language == "bash":
            command = content
            done = run(content, folder, variables)
            assert done.returncode == 0, f"{content}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            output = done.stdout
        elif language == "text":
            wanted = pattern_of(content)
            assert wanted.fullmatch(visible(output)), f"{command}\nprints\n{output}\nand not\n{content}"
        elif language:
            name = re.match(r"# (\S+)\n", content)
            assert name is not None, f"a block of {language} names no file: {content[:60]}"
            (folder / name[1]).parent.mkdir(parents=True, exist_ok=True)
            (folder / name[1]).write_text(content, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_followed(page: Path, folder: Path) -> None:
    follow(page, folder, environment(folder))


def test_output_is_compared() -> None:
    wanted = pattern_of("a … c\n…\nlast")
    assert wanted.fullmatch(visible("a b c\n\nmore  \nand more\nlast\n"))
    assert wanted.fullmatch(visible("a b c\nlast\n"))
    assert not wanted.fullmatch(visible("a b d\nlast\n"))
    assert not wanted.fullmatch(visible("a b c\nlast but one\n"))
