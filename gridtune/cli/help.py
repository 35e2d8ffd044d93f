"""`gridtune help` and `gridtune completion`: help on commands and words, and a shell's completion."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import Literal

import click

__all__ = ["completion", "glossary", "help_command"]

_WIDTH = 88


@dataclass(frozen=True)
class _Entry:
    """One entry of the glossary.

    Attributes
    ----------
    section
        The heading it stands under.
    title
        The word, or several words separated by commas.
    text
        Its meaning.
    """

    section: str
    title: str
    text: str

    @property
    def words(self) -> tuple[str, ...]:
        """The words under which it is looked up, in lower case."""
        also = re.search(r"Also: (.*?)\.$", self.text)
        listed = [*self.title.split(", "), *(also[1].split(", ") if also else [])]
        return tuple(word.lower() for word in listed)


def glossary() -> list[_Entry]:
    """Return the entries, in the order of the page."""
    text = resources.files("gridtune.cli").joinpath("glossary.md").read_text(encoding="utf-8")
    entries = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        section, *bodies = re.split(r"^### ", part, flags=re.MULTILINE)
        for body in bodies:
            title, _, meaning = body.partition("\n")
            entries.append(_Entry(section.strip(), title.strip(), meaning.strip()))
    return entries


@click.command("help")
@click.argument("topic", nargs=-1)
@click.pass_context
def help_command(ctx: click.Context, topic: tuple[str, ...]) -> None:
    """Show the help of a command, or what a word or a metric means; without TOPIC, list commands and words.

    \b
    Examples:
      gridtune help sweep
      gridtune help traces import
      gridtune help easy
      gridtune help "sign-flip test"
      gridtune help area_weighted_response
    """
    if not topic:
        click.echo(_contents(ctx))
        return
    command = _command_help(ctx, topic)
    if command is not None:
        click.echo(command)
        return
    click.echo(_meaning(" ".join(topic)))


def _contents(ctx: click.Context) -> str:
    assert ctx.parent is not None
    commands = ", ".join(ctx.parent.command.list_commands(ctx.parent))  # type: ignore[attr-defined]
    lines = ["gridtune help TOPIC shows the help of a command or the meaning of a word.", "", "Commands:"]
    lines += [_wrapped(commands)]
    sections: dict[str, list[str]] = {}
    for entry in glossary():
        sections.setdefault(entry.section, []).append(entry.title)
    for section, titles in sections.items():
        lines += ["", f"{section}:", _wrapped(", ".join(titles))]
    return "\n".join(lines)


def _command_help(ctx: click.Context, topic: tuple[str, ...]) -> str | None:
    """Return the help of the command that the words name, or None if they name none."""
    assert ctx.parent is not None
    context: click.Context = ctx.parent
    for word in topic:
        group = context.command
        command = group.get_command(context, word) if isinstance(group, click.Group) else None
        if command is None:
            return None
        context = click.Context(command, info_name=word, parent=context)
    return context.get_help()


def _meaning(word: str) -> str:
    from gridtune.registry import name_hint

    entries = glossary()
    matches = [entry for entry in entries if word.lower() in entry.words]
    explained = [(entry.title, entry.text) for entry in matches] or _metrics(word)
    if not explained:
        words = {name: entry for entry in entries for name in entry.words}
        raise click.UsageError(f"nothing is named {word!r}: {name_hint(word.lower(), words)}")
    return "\n\n".join(f"{title}\n{_wrapped(text)}" for title, text in explained)


def _metrics(name: str) -> list[tuple[str, str]]:
    """Return what a metric means in each system that has one of this name."""
    from gridtune.core.system import SYSTEMS

    measured = ((title, system.metrics.get(name)) for title, system in SYSTEMS.items())
    return [
        (f"{name}, a metric of {title}, in {metric.unit}", f"{metric.formula}. Source: {metric.source}.")
        for title, metric in measured
        if metric is not None
    ]


def _wrapped(text: str) -> str:
    return click.wrap_text(text, _WIDTH, "  ", "  ")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print the script that completes gridtune's commands in SHELL.

    Completed are commands, options, systems, parameters (`gridtune run batch or<TAB>`) and their values,
    search spaces that come with a system, and the folders of sweeps in results/.

    \b
    Examples:
      gridtune completion bash > ~/.local/share/bash-completion/completions/gridtune
      gridtune completion zsh > ~/.zfunc/_gridtune        (with ~/.zfunc in fpath, before compinit)
      gridtune completion fish > ~/.config/fish/completions/gridtune.fish
      source <(gridtune completion bash)                  (for this shell only)
    """
    from click.shell_completion import get_completion_class

    from gridtune.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "gridtune", "_GRIDTUNE_COMPLETE").source())
