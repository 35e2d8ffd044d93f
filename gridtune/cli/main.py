"""`gridtune`: the command line. Commands are imported when they are called, so that help is quick."""

from __future__ import annotations

import errno
import importlib
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Any

import click

from gridtune import __version__
from gridtune.errors import GridtuneError, GridtuneWarning
from gridtune.registry import is_ours, name_hint

__all__ = ["EXIT_FAILED_CELLS", "cli", "main"]

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

#: Commands by what they are for: each with the module that defines it, and its line in the help, which is
#: shown without importing it. `module:name` is for a command whose name means something else in Python.
_GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Prepare": {
        "init": ("gridtune.cli.init", "Write a search space for a log of your own."),
        "list": (
            "gridtune.cli.help:list_command",
            "List systems, queue orders, predictors, metrics, spaces or traces.",
        ),
        "systems": ("gridtune.cli.help", "Show one system: metrics, search spaces, published figures."),
        "traces": ("gridtune.cli.traces", "Find, look at, convert, make and fetch workloads."),
    },
    "Run": {
        "choose": ("gridtune.cli.policies.choose", "Find the policy for a log; judge it on later jobs."),
        "simulate": ("gridtune.cli.simulate", "Replay one log under one policy, at once."),
        "run": ("gridtune.cli.run", "Run one cell of a registered system."),
        "predict": (
            "gridtune.cli.policies.predict",
            "Say how well run times are foreseen, and what it gains.",
        ),
        "score": ("gridtune.cli.policies.score", "Check a policy for leaks; compare it with simple rules."),
        "sweep": ("gridtune.cli.sweep", "Run a search space; rank, plot and track it."),
        "reproduce": ("gridtune.cli.run", "Run a paper's experiments again, with a verdict per claim."),
        "merge": ("gridtune.cli.sweep", "Put the shards of a sweep together."),
        "train": ("gridtune.cli.train", "Train an agent for a system with RLlib, under Tune."),
        "status": ("gridtune.cli.status", "See what a sweep is doing, also after its driver died."),
        "repair": ("gridtune.cli.status", "Set broken lines of a sweep's journal aside."),
        "rerun": ("gridtune.cli.run", "Run a sweep's cell again and compare it, bit by bit."),
    },
    "Advise on Slurm": {
        "fit": ("gridtune.cli.slurm", "How near a simulated cluster comes to recorded waits."),
        "waits": ("gridtune.cli.slurm", "When pending jobs will start, with intervals."),
        "whatif": ("gridtune.cli.slurm", "What jobs would wait under another slurm.conf, and who pays."),
    },
    "Look at results": {
        "report": ("gridtune.cli.report", "Tables and figures of a sweep that has been run."),
        "compare": ("gridtune.cli.report", "Compare two sweeps, or two configurations of one."),
        "export": ("gridtune.cli.report", "Write the best configuration as YAML or JSON."),
        "ui": ("gridtune.cli.status", "Open the MLflow UI on the right store."),
    },
    "Set up": {
        "doctor": ("gridtune.cli.doctor", "Check the installation and this machine."),
        "help": ("gridtune.cli.help:help_command", "Show a command's help, or what a word means."),
        "completion": (
            "gridtune.cli.help:completion",
            "Print the script that completes commands in your shell.",
        ),
    },
}
_COMMANDS = {name: command for group in _GROUPS.values() for name, command in group.items()}


class _LazyGroup(click.Group):
    """A group whose commands are imported when they are called or their own help is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the help."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute or cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for a name there is none of, say which was probably meant."""
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
    """Find out which policy is best on your workload, by how much, and whether that is sure.

    \b
    First steps:
      gridtune simulate quickstart                    one log, one policy
      gridtune simulate quickstart --order sjf        another policy
      gridtune sweep search_spaces/quickstart.yaml    many policies, compared
      gridtune init my_log.swf.gz                     the same question of your own log
      gridtune ui                                     every run, in the browser

    Wherever a log is asked for, give a name or a file in one of the formats that `gridtune traces list`
    shows, also compressed (.gz, .xz). Each command has its own --help with examples;
    `gridtune help WORD` says what a word means.

    Exit codes: 0 all well, 1 some cells failed or something differs, 2 bad input, 130 interrupted.
    """


def main(args: Sequence[str] | None = None, **extra: Any) -> None:
    """Run the command line; gridtune's own errors are printed without a traceback."""
    _end_at_sigterm()
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
        click.echo(
            f"error: {fault.name or 'a package'} {state}\n  hint: {_install_hint(fault.name)}", err=True
        )
        code = _EXIT_BAD_INPUT
    sys.exit(code if isinstance(code, int) else 0)


def _warning_text(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Return a warning as a line; of others than gridtune's with its place in the code."""
    if issubclass(category, GridtuneWarning):
        return f"warning: {message}\n"
    return _USUAL_TEXT(message, category, filename, lineno, line)


def _install_hint(module: str | None) -> str:
    """Return how the package of a module that cannot be imported is installed."""
    package = (module or "gridtune").partition(".")[0]
    install = f"pip install '{_EXTRAS.get(package, package)}'"
    return f"{install} brings it; gridtune doctor checks the installation"


def _end_at_sigterm() -> None:
    """Let SIGTERM, which batch systems and `kill` send, end a command as Ctrl-C does: cleanly."""
    ours = threading.current_thread() is threading.main_thread()
    if ours and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def _usage_error(fault: click.ClickException) -> str:
    """Return what is wrong with the arguments, and how the command is called; of a bare group, its help."""
    if isinstance(fault, click.exceptions.NoArgsIsHelpError):
        return fault.format_message()
    # The choices, which click lists line by line, are in the usage, too.
    message = fault.format_message().partition(". Choose from:")[0].strip()
    message = message.removesuffix(".").replace(". (Did", " (did")
    text = f"error: {message[:1].lower()}{message[1:]}"
    context = fault.ctx if isinstance(fault, click.UsageError) else None
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
