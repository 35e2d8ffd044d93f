"""`gridtune init`: a first search space for a log of one's own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gridtune.cli.parameters import FILE, FORCE, check_new, complete_systems

if TYPE_CHECKING:
    from gridtune.core.system import SuggestedSpace, System
    from gridtune.workload.workload import Workload

__all__ = ["init"]


@click.command()
@click.argument("log")
@click.option(
    "--processors", type=click.IntRange(min=1), help="The machine's size, if the log does not say it."
)
@click.option(
    "--system",
    "system_name",
    shell_complete=complete_systems,
    help="The system to search. [default: that of `gridtune simulate`]",
)
@click.option(
    "--slurm",
    type=click.Path(exists=True, path_type=Path),
    metavar="FOLDER",
    help="Search the settings of this folder's slurm.conf; the baseline is what runs.",
)
@click.option(
    "--fit",
    "fitted",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --slurm: what `gridtune slurm fit` found, for every configuration.",
)
@click.option("--name", help="The study's name. [default: that of the log]")
@click.option(
    "--out",
    type=FILE,
    help="The file. [default: NAME.yaml, in search_spaces/ if there is such a folder]",
)
@FORCE
def init(
    log: str,
    processors: int | None,
    system_name: str | None,
    slurm: Path | None,
    fitted: Path | None,
    name: str | None,
    out: Path | None,
    force: bool,
) -> None:
    """Write a search space for LOG, to be run as it is or to be edited.

    LOG is a file or a name that `gridtune traces list` shows. Policies and replicates are chosen to suit it:
    windows if it is long enough, rules that need walltimes only if it has some. If the log does not say how
    large the machine is, that is asked for; where nobody can answer, give --processors.

    \b
    Examples:
      gridtune init my_log.swf.gz
      gridtune init my_log.swf.gz --processors 512 --out study.yaml
      gridtune init kth-sp2 --system shutdown
      gridtune init sacct.txt --slurm /etc/slurm --fit results/fit-sacct/fit.yaml
    """
    from gridtune.core.remarks import doubts, remark_lines
    from gridtune.core.system import default_system, get_system
    from gridtune.sweep.journal.disk import check_writable
    from gridtune.sweep.space.starter import space_name, starter_text

    if slurm is not None and (system_name or processors):
        raise click.UsageError("--slurm takes neither --system nor --processors: slurm.conf says both.")
    if fitted is not None and slurm is None:
        raise click.UsageError("--fit goes with --slurm: it is how that cluster works.")
    if slurm is not None:
        from gridtune.slurm.effective import Effective
        from gridtune.slurm.study import SYSTEM, suggest_study

        works = Effective() if fitted is None else Effective.read(fitted)
        system_name = SYSTEM
    system = default_system() if system_name is None else get_system(system_name)
    name = name or space_name(log)
    out = out or (Path("search_spaces") if Path("search_spaces").is_dir() else Path()) / f"{name}.yaml"
    check_new(out, force=force)
    check_writable(out.parent)
    workload = _read(log)
    if slurm is None:
        starter, size = _starter(system, workload, processors)
    else:
        starter, size = suggest_study(slurm, workload, works), None
    # A path is written relative to the search space, as it is read; a name of the catalogue stays one.
    given = Path(log).expanduser()
    trace = os.path.relpath(given.resolve(), out.parent.resolve()) if given.exists() else log
    text = starter_text(system, starter, workload, name=name, trace=trace, path=str(out))
    cells, configurations = _checked(text, out, workload)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    made_of = f"{configurations} configurations with {cells // configurations} replicates each"
    click.echo(f"{out}: {cells:,} cells, {made_of}, on {len(workload):,} jobs")
    if size is not None:
        notes = doubts(workload.contents, size, stated=workload.machine_processors is not None)
        for line in remark_lines(notes):
            click.echo(line, err=True)
    click.echo(f"next: gridtune sweep {out}")


def _read(log: str) -> Workload:
    """Return the jobs of a log, or of a folder or an archive of logs that each hold a day."""
    from gridtune.workload.catalogue import resolve_trace
    from gridtune.workload.files import WorkloadReference, is_archive

    file = resolve_trace(log)
    return WorkloadReference(log, days=file.is_dir() or is_archive(file)).read()


def _starter(system: System, workload: Workload, processors: int | None) -> tuple[SuggestedSpace, int | None]:
    """Return what the system proposes, and the machine's size where it is known."""
    from gridtune.errors import SweepError

    size = processors or workload.machine_processors
    starter = system.suggest_space(workload, size)
    if starter is None:
        raise SweepError(
            f"the system {system.name} proposes no search space for a log",
            hint=f"copy one of those that `gridtune list spaces {system.name}` shows",
        )
    if size is not None or not starter.needs_size:
        return starter, size
    size = _ask_for_size(workload)
    asked = system.suggest_space(workload, size)
    assert asked is not None
    return asked, size


def _ask_for_size(workload: Workload) -> int:
    from gridtune.errors import SweepError

    columns = (workload.columns.get(name) for name in ("requested_processors", "allocated_processors"))
    widest = max(1, *(int(column.max()) for column in columns if column is not None and len(column)))
    if not _someone_answers():
        raise SweepError(
            "the log does not say how large the machine is",
            path=workload.source,
            hint=f"give --processors N; the widest job has {widest:,}",
        )
    question = f"How many processors has the machine? (the log does not say; its widest job has {widest:,})"
    return int(click.prompt(question, type=click.IntRange(min=widest), err=True))


def _someone_answers() -> bool:
    return sys.stdin.isatty()


def _checked(text: str, out: Path, workload: Workload) -> tuple[int, int]:
    """Return how many cells and configurations the text comes to, checked as before a sweep."""
    from gridtune.errors import GridtuneError, SweepError
    from gridtune.sweep.run import space_cells
    from gridtune.sweep.space.schema import parse_space

    space = parse_space(text, path=out)
    try:
        cells = space_cells(space)
    except GridtuneError as fault:
        # The file that the fault names is not there yet: it is the log that does not suit the system.
        raise SweepError(fault.message, path=workload.source, hint=fault.hint) from None
    return len(cells), len({cell.configuration_id for cell in cells})
