"""`gridtune`: the command line. Commands are imported when they are called, so that help is quick."""

from __future__ import annotations

import errno
import importlib
import signal
import sys
import threading
import tomllib
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import click

from gridtune import __version__
from gridtune.errors import GridtuneError, GridtuneWarning
from gridtune.registry import is_ours, name_hint

#: What exit codes mean, beside 0.
EXIT_FAILED_CELLS = 1
_EXIT_BAD_INPUT = 2
_EXIT_INTERRUPTED = 130
#: How Python writes a warning.
_USUAL_TEXT = warnings.formatwarning
#: What to do about what the operating system refuses.
_HINTS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "give a place that you may read and write"),
    errno.ENOSPC: "make room on this disk, or give a place on another",
}
#: Packages that are not installed by default, by what brings them.
_EXTRAS = {"torch": "gridtune[agents]", "gymnasium": "gridtune[agents]"}

_DECLARED = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
#: Commands by purpose: the module and name of each, and its line in the help.
_GROUPS: dict[str, dict[str, list[str]]] = _DECLARED["commands"]
_COMMANDS = {name: command for group in _GROUPS.values() for name, command in group.items()}
#: Old names of commands, and the new ones.
RENAMED: dict[str, list[str]] = _DECLARED["renamed"]


class _LazyGroup(click.Group):
    """A group whose commands are imported when they are called or their own help is shown."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the help."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; an old name gives the new one, an unknown one an error."""
        if args and args[0] in RENAMED:
            old, *rest = args
            args = [*RENAMED[old], *rest]
            if not ctx.resilient_parsing:
                text = f"warning: `gridtune {old}` is `gridtune {' '.join(RENAMED[old])}` now"
                click.echo(f"{text}; the old name works until version 0.3", err=True)
        if args and args[0] not in _COMMANDS:
            ctx.fail(f"no command is named {args[0]!r}: {name_hint(args[0], _COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their one line, importing none."""
        width = max(map(len, _COMMANDS))
        for group, commands in _GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(width), line) for name, (_, line) in commands.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gridtune")
def cli() -> None:
    """Compare scheduling policies on your workload, with confidence intervals.

    \b
    First steps:
      gridtune simulate quickstart                    one log, one policy
      gridtune simulate quickstart --order sjf        another policy
      gridtune sweep search_spaces/quickstart.yaml    many policies, compared
      gridtune init my_log.swf.gz                     a search space for your log
      gridtune ui                                     all runs, for the browser

    A log is a file in one of the formats that `gridtune traces list` shows, also compressed (.gz, .xz), or a
    name from that list. Each command has its own --help with examples; `gridtune help WORD` explains a word.

    Exit codes: 0 success, 1 some cells failed or results differ, 2 invalid input, 130 interrupted.
    """


def main(args: Sequence[str] | None = None, **extra: Any) -> None:
    """Run the command line; gridtune's own errors are printed without a traceback."""
    _end_at_signals()
    warnings.formatwarning = _warning_text
    try:
        code = cli.main(args=args, prog_name="gridtune", standalone_mode=False, **extra)
    except GridtuneError as fault:
        click.echo(f"error: {fault}", err=True)
        code = _EXIT_BAD_INPUT
    except click.ClickException as fault:
        click.echo(_usage_error(fault), err=True)
        code = fault.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        code = _EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed it (`| head`): print nothing more, not even at exit.
        sys.stderr.close()
        code = 0
    except OSError as fault:
        click.echo(f"error: {_reason(fault)}", err=True)
        code = _EXIT_BAD_INPUT
    except ImportError as fault:
        if is_ours(fault.name or __name__):
            raise
        absent = isinstance(fault, ModuleNotFoundError)
        state = "is not installed" if absent else f"cannot be imported: {fault}"
        package = (fault.name or "gridtune").partition(".")[0]
        install = f"pip install '{_EXTRAS.get(package, package)}' brings it"
        text = f"error: {fault.name or 'a package'} {state}\n  hint: {install}"
        click.echo(f"{text}; gridtune doctor checks the installation", err=True)
        code = _EXIT_BAD_INPUT
    sys.exit(code if isinstance(code, int) else 0)


def _warning_text(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Return a warning as a line; of others than gridtune's with its place in the code."""
    if issubclass(category, GridtuneWarning):
        return f"warning: {message}\n"
    return _USUAL_TEXT(message, category, filename, lineno, line)


def _end_at_signals() -> None:
    """End a command cleanly, as Ctrl-C does, at SIGTERM of `kill` and SIGHUP of a terminal."""
    ours = threading.current_thread() is threading.main_thread()
    for one in (signal.SIGTERM, signal.SIGHUP):
        # `nohup` ignores SIGHUP.
        if ours and signal.getsignal(one) is signal.SIG_DFL:
            signal.signal(one, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End as Ctrl-C does; Ray's handler of SIGTERM has set an alarm that would abort this process soon."""
    signal.alarm(0)
    raise KeyboardInterrupt


def _usage_error(fault: click.ClickException) -> str:
    """Return what is wrong with the arguments, and how the command is called; of a bare group, its help."""
    if isinstance(fault, click.exceptions.NoArgsIsHelpError):
        return fault.format_message()
    context = fault.ctx if isinstance(fault, click.UsageError) else None
    # The choices, which click lists line by line, are in the usage, too.
    message = fault.format_message().partition(". Choose from:")[0].strip()
    message = message.removesuffix(".").replace(". (Did", " (did")
    text = f"error: {message[:1].lower()}{message[1:]}"
    if context is None:
        return text
    usage = " ".join(context.get_usage().removeprefix("Usage: ").split())
    return f"{text}\n  hint: {usage}; see {context.command_path} --help"


def _reason(fault: OSError) -> str:
    """Return what the operating system refused, the file first where it names one, and what to do."""
    reason = (fault.strerror or str(fault) or type(fault).__name__).lower()
    text = reason if fault.filename is None else f"{fault.filename}: {reason}"
    hint = _HINTS.get(fault.errno or 0)
    return text if hint is None else f"{text}\n  hint: {hint}"
