"""`gridtune init` and `gridtune sweep`: write a search space for a log; run or estimate one."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import check_new, command, read_settings
from gridtune.cli.tables import print_json

if TYPE_CHECKING:
    from gridtune.core.cells import CellResult
    from gridtune.core.system import SuggestedSpace, System
    from gridtune.study.run import Output
    from gridtune.sweep.space.plan import PlannedSpace
    from gridtune.sweep.space.schema import SearchSpace
    from gridtune.workload.workload import Workload

#: States of cells that `--retry all` runs again.
_RETRIED = frozenset({"failed", "timed_out", "lost"})


@command()
def init(
    log: str,
    *,
    processors: int | None = None,
    system: str | None = None,
    slurm: Path | None = None,
    slurm_version: str | None = None,
    fit: Path | None = None,
    name: str | None = None,
    out: Path | None = None,
    force: bool = False,
) -> None:
    """Write a search space for LOG, to be run as it is or to be edited.

    LOG is a file or a name that `gridtune traces list` shows. Policies and replicates are chosen to suit it:
    windows if it is long enough, rules that need walltimes only if it has some. If the log does not say how
    large the machine is, give --processors.

    \b
    Examples:
      gridtune init my_log.swf.gz
      gridtune init my_log.swf.gz --processors 512 --out study.yaml
      gridtune init sacct.txt --slurm /etc/slurm --fit results/fit-sacct/fit.yaml

    Parameters
    ----------
    system
        A plug-in's system that proposes a search; by default that of `gridtune simulate`.
    slurm
        Search the settings of the slurm.conf in this folder; the baseline is the present configuration.
    slurm_version
        With --slurm: release, such as 24.11.5; by default that of scontrol_show_config.txt in FOLDER.
    fit
        With --slurm: file of fitted settings, as `gridtune slurm fit` writes it.
    name
        Name of the study; by default that of the log.
    out
        The file; by default NAME.yaml, in search_spaces/ if there is such a folder.
    """
    from gridtune.core.remarks import doubts, remark_lines
    from gridtune.core.system import default_system, get_system
    from gridtune.sweep.space.starter import space_name, starter_text
    from gridtune.workload.files import WorkloadReference

    if slurm is not None and (system or processors):
        raise click.UsageError("--slurm takes neither --system nor --processors: slurm.conf says both.")
    if slurm is None and (fit or slurm_version):
        raise click.UsageError("--fit and --slurm-version go with --slurm: they describe that cluster.")
    if slurm is not None:
        from gridtune.slurm.comparison import logged_jobs, not_modelled
        from gridtune.slurm.configuration import read_cluster
        from gridtune.slurm.study import SYSTEM, Effective, suggest_study
        from gridtune.slurm.versions import version_of

        works = Effective() if fit is None else Effective.read(fit)
        system = SYSTEM
    searched = default_system() if system is None else get_system(system)
    name = name or space_name(log)
    out = out or (Path("search_spaces") if Path("search_spaces").is_dir() else Path()) / f"{name}.yaml"
    check_new(out, force=force)
    workload = WorkloadReference(log).read()
    if slurm is None:
        starter, size = _starter(searched, workload, processors)
        ignored = []
    else:
        version = version_of(slurm_version, slurm, workload)
        cluster = read_cluster(slurm, version=version)
        starter, size = suggest_study(slurm, cluster, workload, works, version), None
        ignored = [*logged_jobs(workload, cluster).remarks, *not_modelled(workload, cluster)]
    # A path is written relative to the search space, as it is read; a name of the catalogue stays one.
    given = Path(log).expanduser()
    trace = os.path.relpath(given.resolve(), out.parent.resolve()) if given.exists() else log
    text = starter_text(searched, starter, workload, name=name, trace=trace, path=str(out))
    cells, configurations = _checked(text, out, workload)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    made_of = f"{configurations} configurations with {cells // configurations} replicates each"
    click.echo(f"{out}: {cells:,} cells, {made_of}, on {len(workload):,} jobs")
    for line in ignored:
        click.echo(f"not modelled: {line}", err=True)
    if size is not None:
        notes = doubts(workload.contents, size, stated=workload.machine_processors is not None)
        for line in remark_lines(notes):
            click.echo(line, err=True)
    click.echo(f"next: gridtune sweep {out}")


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
    if size is None and starter.needs_size:
        columns = (workload.columns.get(name) for name in ("requested_processors", "allocated_processors"))
        widest = max(1, *(int(column.max()) for column in columns if column is not None and len(column)))
        raise SweepError(
            "the log does not say how large the machine is",
            path=workload.source,
            hint=f"give --processors N; the widest job has {widest:,}",
        )
    return starter, size


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


@command()
def sweep(
    space: Path,
    *,
    address: str | None = None,
    workers: int | None = None,
    executor: Literal["auto", "inline", "ray"] | None = None,
    tracking: bool = True,
    tracking_uri: str | None = None,
    directory: str | Path | None = None,
    settings: Sequence[str] = (),
    objective: str | None = None,
    retry: Sequence[Literal["failed", "timed_out", "lost", "all"]] = (),
    shard: str | None = None,
    figures: bool = True,
    dry_run: bool = False,
    quiet: bool = False,
    as_json: bool = False,
) -> None:
    """Run the cells of a search space; rank the configurations, draw them, track them in MLflow.

    Finished cells are kept in a journal. Stopped or killed at any moment, the same command goes on with
    the missing cells; with the space extended, it runs the new ones. A few seconds of work are done in this
    process; more, and every sweep with --workers or --address, is done by workers on Ray.

    \b
    Examples:
      gridtune sweep search_spaces/quickstart.yaml
      gridtune sweep my_space.yaml --dry-run
      gridtune sweep my_space.yaml --workers 8 --out results/tuesday
      gridtune sweep my_space.yaml --address head:6379 --tracking-uri http://mlflow:5000
      gridtune sweep my_space.yaml --out s3://bucket/my_space
      gridtune sweep my_space.yaml --retry failed --retry lost
      gridtune sweep my_space.yaml --set order=sjf --set order=saf --set replicates.windows=5
      gridtune sweep my_space.yaml --shard 3/16

    \b
    --set NAME=VALUE is as if the file said so:
      a dimension         is narrowed to the value; given several times, to these. The baseline's stays.
      a fixed parameter   gets the value; so does a parameter that the file does not set
      a workload's (trace=…, or workload=LABEL): only the workloads that have the value are run
      baseline.NAME       gets the value; null removes the parameter from the baseline
      replicates.seeds, .windows, .held_back, .shakes, .amount: get the value
      strategy.KIND.SETTING, such as strategy.optuna.trials: gets the value

    VALUE is YAML: null, true, 3, [sjf, saf].

    Every key of a search space is explained in docs/search_spaces.md.

    Parameters
    ----------
    settings
        Override a value of the space, or narrow a dimension to it; see above.
    retry
        Run cells again that ended so.
    shard
        K/N: run only the K-th of N parts of the cells, into results/NAME/shards/K-of-N.
    figures
        Draw no picture files. The page has its own charts, and `gridtune report` draws the files later.
    dry_run
        Check the space, count its cells, those that are done and those that are missing; run nothing.
    """
    from gridtune.sweep.space.overriding import override
    from gridtune.sweep.space.plan import plan_space

    plan = plan_space(space)
    if settings or objective is not None:
        plan = override(plan, read_settings(settings, "--set"), objective=objective)
    again = _RETRIED if "all" in retry else frozenset(retry)
    if dry_run:
        if shard is not None:
            raise click.UsageError("--dry-run counts the cells of the whole space: leave --shard out.")
        _print_plan(plan, directory, retry=again, workers=workers, as_json=as_json)
        return
    options: dict[str, Any] = {"address": address, "workers": workers, "executor": executor}
    options |= {"directory": directory, "retry_failed": again}
    options |= {"output": "json" if as_json else "quiet" if quiet else "screen"}
    if shard is not None:
        if tracking_uri is not None:
            raise click.UsageError("--shard tracks nothing: give --tracking-uri to gridtune results merge.")
        _run_shard(plan, shard, **options)
        return
    from gridtune.study.finished import finished_answer

    began = time.monotonic()
    answer = None
    if not isinstance(directory, str):
        answer = finished_answer(plan, directory, tracking=tracking, uri=tracking_uri)
    if answer is not None:
        screen, content = answer
        if as_json:
            print_json({**content, "seconds": time.monotonic() - began})
        elif not quiet:
            click.echo(screen, nl=False)
        return
    from gridtune.study import run_sweep

    study = run_sweep(plan, tracking=tracking, tracking_uri=tracking_uri, figures=figures, **options)
    if as_json:
        print_json(study.as_dict())
    if not study.complete:
        sys.exit(EXIT_FAILED_CELLS)


def _run_shard(plan: PlannedSpace, text: str, *, output: Output, **options: Any) -> None:
    from gridtune.study.run import run_shard
    from gridtune.sweep.shards import Shard

    shard = Shard.parse(text)
    result = run_shard(plan, shard, output=output, **options)
    folder = options["directory"] or result.path.parent
    if output == "json":
        numbers = {"shard": str(shard), "cells": len(result.results), "ran": result.ran, **result.counts}
        print_json({**numbers, "directory": folder})
    elif output == "screen":
        states = ", ".join(f"{count:,} {state}" for state, count in result.counts.items() if count)
        click.echo(f"shard {shard}: {len(result.results):,} cells ({states or 'none'}) in {folder}")
        around = str(folder).rpartition("/")[0] or "."
        click.echo(f"  when all {shard.count} are there: gridtune results merge {around} --out FOLDER")
    if not result.complete:
        sys.exit(EXIT_FAILED_CELLS)


def _print_plan(
    plan: PlannedSpace,
    folder: str | Path | None,
    *,
    retry: Collection[str],
    workers: int | None,
    as_json: bool,
) -> None:
    """Print how many cells there are, are done and are missing, and about how long those take.

    Parameters
    ----------
    plan
        The space.
    folder
        The sweep's folder or URL; by default the folder of its name.
    retry
        States of cells that are to be run again.
    workers
        Cells at once; by default those of the space, else as many as there are processors.
    as_json
        Print one JSON object.
    """
    from gridtune.report.labels import count_text
    from gridtune.sweep.execution.observing import clock_text
    from gridtune.sweep.journal.journal import JOURNAL_NAME, read_journal
    from gridtune.sweep.remote.results import has_sweep, view_sweep
    from gridtune.sweep.run import default_directory

    space, adaptive = plan.space, plan.space.strategy.adaptive
    plan.preflight()
    folder = folder or default_directory(space)
    results: Mapping[str, CellResult] = {}
    if has_sweep(folder):
        with view_sweep(folder) as view:
            results = read_journal(view.folder / JOURNAL_NAME)
    if adaptive is None:
        # Of a strategy that decides, the journal has the cells of its choices.
        results = {key: result for key, result in results.items() if plan.has(result)}
    left = max(0, plan.most - sum(result.state not in retry for result in results.values()))
    taken = [one.seconds for one in results.values() if one.state == "done" and isfinite(one.seconds)]
    resources = space.resources
    at_once = workers or resources.workers or int((os.cpu_count() or 1) / (resources.cpus or 1))
    at_once = max(1, min(at_once, left))
    states: Counter[str] = Counter(result.state for result in results.values())
    summary: dict[str, Any] = {
        "name": space.name,
        "cells": plan.count,
        "configurations": len(plan.configurations),
        "workloads": sorted(stratum.label for stratum in plan.strata),
        "replicates": space.replicates.count,
        **({} if adaptive is None else {"trials": adaptive.trials, "most_cells": plan.most}),
        **{state: states[state] for state in ("done", *sorted(_RETRIED))},
        "missing": left,
        "workers": at_once,
        "seconds_left": left * sum(taken) / len(taken) / at_once if taken else None,
    }
    if as_json:
        print_json(summary)
        return
    click.echo(f"{space.name}: {space.description}" if space.description else space.name)
    click.echo(f"{_heading(space, summary)}; workloads {', '.join(summary['workloads'])}")
    counts = [f"{states['done']:,} done"]
    counts += [f"{states[state]:,} {state.replace('_', ' ')}" for state in sorted(_RETRIED) if states[state]]
    up_to, about = ("", "about") if adaptive is None else ("up to ", "at most")
    text = f"in {folder}: {', '.join(counts)}, {up_to if left else ''}{left:,} to run"
    if left and not taken:
        text += "; how long that takes is not known before a cell has been run"
    elif left:
        clock = clock_text(summary["seconds_left"])
        text += f": {about} {clock} with {count_text(at_once, 'worker')}, start and report not counted"
    click.echo(text)


def _heading(space: SearchSpace, summary: Mapping[str, Any]) -> str:
    """Return how many cells there are, or will be at most, and their configurations and replicates."""
    from gridtune.report.labels import count_text

    replicates = count_text(summary["replicates"], "replicate")
    if "trials" not in summary:
        configurations = count_text(summary["configurations"], "configuration")
        each = ", each" if summary["configurations"] > 1 else ""
        return f"{count_text(summary['cells'], 'cell')}: {configurations}{each} with {replicates}"
    baseline = "the baseline and " if summary["cells"] else ""
    configurations = f"{count_text(summary['trials'], 'configuration')} that {space.strategy.kind} chooses"
    early = "; most are stopped early" if space.strategy.stopping is not None else ""
    cells = count_text(summary["most_cells"], "cell")
    return f"up to {cells}: {baseline}{configurations}, {replicates} each{early}"
