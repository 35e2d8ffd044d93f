"""The gallery or the page of a paper has every figure, in the gallery under a command that can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from gridtune.cli.main import cli

IMAGE = re.compile(r"!\[[^\]]+\]\(images/([\w.-]+)\)")


def parts(repository: Path) -> list[tuple[list[str], list[str]]]:
    """Return the commands of each shell block of the gallery, and the figures between it and the next."""
    page = (repository / "docs/gallery.md").read_text(encoding="utf-8")
    return [
        (block.splitlines(), IMAGE.findall(after))
        for block, after in re.findall(r"```bash\n(.*?)```(.*?)(?=```bash|\Z)", page, re.DOTALL)
    ]


def test_every_figure_is_shown_once(repository: Path) -> None:
    images = {path.name for path in (repository / "docs/images").iterdir()}
    shown = [figure for _, figures in parts(repository) for figure in figures]
    for page in (repository / "docs/studies/reproductions").glob("*.md"):
        shown += re.findall(r"\(\.\./\.\./images/([\w.-]+)\)", page.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(images)


def test_every_figure_is_on_the_page_that_explains_it(repository: Path) -> None:
    pages = [repository / "README.md", *(repository / "docs").rglob("*.md")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages if path.name != "gallery.md")
    for path in (repository / "docs/images").iterdir():
        assert f"images/{path.name})" in text, path.name


def test_every_command_parses(repository: Path) -> None:
    for commands, figures in parts(repository):
        assert commands
        assert figures, commands
        for line in commands:
            words = shlex.split(line)
            if words[0] == "python":
                module = words[2].replace(".", "/") + ".py" if words[1] == "-m" else words[1]
                assert (repository / module).is_file(), line
                continue
            assert words[0] == "gridtune", line
            command = cli.get_command(click.Context(cli), words[1])
            assert command is not None, line
            # Raises for an option or argument that the command does not take.
            command.make_parser(click.Context(command)).parse_args(words[2:])
            for word in words[2:]:
                if word.startswith("search_spaces/"):
                    assert (repository / word).is_file(), line
