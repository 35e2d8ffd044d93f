"""`gridtune completion`: the script that makes a shell complete gridtune's commands."""

from __future__ import annotations

from typing import Literal

import click

__all__ = ["completion"]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
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
