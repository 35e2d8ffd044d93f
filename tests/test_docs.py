"""What the pages say can be followed: links, files and commands exist."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from gridtune.cli.main import cli
from gridtune.sweep.space.schema import read_space

PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs",
    "examples",
    "benchmarks",
    "traces",
    "search_spaces",
    "scripts",
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SHELL = re.compile(r"```(?:bash|sh|console)\n(.*?)```", re.DOTALL)
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)

# Paths of one machine, and hosts of package indices, which every user configures for themselves.
NOT_FOR_OTHERS = re.compile(
    r"/home/\w|/Users/\w|/root/|/work/|/opt/pypi|pypi\.org|pythonhosted\.org|(?:extra-)?index-url|find-links",
)


def pages(repository: Path) -> Iterator[Path]:
    for name in PAGES:
        place = repository / name
        yield from sorted(place.rglob("*.md")) if place.is_dir() else [place]


def tracked_text(repository: Path) -> Iterator[tuple[Path, str]]:
    """Yield the tracked text files; without git, those of the folders that hold text."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        file = repository / name
        if file.suffix in {".gz", ".npz", ".parquet", ".png", ".pt", ".xz"} or not file.is_file():
            continue
        yield file, file.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """Return the anchors that a Markdown page's headings make."""
    titles = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_links_lead_somewhere(repository: Path) -> None:
    broken = []
    for page in pages(repository):
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = page if not path else page.parent / path
            if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
                broken.append(f"{page.relative_to(repository)}: {target}")
    assert not broken, "\n".join(broken)


@pytest.mark.integration
@pytest.mark.slow
def test_the_page_on_python_runs(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its blocks run one after the other, as a reader would paste them; each expression has a value.

    A block that needs a package which is not there is left out.
    """
    page = (repository / "docs/python.md").read_text()
    marked = re.findall(r"(?:<!-- needs (\w+) -->\n)?```python\n(.*?)```", page, re.DOTALL)
    blocks = [block for needed, block in marked if not needed or importlib.util.find_spec(needed)]
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "pasted.py"
    file.write_text("\n".join(blocks))
    values: dict[str, Any] = {"__name__": "pasted", "__file__": str(file)}
    for statement in ast.parse(file.read_text()).body:
        if isinstance(statement, ast.Expr):
            code = compile(ast.Expression(statement.value), str(file), "eval")
            assert eval(code, values) is not None, ast.unparse(statement)
        else:
            exec(compile(ast.Module([statement], []), str(file), "exec"), values)
    assert values["study"].complete
    assert (tmp_path / "load.png").is_file()


def test_commands_on_the_pages_exist(repository: Path) -> None:
    """Scripts and files named in shell blocks are there; gridtune's subcommands are its own."""
    known = cli.list_commands(click.Context(cli))
    faults = []
    for page in pages(repository):
        lines = [
            line for block in SHELL.findall(page.read_text(encoding="utf-8")) for line in block.splitlines()
        ]
        for line in (whole.partition(" #")[0] for whole in lines):
            where = f"{page.relative_to(repository)}: {line.strip()}"
            for file in re.findall(r"(?<![\w/.-])(?:scripts|search_spaces|traces|benchmarks)/[\w./-]+", line):
                # A name in capitals or with an ellipsis stands for the reader's own.
                if not re.search(r"[A-Z…]", Path(file).stem) and not (repository / file).exists():
                    faults.append(f"{where} [no {file}]")
            for command in re.findall(r"(?:^|\s|--\s)gridtune\s+([a-z]+)", line):
                if command not in known:
                    faults.append(f"{where} [no command {command}]")
    assert not faults, "\n".join(faults)


def test_options_on_the_pages_exist(repository: Path) -> None:
    """Every option that a shell block gives a gridtune command is one of that command's."""
    faults = []
    for page in pages(repository):
        blocks = SHELL.findall(page.read_text(encoding="utf-8"))
        lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
        for line in (whole.partition(" #")[0] for whole in lines):
            for call in re.findall(r"(?:^|\s|--\s)gridtune\s+([a-z][^|;&>]*)", line):
                words = call.split()
                command = command_of(words)
                parameters = command.get_params(click.Context(command))
                own = ((*parameter.opts, *parameter.secondary_opts) for parameter in parameters)
                accepted = {"--help", *(option for names in own for option in names)}
                options = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
                faults += [
                    f"{page.relative_to(repository)}: {line.strip()} [no {option}]"
                    for option in options
                    if option not in accepted
                ]
    assert not faults, "\n".join(faults)


def command_of(words: list[str]) -> click.Command:
    """Return the command, or the command of a group, that words begin with."""
    context = click.Context(cli)
    command = cli.get_command(context, words[0])
    assert command is not None, words
    if isinstance(command, click.Group) and len(words) > 1:
        return command.get_command(context, words[1]) or command
    return command


def test_nothing_belongs_to_one_machine(repository: Path) -> None:
    found = [
        f"{file.relative_to(repository)}:{number}: {line.strip()}"
        for file, text in tracked_text(repository)
        if file != Path(__file__).resolve()
        for number, line in enumerate(text.splitlines(), start=1)
        if NOT_FOR_OTHERS.search(line)
    ]
    assert not found, "\n".join(found)


def test_shell_scripts_stop_at_the_first_error(repository: Path) -> None:
    scripts = [
        file
        for folder in ("scripts", ".ci")
        for file in sorted((repository / folder).iterdir())
        if file.is_file() and file.read_bytes().startswith(b"#!/usr/bin/env bash")
    ]
    assert {file.name for file in scripts} >= {"setup", "test", "quickstart", "submit", "run"}
    for file in scripts:
        assert file.stat().st_mode & 0o111, f"{file.name} is not executable"
        assert "\nset -euo pipefail\n" in file.read_text(encoding="utf-8"), file.name
        subprocess.run(["bash", "-n", str(file)], check=True)


def test_every_bundled_study_is_listed_with_its_question(repository: Path) -> None:
    page = (repository / "search_spaces" / "README.md").read_text(encoding="utf-8")
    for path in sorted((repository / "search_spaces").glob("*.yaml")):
        space = read_space(path)
        name = f"[`{space.name}`]({path.name})"
        assert f"| `{space.system}` | {name} | {space.description} |" in page
